use std::collections::BTreeSet;

use http::{Request, Response};
use kube::client::Body;
use thane_api::event::Mode;
use thane_runtime::SystemClock;

use super::*;

/// An API that keeps agents and nothing else.
#[derive(Clone, Default)]
struct Agents {
    objects: Arc<Mutex<BTreeMap<String, Value>>>,
    changed: Arc<Notify>,
}

impl Agents {
    fn answer(&self, method: &str, name: &str, body: &Value) -> (u16, Value) {
        let mut objects = self.objects.lock();
        let absent = (404, json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}));
        let answer = match (method, objects.get_mut(name)) {
            ("GET", _) => (200, json!({"items": objects.values().collect::<Vec<_>>()})),
            ("POST", _) => {
                objects.insert(body["metadata"]["name"].as_str().unwrap().to_owned(), body.clone());
                (201, body.clone())
            }
            ("PATCH", Some(object)) => {
                merge(object, body);
                (200, object.clone())
            }
            ("DELETE", Some(_)) => (200, objects.remove(name).unwrap()),
            _ => absent,
        };
        self.changed.notify_one();
        answer
    }

    fn client(&self) -> Client {
        let agents = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let agents = agents.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap_or_default();
                let name = parts.uri.path().strip_prefix(PATH).unwrap().trim_start_matches('/').to_owned();
                let (code, answer) = agents.answer(parts.method.as_str(), &name, &body);
                let answer = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, std::convert::Infallible>(answer.unwrap())
            }
        });
        Client::new(service, "default")
    }

    /// Waits until an agent is like this.
    async fn until(&self, name: &str, is_right: impl Fn(Option<&Value>) -> bool) {
        let waiting = async {
            while !is_right(self.objects.lock().get(name)) {
                self.changed.notified().await;
            }
        };
        let waited = tokio::time::timeout(std::time::Duration::from_secs(30), waiting).await;
        assert!(waited.is_ok(), "{name} is {:?}", self.objects.lock().get(name));
    }
}

fn merge(there: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else { return there.clone_from(patch) };
    for (name, value) in patch {
        if value.is_null() {
            there.as_object_mut().unwrap().remove(name);
        } else {
            let field = &mut there[name];
            if value.is_object() && !field.is_object() {
                *field = json!({});
            }
            merge(field, value);
        }
    }
}

fn identity(agent: &str) -> Identity {
    Identity {
        agent: agent.to_owned(),
        mode: Mode::Managed,
        agent_namespace: "argocd".to_owned(),
        version: "1".to_owned(),
        capabilities: BTreeSet::new(),
        fingerprint: None,
    }
}

fn start(agents: &Agents) -> (Records, Tasks) {
    let (tasks, _supervisor) = Tasks::root("test");
    let records = Records::start(
        agents.client(),
        SystemClock::shared(),
        Placement::Destination,
        true,
        &tasks,
        &mut Registry::default(),
    );
    (records, tasks)
}

fn is_connected(agent: Option<&Value>) -> Option<bool> {
    agent?["status"]["connected"].as_bool()
}

const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

#[tokio::test]
async fn what_an_earlier_hub_left_is_put_right_and_a_stop_is_written() {
    let agents = Agents::default();
    let stale = json!({"metadata": {"name": "a"}, "status": {"connected": true, "troubles": {"hub": {"count": 1}}}});
    agents.objects.lock().insert("a".into(), stale);
    let (records, tasks) = start(&agents);
    agents.until("a", |agent| is_connected(agent) == Some(false)).await;
    assert_eq!(agents.objects.lock()["a"]["status"]["troubles"], Value::Null);
    records.connected(&identity("b"), 1, PEER, Timestamp::UNIX_EPOCH);
    agents.until("b", |agent| is_connected(agent) == Some(true)).await;
    let said = agents.objects.lock()["b"]["status"].clone();
    assert_eq!((said["placement"].as_str(), said["agentPlacement"].as_str()), (Some("destination"), None));
    let mut other = identity("b");
    other.capabilities.insert(BY_NAMESPACE.to_owned());
    records.connected(&other, 2, PEER, Timestamp::UNIX_EPOCH);
    agents.until("b", |agent| agent.is_some_and(|agent| agent["status"]["agentPlacement"] == "namespace")).await;
    tasks.shutdown(std::time::Duration::from_secs(30)).await;
    assert_eq!(is_connected(agents.objects.lock().get("b")), Some(false));
}

#[tokio::test]
async fn the_end_of_an_old_stream_does_not_hide_the_new_one_and_a_removed_agent_stays_away() {
    let agents = Agents::default();
    let (records, tasks) = start(&agents);
    let at = Timestamp::UNIX_EPOCH;
    records.connected(&identity("a"), 1, PEER, at);
    records.connected(&identity("a"), 2, PEER, at);
    records.disconnected("a", 1, at);
    records.connected(&identity("b"), 3, PEER, at);
    records.removed("b");
    records.disconnected("b", 3, at);
    // Written last, so that everything before it is.
    records.connected(&identity("c"), 4, PEER, at);
    agents.until("c", |agent| agent.is_some()).await;
    assert_eq!(is_connected(agents.objects.lock().get("a")), Some(true));
    assert!(!agents.objects.lock().contains_key("b"), "a removed agent is made again");
    records.disconnected("a", 2, at);
    agents.until("a", |agent| is_connected(agent) == Some(false)).await;
    tasks.shutdown(std::time::Duration::from_secs(30)).await;
    assert!(!agents.objects.lock().contains_key("b"));
}

#[tokio::test]
async fn troubles_of_both_sides_are_kept_and_go_when_they_are_over() {
    let agents = Agents::default();
    let (records, tasks) = start(&agents);
    records.connected(&identity("a"), 1, PEER, Timestamp::UNIX_EPOCH);
    let report = Report { count: 3, items: Vec::new() };
    records.troubled("a", Whose::Agent, &report);
    records.troubled("a", Whose::Hub, &report);
    let count = |agent: Option<&Value>, whose: &str| {
        agent.and_then(|agent| agent["status"]["troubles"][whose]["count"].as_u64())
    };
    agents.until("a", |agent| count(agent, "agent") == Some(3) && count(agent, "hub") == Some(3)).await;
    records.troubled("a", Whose::Agent, &Report::default());
    agents.until("a", |agent| count(agent, "agent").is_none()).await;
    assert_eq!(count(agents.objects.lock().get("a"), "hub"), Some(3));
    tasks.shutdown(std::time::Duration::from_secs(30)).await;
}
