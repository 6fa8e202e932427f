//! Live access by events, both ends ours: the hub asks, the agent answers from the API of its cluster.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use thane_agent::connection::Opened;
use thane_agent::live::{Live as Answers, Parts};
use thane_api::event::Event;
use thane_hub::live::Events;
use thane_hub::proxy::{Body, Caller, Reach, Source};
use thane_hub::transport::{Live, Stream};
use thane_link::{Passage, Passing};
use thane_runtime::{SystemClock, Tasks};
use tokio::sync::{mpsc, watch};

use crate::bed::{Bed, Setup, within};

const TRACKED: &str = "argocd.argoproj.io/tracking-id";

/// What the cluster has, by path; anything that is written is answered with itself.
async fn cluster(request: Request<kube::client::Body>) -> Result<Response<Full<Bytes>>, std::convert::Infallible> {
    let configmap = |name: &str, annotations: Value, owners: Value| json!({"kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop", "annotations": annotations, "ownerReferences": owners}});
    let owned = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "web"}]);
    let method = request.method().to_string();
    let path = request.uri().path().to_owned();
    let (status, body) = match (method.as_str(), path.as_str()) {
        ("GET", "/api") => (200, json!({"kind": "APIVersions", "versions": ["v1"]})),
        ("GET", "/apis") => (200, json!({"kind": "APIGroupList", "groups": [{"name": "apps"}]})),
        ("GET", "/api/v1") => {
            (200, json!({"resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": true}]}))
        }
        ("GET", "/api/v1/namespaces/shop/configmaps/web") => (200, configmap("web", json!({TRACKED: "x"}), json!([]))),
        ("GET", "/api/v1/namespaces/shop/configmaps/child") => (200, configmap("child", json!({}), owned)),
        ("GET", "/api/v1/namespaces/shop/configmaps/stray") => (200, configmap("stray", json!({}), json!([]))),
        ("GET", "/api/v1/namespaces/shop/events") => {
            (200, json!({"kind": "EventList", "query": request.uri().query()}))
        }
        ("GET", "/api/v1/namespaces/shop/pods/web/log") => {
            let query = request.uri().query().unwrap_or_default();
            assert!(query.contains("timestamps=true"), "{query}");
            let lines: Vec<String> =
                (0..3000).map(|line| format!("2026-01-01T00:00:00.{line:09}Z line {line}\n")).collect();
            let log = lines.concat();
            return Ok(Response::new(Full::new(Bytes::from(log))));
        }
        ("POST" | "PATCH" | "DELETE", _) => {
            let kind = request.headers().get("content-type").and_then(|value| value.to_str().ok()).map(str::to_owned);
            let body = request.into_body().collect().await.unwrap().to_bytes();
            (
                if method == "POST" { 201 } else { 200 },
                json!({"method": method, "type": kind, "body": String::from_utf8_lossy(&body)}),
            )
        }
        _ => (
            404,
            json!({"kind": "Status", "status": "Failure", "message": "no such thing is found here: not found", "code": 404}),
        ),
    };
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
    Ok(response)
}

/// Puts what is given to a line on the stream it belongs to.
fn pass(mut events: mpsc::Receiver<Event>, outgoing: mpsc::Sender<Event>, tasks: &Tasks) {
    tasks.spawn("pass", async move {
        while let Some(event) = events.recv().await {
            if outgoing.send(event).await.is_err() {
                return;
            }
        }
    });
}

/// A hub that asks and an agent that answers.
struct Both {
    events: Events,
    _bed: Bed,
    _tasks: Tasks,
}

impl Both {
    async fn start() -> Self {
        let (tasks, _) = Tasks::root("both");
        let passage = Passage::default();
        let events = Events::new(passage.clone(), &mut Registry::default(), tasks.child("hub"));
        let live: Arc<dyn Live> = Arc::new(events.clone());
        let mut bed = Bed::with(Setup { live, ..Setup::default() }).await;
        let (stream, opened) = bed.pair("agent-a", bed.config()).await;
        let Stream { outgoing, mut incoming, close, .. } = stream;
        pass(passage.attach("agent-a", close), outgoing, &tasks);
        let taking = events.clone();
        tasks.spawn("hub-incoming", async move {
            while let Some(Ok(event)) = incoming.recv().await {
                taking.received("agent-a", event);
            }
        });
        Self::answer(opened, &tasks);
        Self { events, _bed: bed, _tasks: tasks }
    }

    fn answer(opened: Opened, tasks: &Tasks) {
        let Opened { outgoing, mut incoming, close, calls, .. } = opened;
        let passage = Passage::default();
        pass(passage.attach("hub", close), outgoing, tasks);
        let (told, calls) = watch::channel(Some(calls));
        let parts = Parts {
            client: kube::Client::new(tower::service_fn(cluster), "default"),
            passage,
            calls,
            namespace: "argocd".to_owned(),
            clock: SystemClock::shared(),
            tasks: tasks.child("agent"),
        };
        let answers = Answers::new(parts, &mut Registry::default());
        tasks.spawn("agent-incoming", async move {
            let _told = told;
            while let Some(Ok(event)) = incoming.recv().await {
                answers.received("hub", event);
            }
        });
    }

    async fn send(&self, method: &str, uri: &str, body: &'static str) -> (u16, Bytes) {
        let user = Caller { name: "anna".to_owned(), groups: Vec::new(), source: Source::People };
        let body: Body = Full::new(Bytes::from_static(body.as_bytes())).map_err(|never| match never {}).boxed_unsync();
        let request = Request::builder().method(method).uri(uri).body(body).unwrap();
        let response = within(self.events.send("agent-a", &user, request)).await.unwrap();
        let status = response.status().as_u16();
        (status, within(response.into_body().collect()).await.unwrap().to_bytes())
    }
}

#[tokio::test]
async fn what_argo_cd_manages_can_be_seen_and_changed_and_nothing_else() {
    let both = Both::start().await;
    let configmaps = "/api/v1/namespaces/shop/configmaps";
    let cases = [
        ("GET", format!("{configmaps}/web"), 200, "\"name\":\"web\""),
        ("GET", format!("{configmaps}/child"), 200, "\"name\":\"child\""),
        ("GET", format!("{configmaps}/stray"), 403, "not managed"),
        ("GET", format!("{configmaps}/absent"), 404, "not found"),
        ("PATCH", format!("{configmaps}/web"), 200, "application/merge-patch+json"),
        ("PATCH", format!("{configmaps}/stray"), 403, "not managed"),
        ("DELETE", format!("{configmaps}/web"), 200, "DELETE"),
        ("DELETE", format!("{configmaps}/stray"), 403, "not managed"),
        ("POST", configmaps.to_owned(), 201, "POST"),
        (
            "GET",
            "/api/v1/namespaces/shop/events?limit=3&fieldSelector=a%3Db".to_owned(),
            200,
            "fieldSelector=a%3Db&limit=3",
        ),
        ("GET", "/api".to_owned(), 200, "[\"v1\"]"),
        ("GET", "/apis".to_owned(), 200, "[{\"name\":\"apps\"}]"),
        ("GET", "/apis/apps".to_owned(), 200, "\"APIGroup\""),
        ("GET", "/api/v1".to_owned(), 200, "configmaps"),
        ("GET", "/version".to_owned(), 200, "gitVersion"),
    ];
    for (method, uri, status, part) in cases {
        let body = if method == "GET" { "" } else { "{}" };
        let (answered, body) = both.send(method, &uri, body).await;
        let body = String::from_utf8_lossy(&body);
        assert!(answered == status && body.contains(part), "{method} {uri}: {answered} {body}");
    }
    assert_eq!(both.events.open(), 0);
}

#[tokio::test]
async fn a_log_comes_whole_without_its_times() {
    let both = Both::start().await;
    let (status, log) = both.send("GET", "/api/v1/namespaces/shop/pods/web/log", "").await;
    let expected = (0..3000).map(|line| format!("line {line}\n")).collect::<Vec<_>>().concat();
    assert_eq!((status, log.len()), (200, expected.len()));
    assert_eq!(log, expected);
    let (_, with) = both.send("GET", "/api/v1/namespaces/shop/pods/web/log?timestamps=true", "").await;
    assert!(with.starts_with(b"2026-01-01T00:00:00.000000000Z line 0\n"));
    let (status, _) = both.send("GET", "/api/v1/namespaces/shop/pods/gone/log", "").await;
    assert_eq!(status, 404);
    assert_eq!(both.events.open(), 0);
}
