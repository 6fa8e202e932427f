//! What runs goes on when the node's process does not.

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::bed::{holds, on_bed, state};

#[test]
fn pods_go_on_without_their_node_and_are_found_again() {
    on_bed(|mut bed| async {
        bed.script("p", "i=0; while :; do i=$((i+1)); echo $i; sleep 0.1; done", json!({})).await;
        bed.script("q", "sleep 2; exit 5", json!({})).await;
        let before = bed.until("p", "ready", |pod| holds(pod, "Ready")).await;
        bed.until("q", "ready", |pod| holds(pod, "Ready")).await;
        bed.node.take().unwrap().kill();
        let said = bed.log(&before, "main", 0).lines().count();
        // Long enough for the other to end while nobody looks.
        let pod = bed.pods().get("q").await.unwrap();
        let record = bed.attempt(&pod, "main", 0).join("run/exit.json");
        while !record.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        assert!(bed.log(&before, "main", 0).lines().count() > said, "it goes on and is heard");
        bed.start_node().await;
        let ended = bed.phase("q", "Failed").await;
        assert_eq!(state(&ended, "main").terminated.unwrap().exit_code, 5, "the code was kept on disk");
        let after = bed.until("p", "ready again", |pod| holds(pod, "Ready")).await;
        let id = |pod: &Pod| pod.status.clone().unwrap().container_statuses.unwrap()[0].container_id.clone();
        assert_eq!(id(&before), id(&after), "it is the same container");
        bed.delete("p").await;
        bed
    });
}

#[test]
fn what_was_deleted_meanwhile_is_swept_away() {
    on_bed(|mut bed| async {
        bed.script("p", "sleep 600", json!({})).await;
        let pod = bed.until("p", "ready", |pod| holds(pod, "Ready")).await;
        bed.node.take().unwrap().kill();
        let at_once = kube::api::DeleteParams::default().grace_period(0);
        bed.pods().delete("p", &at_once).await.unwrap();
        assert!(bed.attempt(&pod, "main", 0).exists());
        bed.start_node().await;
        while bed.attempt(&pod, "main", 0).exists() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        bed
    });
}

#[test]
fn a_node_that_ends_in_order_ends_its_pods_and_runs_them_anew() {
    on_bed(|mut bed| async {
        let share = json!([{"name": "v", "mountPath": "/v"}]);
        let more = json!({
            "restartPolicy": "Always",
            "volumes": [{"name": "v", "emptyDir": {}}],
            "initContainers": [{"name": "i", "image": "host", "command": ["sh", "-c", "echo made > /v/f"], "volumeMounts": share}],
            "container": {"volumeMounts": share},
        });
        bed.script("p", "trap 'exit 0' TERM; test -e /v/f || exit 1; touch /v/ok; while :; do sleep 0.05; done", more)
            .await;
        bed.outcome("done", "exit 4", json!({})).await;
        let pod = bed.until("p", "ready", |pod| holds(pod, "Ready")).await;
        bed.stop_node().await;
        assert!(!bed.attempt(&pod, "main", 0).exists(), "nothing is left");
        let told = state(&bed.pods().get("p").await.unwrap(), "main");
        assert_eq!(told.terminated.map(|ended| ended.exit_code), Some(0), "the end was told");
        bed.start_node().await;
        let again = bed.until("p", "ready again", |pod| holds(pod, "Ready")).await;
        let restarts = again.status.unwrap().container_statuses.unwrap()[0].restart_count;
        assert_eq!(restarts, 1);
        let done = bed.pods().get("done").await.unwrap();
        assert_eq!(state(&done, "main").terminated.unwrap().exit_code, 4, "what has ended stays so");
        bed
    });
}
