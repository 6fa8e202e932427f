//! Pods from their start to their end.

use serde_json::json;

use crate::bed::{holds, on_bed, phase_of, state, with_bed};

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

#[test]
fn a_failing_container_is_started_again_and_waits() {
    on_bed(|bed| async {
        bed.script("p", "echo again; exit 3", json!({"restartPolicy": "Always"})).await;
        let pod = bed
            .until("p", "in a crash loop", |pod| {
                let count = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
                let restarts = count.map(|one| one.restart_count).sum::<i32>();
                let reason = state(pod, "main").waiting.and_then(|waiting| waiting.reason);
                restarts >= 2 && reason.as_deref() == Some("CrashLoopBackOff")
            })
            .await;
        assert_eq!(phase_of(&pod), "Running");
        let last = pod.status.unwrap().container_statuses.unwrap()[0].last_state.clone().unwrap();
        assert_eq!(last.terminated.unwrap().exit_code, 3);
        bed
    });
}

#[test]
fn too_much_memory_is_named() {
    on_bed(|bed| async {
        let limits = json!({"container": {"resources": {"limits": {"memory": "32Mi"}}}});
        bed.script("p", "tail /dev/zero", limits).await;
        let pod = bed.phase("p", "Failed").await;
        let ended = state(&pod, "main").terminated.unwrap();
        assert_eq!((ended.exit_code, ended.reason.as_deref()), (137, Some("OOMKilled")));
        bed
    });
}

#[test]
fn init_containers_run_first_and_in_order() {
    on_bed(|bed| async {
        let share = json!([{"name": "v", "mountPath": "/v"}]);
        let init = |name: &str, script: &str| json!({"name": name, "image": "host", "command": ["sh", "-c", script], "volumeMounts": share});
        let spec = json!({
            "initContainers": [init("one", "echo one >> /v/said"), init("two", "echo two >> /v/said")],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "container": {"volumeMounts": share},
        });
        let (code, said) = bed.outcome("p", "cat /v/said", spec).await;
        assert_eq!((code, said.as_str()), (0, "one\ntwo\n"));
        bed
    });
}

#[test]
fn a_command_that_is_not_there_is_an_error_that_says_so() {
    on_bed(|bed| async {
        let spec = json!({"restartPolicy": "Never", "containers": [
            {"name": "main", "image": "host", "command": ["no-such-program"]},
        ]});
        bed.create("p", spec, json!({})).await;
        let pod = bed.phase("p", "Failed").await;
        let ended = state(&pod, "main").terminated.unwrap();
        assert_eq!((ended.exit_code, ended.reason.as_deref()), (128, Some("StartError")));
        assert!(ended.message.unwrap().contains("no-such-program"));
        bed
    });
}

#[test]
fn an_absent_image_is_an_error_that_names_the_way_to_get_it() {
    on_bed(|bed| async {
        let spec = json!({"containers": [{"name": "main", "image": "nowhere/app:1"}]});
        bed.create("p", spec, json!({})).await;
        let pod = bed.until("p", "refused", |pod| {
            state(pod, "main").waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some("ErrImagePull"))
        });
        let waiting = state(&pod.await, "main").waiting.unwrap();
        assert!(waiting.message.unwrap().contains("thane image import"));
        bed
    });
}

#[test]
fn what_ignores_the_signal_is_killed_when_its_time_is_up() {
    on_bed(|bed| async {
        let spec = json!({"terminationGracePeriodSeconds": 1});
        bed.script("p", "trap '' TERM; echo up; while :; do sleep 0.1; done", spec).await;
        bed.phase("p", "Running").await;
        bed.delete("p").await;
        bed
    });
}

#[test]
fn what_hears_the_signal_ends_by_itself() {
    on_bed(|bed| async {
        let marks = json!([{"name": "v", "mountPath": "/v"}]);
        let spec = json!({
            "terminationGracePeriodSeconds": 60,
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "marks"}}],
            "container": {"volumeMounts": marks},
        });
        let script = "trap 'echo ended > /v/mark; exit 0' TERM; touch /v/up; while :; do sleep 0.05; done";
        bed.script("p", script, spec).await;
        let up = bed.folder.path().join("node/claims/default/marks");
        for _ in 0..600 {
            if up.join("up").exists() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        bed.delete("p").await;
        assert_eq!(std::fs::read_to_string(up.join("mark")).unwrap(), "ended\n");
        bed
    });
}

#[test]
fn environment_comes_from_the_pod_and_its_objects() {
    on_bed(|bed| async {
        let env = json!([
            {"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2"},
            {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ]);
        let more = json!({"container": {"env": env, "args": [], "workingDir": "/workspace/new"}});
        let (code, said) = bed.outcome("p", "echo $A $B $N $(hostname) $PWD $PATH", more).await;
        let expected = "1 12 p p /workspace/new /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n";
        assert_eq!((code, said.as_str()), (0, expected));
        bed
    });
}

#[test]
fn there_is_room_for_so_many_and_no_more() {
    with_bed(
        |config| config.pods_max = 1,
        |bed| async {
            bed.script("a", "sleep 60", json!({})).await;
            bed.phase("a", "Running").await;
            bed.script("b", "sleep 60", json!({})).await;
            let pod = bed.phase("b", "Failed").await;
            assert_eq!(pod.status.unwrap().reason.as_deref(), Some("OutOfpods"));
            bed.delete("b").await;
            bed.delete("a").await;
            bed
        },
    );
}

#[test]
fn a_pod_whose_time_is_up_fails() {
    on_bed(|bed| async {
        bed.script("p", "sleep 60", json!({"activeDeadlineSeconds": 1})).await;
        let pod = bed.phase("p", "Failed").await;
        assert_eq!(pod.status.unwrap().reason.as_deref(), Some("DeadlineExceeded"));
        bed
    });
}

#[test]
fn a_last_word_is_reported() {
    on_bed(|bed| async {
        bed.script("p", "printf farewell > /dev/termination-log; exit 1", json!({})).await;
        let pod = bed.phase("p", "Failed").await;
        assert_eq!(state(&pod, "main").terminated.unwrap().message.as_deref(), Some("farewell"));
        bed
    });
}
