//! Looks at Workflows of an API that is a function.

use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response};
use kube::client::Body;
use serde_json::json;
use thane_runtime::SystemClock;
use thane_runtime::tasks::Supervisor;

use super::queue::Key;
use super::store::{Memory, Stored};
use super::*;
use crate::engine::Refused;
use crate::steps::runner::{Room, Wanted};

type Answer = fn(&str, &str, &Value) -> (u16, Value);

/// Everything that is asked, as `VERB path`, with what was sent.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<(String, Value)>>>);

impl Asked {
    fn said(&self, start: &str) -> Vec<Value> {
        self.0.lock().iter().filter(|(line, _)| line.starts_with(start)).map(|(_, body)| body.clone()).collect()
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().iter().map(|(line, _)| line.clone()).collect()
    }
}

fn client(asked: &Asked, answer: Answer) -> Client {
    let asked = asked.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let asked = asked.clone();
        async move {
            let (head, body) = request.into_parts();
            let sent = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap_or_default();
            let (code, mut said) = answer(head.method.as_str(), head.uri.path(), &sent);
            if code >= 400 {
                said = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "", "message": said});
            }
            asked.0.lock().push((format!("{} {}", head.method, head.uri.path()), sent));
            let response = Response::builder().status(code).body(Body::from(said.to_string().into_bytes()));
            Ok::<_, std::convert::Infallible>(response.unwrap())
        }
    });
    Client::new(service, "ns")
}

/// Who has no sandboxes, and says what it was asked.
#[derive(Clone, Default)]
struct Nobody {
    claims: Arc<Mutex<Vec<Wanted>>>,
    sweeps: Arc<Mutex<usize>>,
    is_down: bool,
}

impl StepRunner for Nobody {
    fn image<'a>(&'a self, _: &'a str, pool: &'a str) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move { Err(format!("there is no pool {pool:?}")) })
    }

    fn claim<'a>(&'a self, wanted: &'a Wanted) -> BoxFuture<'a, Result<Option<Box<dyn Room>>, String>> {
        self.claims.lock().push(wanted.clone());
        Box::pin(async move { Ok(None) })
    }

    fn artifacts<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<std::path::PathBuf>, String>> {
        Box::pin(async { Ok(None) })
    }

    fn sweep<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), String>> {
        *self.sweeps.lock() += 1;
        Box::pin(async move { if self.is_down { Err("the API is down".to_owned()) } else { Ok(()) } })
    }
}

struct Bed {
    shared: Arc<Shared>,
    asked: Asked,
    _supervisor: Supervisor,
}

impl Bed {
    fn new(runner: Option<Nobody>, answer: Answer) -> Self {
        let asked = Asked::default();
        let (tasks, supervisor) = Tasks::root("test");
        let clock = SystemClock::shared();
        let shared = Shared {
            client: client(&asked, answer),
            options: Options {
                runner: runner.map(|runner| Arc::new(runner) as Arc<dyn StepRunner>),
                ..Options::default()
            },
            store: Store::default(),
            queue: Queue::new(Arc::clone(&clock)),
            clock,
            metrics: Metrics::default(),
            lodging: Lodging::default(),
            tasks,
            claimed: Mutex::default(),
        };
        for kind in ["a", "b", "c", "d", "e", "f"] {
            shared.store.listed(kind, watches::KINDS);
        }
        Self { shared: Arc::new(shared), asked, _supervisor: supervisor }
    }

    fn has(&self, spec: &Value, status: &Value, is_done: bool) -> Key {
        let labels = json!({"workflows.argoproj.io/completed": is_done.to_string()});
        self.shared.store.put(Stored::read(json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
            "metadata": {"name": "wf", "namespace": "ns", "uid": "u", "resourceVersion": "5", "labels": labels,
                "annotations": {"thane.dev/pool": "warm"}},
            "spec": spec, "status": status})))
    }

    async fn look(&self, key: &Key) {
        work::look(&self.shared, key).await;
    }

    /// Whether it is looked at again by itself.
    fn is_due(&self, key: &Key) -> bool {
        self.shared.queue.is_for_later(key)
    }
}

const TEMPLATES: &str = "/apis/argoproj.io/v1alpha1/namespaces/ns/workflowtemplates/";
const WORKFLOW: &str = "/apis/argoproj.io/v1alpha1/namespaces/ns/workflows/wf";
const RESULTS: &str = "/apis/argoproj.io/v1alpha1/namespaces/ns/workflowtaskresults";

/// An API in which what a Workflow names is there.
fn whole(verb: &str, path: &str, sent: &Value) -> (u16, Value) {
    let template = |name: &str, spec: Value| {
        (
            200,
            json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "WorkflowTemplate",
            "metadata": {"name": name, "namespace": "ns", "resourceVersion": "4"}, "spec": spec}),
        )
    };
    let call = json!({"name": "a", "templateRef": {"name": "second", "template": "wait"}});
    match (verb, path.strip_prefix(TEMPLATES)) {
        ("GET", Some("first")) => template(
            "first",
            json!({"entrypoint": "main", "templates": [{"name": "main", "steps": [[call]]}],
                "arguments": {"parameters": [{"name": "p", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "k"}}}]}}),
        ),
        ("GET", Some("second")) => template("second", json!({"templates": [{"name": "wait", "suspend": {}}]})),
        ("GET", _) if path.ends_with("/configmaps/settings") => {
            let labels = json!({"workflows.argoproj.io/configmap-type": "Parameter"});
            let metadata = json!({"name": "settings", "namespace": "ns", "resourceVersion": "4", "labels": labels});
            (200, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}}))
        }
        ("PUT", _) => (200, sent.clone()),
        _ => (404, json!("not found")),
    }
}

#[tokio::test]
async fn what_was_made_with_a_workflow_is_found_though_no_watch_has_told_of_it() {
    let bed = Bed::new(None, whole);
    let key = bed.has(&json!({"workflowTemplateRef": {"name": "first"}}), &Value::Null, false);
    bed.look(&key).await;
    let written = bed.asked.said(&format!("PUT {WORKFLOW}"));
    assert_eq!(written[0]["status"]["phase"], "Running", "{:#}", written[0]["status"]);
    // What is not there at all is asked for once, and said.
    let bed = Bed::new(None, whole);
    let key = bed.has(&json!({"workflowTemplateRef": {"name": "nothing"}}), &Value::Null, false);
    bed.look(&key).await;
    let status = &bed.asked.said(&format!("PUT {WORKFLOW}"))[0]["status"];
    assert_eq!(
        (&status["phase"], &status["message"]),
        (&json!("Error"), &json!("workflowtemplates.argoproj.io \"nothing\" not found"))
    );
    assert_eq!(bed.asked.said("GET").len(), 1);
}

#[tokio::test]
async fn a_workflow_whose_templates_cannot_be_read_now_is_looked_at_later() {
    let bed = Bed::new(None, |_, _, _| (503, json!("starting")));
    let key = bed.has(&json!({"workflowTemplateRef": {"name": "first"}}), &Value::Null, false);
    bed.look(&key).await;
    assert_eq!(bed.asked.said("PUT").len(), 0);
    assert!(bed.is_due(&key));
}

fn running() -> (Value, Value) {
    let spec = json!({"entrypoint": "main", "templates": [{"name": "main", "container": {"image": "i", "command": ["true"]}}]});
    let node = json!({"id": "wf", "name": "wf", "displayName": "wf", "type": "Pod", "templateName": "main",
        "templateScope": "local/wf", "phase": "Running", "startedAt": "2026-01-02T03:04:05Z"});
    (spec, json!({"phase": "Running", "startedAt": "2026-01-02T03:04:05Z", "nodes": {"wf": node}}))
}

#[tokio::test]
async fn a_step_whose_sandbox_is_gone_is_not_run_again() {
    let nobody = Nobody::default();
    let bed = Bed::new(Some(nobody.clone()), |verb, _, sent| match verb {
        "PUT" => (200, sent.clone()),
        "POST" => (201, sent.clone()),
        _ => (200, json!({"items": [], "metadata": {}})),
    });
    let (spec, status) = running();
    let key = bed.has(&spec, &status, false);
    bed.look(&key).await;
    for _ in 0..1000 {
        if !bed.asked.said(&format!("POST {RESULTS}")).is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let recorded = bed.asked.said(&format!("POST {RESULTS}"));
    assert_eq!(recorded[0]["phase"], "Error", "{:#?}", bed.asked.lines());
    assert!(recorded[0]["message"].as_str().unwrap().contains("its sandbox is gone"), "{recorded:?}");
    assert!(nobody.claims.lock().iter().all(|wanted| wanted.was_running), "{:?}", nobody.claims.lock());
    assert!(bed.asked.said("POST /api/v1").is_empty(), "no pod is made: {:?}", bed.asked.lines());
}

#[tokio::test]
async fn a_step_that_was_refused_is_tried_again_once_it_was_taken_back() {
    let bed = Bed::new(None, |verb, _, sent| match verb {
        "GET" => (200, json!({"items": [], "metadata": {}})),
        _ => (200, sent.clone()),
    });
    let (spec, mut status) = running();
    status["nodes"] = json!({});
    let key = bed.has(&spec, &status, false);
    let refused = Refused { message: "forbidden".to_owned(), is_transient: false };
    let memory = |based_on: &str| Memory {
        based_on: based_on.to_owned(),
        refused: [("wf".to_owned(), refused.clone())].into(),
        status: serde_json::from_value(status.clone()).unwrap(),
        ..Memory::default()
    };
    // As `retry` leaves it: another version, without the node.
    bed.shared.store.remember(&key, memory("4"));
    bed.look(&key).await;
    let made = bed.asked.said("POST /api/v1/namespaces/ns/pods");
    assert_eq!(made.len(), 1, "{:#?}", bed.asked.0.lock());
    // As it was: it is not asked for again.
    let bed = Bed::new(None, |_, _, sent| (200, sent.clone()));
    bed.has(&spec, &status, false);
    bed.shared.store.remember(&key, memory("5"));
    bed.look(&key).await;
    assert_eq!(bed.asked.said("POST").len(), 0);
    let written = bed.asked.said(&format!("PUT {WORKFLOW}"));
    assert_eq!(written[0]["status"]["message"], "forbidden", "{written:#?}");
}

fn done(bed: &Bed) -> Key {
    let claim = json!({"metadata": {"name": "work"}, "spec": {}});
    let spec = json!({"entrypoint": "main", "volumeClaimTemplates": [claim],
        "templates": [{"name": "main", "container": {"image": "i", "command": ["true"]}}]});
    bed.has(&spec, &json!({"phase": "Succeeded", "finishedAt": "2026-01-02T03:04:05Z"}), true)
}

#[tokio::test]
async fn claims_are_given_back_until_they_are_gone_and_no_longer() {
    let bed = Bed::new(None, |_, _, _| (500, json!("try later")));
    let key = done(&bed);
    bed.look(&key).await;
    bed.look(&key).await;
    let asked = bed.asked.said("GET /api/v1/namespaces/ns/persistentvolumeclaims/wf-work");
    assert_eq!(asked.len(), 2, "{:?}", bed.asked.lines());
    assert!(bed.is_due(&key));
    let bed = Bed::new(None, |_, _, _| (404, json!("not found")));
    done(&bed);
    bed.look(&key).await;
    bed.look(&key).await;
    assert_eq!(bed.asked.said("GET /api/v1/namespaces/ns/persistentvolumeclaims").len(), 1, "{:?}", bed.asked.lines());
}

#[tokio::test]
async fn a_claim_of_that_name_that_is_somebody_elses_stays() {
    fn claim(method: &str, owner: &str) -> (u16, Value) {
        match method {
            "GET" => {
                let owner =
                    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "wf", "uid": owner});
                let meta = json!({"name": "wf-work", "namespace": "ns", "uid": "c", "ownerReferences": [owner]});
                (200, json!({"metadata": meta}))
            }
            _ => (200, json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})),
        }
    }
    let answers: [(Answer, usize); 2] =
        [(|method, _, _| claim(method, "u"), 1), (|method, _, _| claim(method, "another"), 0)];
    for (answer, deleted) in answers {
        let bed = Bed::new(None, answer);
        let key = done(&bed);
        bed.look(&key).await;
        assert_eq!(bed.asked.said("DELETE").len(), deleted, "{:?}", bed.asked.lines());
    }
}

fn left(bed: &Bed) {
    let result = json!({"metadata": {"name": "wf", "namespace": "ns", "uid": "r",
        "labels": {"workflows.argoproj.io/workflow": "wf"}}});
    bed.shared.store.put_result(serde_json::from_value(result).unwrap());
}

#[tokio::test]
async fn results_go_after_sandboxes_and_what_does_not_go_is_tried_again() {
    let down = Nobody { is_down: true, ..Nobody::default() };
    let bed = Bed::new(Some(down), |_, _, _| (404, json!("not found")));
    let key = done(&bed);
    left(&bed);
    bed.look(&key).await;
    assert_eq!(bed.asked.said(&format!("DELETE {RESULTS}")).len(), 0, "as long as sandboxes may be left");
    assert!(bed.is_due(&key));

    let nobody = Nobody::default();
    let bed = Bed::new(Some(nobody.clone()), |_, path, _| match path {
        RESULTS => (500, json!("later")),
        _ => (404, json!("not found")),
    });
    done(&bed);
    left(&bed);
    bed.look(&key).await;
    assert_eq!(*nobody.sweeps.lock(), 1);
    assert!(bed.is_due(&key));
}
