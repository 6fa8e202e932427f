//! Pods from their start to their end.

use serde_json::json;

use crate::bed::{holds, on_bed, state};

#[test]
fn a_pod_runs_says_something_and_ends_with_its_code() {
    on_bed(|bed| async {
        bed.script("p", "echo hello; sleep 1; exit 7", json!({})).await;
        let pod = bed.phase("p", "Running").await;
        let status = pod.status.clone().unwrap();
        assert!(status.pod_ip.unwrap().starts_with("127."), "{:?}", pod.status);
        assert!(holds(&pod, "PodScheduled") && holds(&pod, "Initialized"), "{:?}", pod.status);
        let pod = bed.phase("p", "Failed").await;
        let ended = state(&pod, "main").terminated.unwrap();
        assert_eq!((ended.exit_code, ended.reason.as_deref()), (7, Some("Error")));
        assert_eq!(bed.log(&pod, "main", 0), "hello\n");
        bed.delete("p").await;
        assert!(!bed.attempt(&pod, "main", 0).exists());
        bed
    });
}
