//! Files that come back, in the same session and in others.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::bed::{Bed, PATIENCE, gone};

fn indexes(list: &Value, field: &str) -> Vec<i64> {
    list.as_array().unwrap().iter().map(|one| one[field].as_i64().unwrap()).collect()
}

async fn trajectory(bed: &Bed, id: &str) -> Value {
    let answer = bed.get(&format!("/v1/sessions/{id}/trajectory")).await;
    assert_eq!(answer.headers["content-type"], "application/x-ndjson");
    let text = std::str::from_utf8(&answer.body).unwrap();
    text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_goes_back_and_on_from_there() {
    let bed = Bed::new().await;
    bed.pool("p", 3, true).await;
    let id = bed.session("p").await;
    assert_eq!(bed.get(&format!("/v1/sessions/{id}/history")).await.json(), json!([]));
    bed.execute(&id, &[&["echo", "0"], &["echo", "1"], &["echo", "2"]]).await;
    let restored = bed.post(&format!("/v1/sessions/{id}/restore"), json!({"snapshotID": "0"})).await.expect(200);
    assert_eq!(restored, json!({"status": "restored", "snapshotID": "0", "stepsReplayed": 0}));
    bed.execute(&id, &[&["echo", "3"]]).await;
    let history = bed.get(&format!("/v1/sessions/{id}/history")).await.json();
    assert_eq!(indexes(&history, "index"), [0, 3]);
    let all = trajectory(&bed, &id).await;
    assert_eq!((indexes(&all, "step"), indexes(&all, "parent")), (vec![0, 1, 2, 3], vec![-1, 0, 1, 0]));
    assert_eq!(all[3]["action"]["command"], json!(["echo", "3"]));
    assert_eq!(all[3]["observation"]["stdout"], "3\n");
    assert_eq!((&all[3]["session_id"], &all[3]["snapshot_id"]), (&json!(id), &json!("3")));
    for (snapshot, expected) in [("9", 404), ("x", 400), ("", 400)] {
        let answer = bed.post(&format!("/v1/sessions/{id}/restore"), json!({"snapshotID": snapshot})).await;
        assert_eq!(answer.fault(), (expected, "user".to_owned()), "{snapshot}");
    }
    bed.post(&format!("/v1/sessions/{id}/restore"), json!({"snapshotID": "-1"})).await.expect(200);
    assert_eq!(bed.get(&format!("/v1/sessions/{id}/history")).await.json(), json!([]));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forks_begin_where_their_source_was() {
    let bed = Bed::new().await;
    bed.pool("p", 3, true).await;
    let id = bed.session("p").await;
    bed.execute(&id, &[&["echo", "0"], &["echo", "1"]]).await;
    let forked = bed.post(&format!("/v1/sessions/{id}/fork"), json!({"snapshotID": "0", "count": 2})).await.expect(201);
    let sessions = forked["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 2);
    for session in sessions {
        let fork = session["id"].as_str().unwrap();
        let (snapshot, source) = bed.fake(fork).state.lock().restored.clone().unwrap();
        assert_eq!(snapshot, "layer-0");
        assert!(bed.fakes.lock()[&source].state.lock().session == id);
        assert_eq!(bed.execute(fork, &[&["echo", "x"]]).await[0]["index"], 1);
    }
    assert_eq!(bed.execute(&id, &[&["echo", "y"]]).await[0]["index"], 2, "the source is as it was");
    for body in [json!({"snapshotID": "0", "count": 0}), json!({"snapshotID": "0", "count": 65}), json!({"count": 1})] {
        assert_eq!(bed.post(&format!("/v1/sessions/{id}/fork"), body).await.fault(), (400, "user".to_owned()));
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_files_are_not_kept_the_steps_are_run_again() {
    let bed = Bed::new().await;
    bed.pool("p", 3, false).await;
    let id = bed.session("p").await;
    bed.execute(&id, &[&["echo", "0"], &["grumble", "1"], &["echo", "2"]]).await;
    let old = bed.sandboxes().get(&id).await.unwrap().status.unwrap().pod_name.unwrap();
    let restored = bed.post(&format!("/v1/sessions/{id}/restore"), json!({"snapshotID": "1"})).await.expect(200);
    assert_eq!(restored["stepsReplayed"], 2);
    let new = bed.sandboxes().get(&id).await.unwrap().status.unwrap().pod_name.unwrap();
    assert_ne!(old, new);
    gone(bed.pods(), &old).await;
    let history = bed.get(&format!("/v1/sessions/{id}/history")).await.json();
    assert_eq!(indexes(&history, "index"), [0, 1]);
    assert_eq!(bed.execute(&id, &[&["echo", "3"]]).await[0]["index"], 3, "indexes are never used again");
    assert_eq!(indexes(&trajectory(&bed, &id).await, "parent"), [-1, 0, 1, 1]);

    let forked = bed.post(&format!("/v1/sessions/{id}/fork"), json!({"snapshotID": "3"})).await.expect(201);
    let fork = forked["sessions"][0]["id"].as_str().unwrap();
    let again = bed.fake(fork).state.lock().unrecorded.clone();
    assert_eq!(again, [["echo", "0"], ["grumble", "1"], ["echo", "3"]]);
    let history = bed.get(&format!("/v1/sessions/{fork}/history")).await.json();
    assert_eq!(indexes(&history, "index"), [0, 1, 3]);
    bed.end().await;
}

/// Asks for something and hangs up as soon as a second sandbox runs steps for it.
async fn hang_up(bed: &Bed, path: &str, body: Value) {
    let asking = bed.post(path, body);
    let begun = async {
        let runs = || bed.fakes.lock().values().filter(|fake| fake.calls("RunStep") > 0).count();
        while runs() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        answer = asking => panic!("{answer:?}"),
        begun = tokio::time::timeout(PATIENCE, begun) => begun.unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_waits_for_is_undone() {
    let bed = Bed::new().await;
    bed.pool("p", 2, false).await;
    let id = bed.session("p").await;
    bed.execute(&id, &[&["stall"]]).await;
    hang_up(&bed, &format!("/v1/sessions/{id}/fork"), json!({"snapshotID": "0"})).await;
    for fork in bed.sandboxes().list(&ListParams::default()).await.unwrap().items {
        if fork.name_any() != id {
            gone(bed.sandboxes(), &fork.name_any()).await;
        }
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_that_nobody_waits_for_gives_back_its_pod() {
    let bed = Bed::new().await;
    bed.pool("p", 2, false).await;
    let id = bed.session("p").await;
    bed.execute(&id, &[&["stall"]]).await;
    let before = bed.sandboxes().get(&id).await.unwrap().status.unwrap().pod_name;
    hang_up(&bed, &format!("/v1/sessions/{id}/restore"), json!({"snapshotID": "0"})).await;
    let pods = bed.pods().list(&ListParams::default()).await.unwrap().items;
    for pod in pods.iter().map(ResourceExt::name_any).filter(|pod| Some(pod) != before.as_ref()) {
        gone(bed.pods(), &pod).await;
    }
    assert_eq!(bed.sandboxes().get(&id).await.unwrap().status.unwrap().pod_name, before, "it is where it was");
    assert_eq!(bed.execute(&id, &[&["echo", "1"]]).await[0]["index"], 1);
    bed.end().await;
}
