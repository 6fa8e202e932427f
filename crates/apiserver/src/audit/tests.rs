use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::*;

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn action() -> Action {
    Action {
        verb: "create".into(),
        group: "apps".into(),
        version: "v1".into(),
        resource: "deployments".into(),
        namespace: "team".into(),
        ..Action::default()
    }
}

#[test]
fn an_event_says_who_did_what_to_which_object_and_what_came_of_it() {
    let user = User { name: "ann".into(), groups: vec!["dev".into()], ..User::default() };
    let object = json!({"metadata": {"name": "web", "uid": "u-1", "resourceVersion": "7"}});
    let mut record = Record {
        id: "id-1",
        uri: "/apis/apps/v1/namespaces/team/deployments",
        action: &action(),
        user: &user,
        impersonated: None,
        sources: &["127.0.0.1".parse().unwrap()],
        user_agent: "test",
        object: Some(&object),
        code: 201,
        reason: "",
        decision: "RBAC: allowed",
        received: Timestamp::UNIX_EPOCH,
        finished: Timestamp::UNIX_EPOCH,
    };
    let event = record.event();
    assert_eq!(
        event["objectRef"],
        json!({
            "resource": "deployments", "namespace": "team", "name": "web", "uid": "u-1", "apiGroup": "apps",
            "apiVersion": "v1", "resourceVersion": "7",
        })
    );
    assert_eq!(event["user"]["username"], "ann");
    assert_eq!(event["requestReceivedTimestamp"], "1970-01-01T00:00:00.000000Z");
    assert_eq!(event["responseStatus"], json!({"metadata": {}, "code": 201}));

    (record.code, record.reason) = (403, "Forbidden");
    let event = record.event();
    assert_eq!(event["responseStatus"]["reason"], "Forbidden");
    assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "forbid");
}

#[test]
fn the_object_is_known_from_the_answer() {
    let answer = br#"{"kind":"Pod","metadata":{"resourceVersion":"7","name":"p","labels":{"a":"b"}},"spec":{}}"#;
    assert_eq!(written(answer), Some(json!({"metadata": {"name": "p", "uid": "", "resourceVersion": "7"}})));
    for other in [&b""[..], b"no JSON", b"[]", br#"{"kind":"Status"}"#, b"kind: Pod\n"] {
        assert_eq!(written(other), None);
    }
}

#[tokio::test]
async fn what_was_queued_is_on_disk_when_the_writer_has_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let (log, writer) = AuditLog::new(AuditFile::new(&path));
    let stop = CancellationToken::new();
    for number in 0..1000 {
        log.record(&json!({ "number": number })).await.unwrap();
    }
    stop.cancel();
    // The log is still held, as it is by a server whose last connection is open.
    writer.run(stop).await;
    let written = lines(&path);
    assert_eq!(written.len(), 1000);
    assert_eq!(written[999]["number"], 999);
    assert_eq!(log.metrics.written.get(), 1000);
    assert_eq!(log.record(&json!({})).await, Err(AuditLost), "nobody writes any more");
    assert_eq!(log.metrics.lost.get(), 1);
}

#[tokio::test]
async fn full_files_are_put_aside_and_the_oldest_goes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    for number in 0..5 {
        let file = AuditFile { path: path.clone(), max_bytes: 20, keep: 2 };
        let (log, writer) = AuditLog::new(file);
        log.record(&json!({ "number": number })).await.unwrap();
        drop(log);
        writer.run(CancellationToken::new()).await;
    }
    let newest = |path: &Path| lines(path).last().unwrap()["number"].clone();
    assert_eq!(newest(&path), 4);
    assert_eq!(newest(&directory.path().join("audit.log.1")), 3);
    assert_eq!(newest(&directory.path().join("audit.log.2")), 2);
    assert!(!directory.path().join("audit.log.3").exists());
}
