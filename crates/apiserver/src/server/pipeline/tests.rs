use http_body_util::{BodyExt, Full};
use serde_json::json;
use thane_kv::{RedbOptions, RedbStore};
use thane_runtime::readiness::Readiness;
use thane_runtime::{SystemClock, Tasks};

use super::*;
use crate::audit::{AuditFile, AuditLog};
use crate::authn::Authenticator;
use crate::encryption::Encryption;
use crate::inflight::Limits;
use crate::server::{ApiServer, Options, Parts};

/// A server on a disk, with an audit log.
struct Bed {
    server: ApiServer,
    tasks: Tasks,
    folder: tempfile::TempDir,
}

impl Bed {
    fn new(requests_per_identity: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (tasks, _) = Tasks::root("test");
        let (audit, writer) = AuditLog::new(AuditFile::new(folder.path().join("audit.log")));
        let audits = tasks.child("audit");
        audits.spawn("writer", writer.run(audits.token()));
        let limits = Limits { requests_per_identity, ..Limits::default() };
        let parts = Parts {
            store: RedbStore::open(folder.path().join("data.redb"), RedbOptions::default()).unwrap(),
            clock: SystemClock::shared(),
            authenticator: Authenticator::default(),
            encryption: Encryption::default(),
            audit: Some(audit),
            readiness: Readiness::new(),
            options: Options { limits, ..Options::default() },
        };
        let server = ApiServer::new(parts, tasks.child("writes"));
        Self { server, tasks, folder }
    }

    fn ask(&self, user: &str, method: &str, uri: &str, body: &Value) -> impl Future<Output = Answer> + use<> {
        let user = User { name: user.into(), groups: vec!["system:masters".into()], ..User::default() };
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", "application/json")
            .extension(Origin::Process(Arc::new(user)))
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap();
        let server = self.server.clone();
        async move { server.handle(request).await }
    }

    /// Stops everything; the events of the audit log.
    async fn audited(self) -> Vec<Value> {
        self.tasks.shutdown(Duration::from_secs(10)).await;
        let text = std::fs::read_to_string(self.folder.path().join("audit.log")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

#[tokio::test]
async fn a_write_whose_client_leaves_is_done_and_recorded() {
    let bed = Bed::new(400);
    let mut asked = Box::pin(bed.ask("jane", "POST", "/api/v1/namespaces", &namespace("a")));
    assert!(futures::poll!(asked.as_mut()).is_pending(), "it waits for the disk");
    drop(asked);
    let events = bed.audited().await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["objectRef"]["name"], "a");
    assert_eq!(events[0]["responseStatus"]["code"], 201);
    assert_eq!(events[0]["user"]["username"], "jane");
}

#[tokio::test]
async fn ways_into_a_pod_are_recorded_and_reading_is_not() {
    let bed = Bed::new(400);
    for part in ["exec?command=ls&stdout=1", "attach?stdout=1", "portforward?ports=80", "log", ""] {
        let answer = bed.ask("jane", "GET", &format!("/api/v1/namespaces/default/pods/p/{part}"), &Value::Null).await;
        assert_eq!(answer.status(), 404, "{part}");
    }
    let events = bed.audited().await;
    let parts: Vec<&str> = events.iter().filter_map(|event| event["objectRef"]["subresource"].as_str()).collect();
    assert_eq!((parts, events.len()), (vec!["exec", "attach", "portforward"], 3));
}

#[tokio::test]
async fn a_request_has_its_place_until_its_answer_is_read() {
    let bed = Bed::new(1);
    for name in ["a", "b"] {
        assert_eq!(bed.ask("jane", "POST", "/api/v1/namespaces", &namespace(name)).await.status(), 201);
    }
    let list = |user: &str| bed.ask(user, "GET", "/api/v1/namespaces", &Value::Null);
    let unread = list("jane").await;
    let refused = list("jane").await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    let status: Value = serde_json::from_slice(&refused.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(status["reason"], "TooManyRequests");
    assert_eq!(list("joe").await.status(), 200, "another identity has places of its own");
    let read = unread.into_body().collect().await.unwrap().to_bytes();
    assert!(read.starts_with(b"{\"kind\":\"NamespaceList\""));
    assert_eq!(list("jane").await.status(), 200);
}
