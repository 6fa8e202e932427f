//! Pods as kubelets report them, and what Argo's controller makes of them.

use serde_json::json;

use super::*;

fn ended(name: &str, code: i32, said: &str) -> Value {
    let reason = if code == 0 { "Completed" } else { "Error" };
    let ended = json!({"exitCode": code, "reason": reason, "message": said, "finishedAt": "2026-01-01T00:00:05Z"});
    json!({"name": name, "state": {"terminated": ended}, "image": "", "imageID": "", "ready": false, "restartCount": 0})
}

fn running(name: &str, ready: bool) -> Value {
    json!({"name": name, "state": {"running": {}}, "image": "", "imageID": "", "ready": ready, "restartCount": 0})
}

fn waiting(name: &str, reason: &str, message: &str) -> Value {
    let state = json!({"waiting": {"reason": reason, "message": message}});
    json!({"name": name, "state": state, "image": "", "imageID": "", "ready": false, "restartCount": 0})
}

fn pod(phase: &str, containers: Value) -> Pod {
    let mut status = json!({"phase": phase, "podIP": "10.0.0.7"});
    status["containerStatuses"] = containers;
    let meta = json!({"name": "p", "namespace": "n"});
    serde_json::from_value(json!({"metadata": meta, "spec": {"nodeName": "m", "containers": []}, "status": status}))
        .unwrap()
}

fn result(complete: bool, outputs: Value) -> TaskResult {
    let metadata = json!({"name": "w-1", "labels": {REPORTED: complete.to_string()}});
    TaskResult { metadata, outputs: Some(outputs).filter(|value| !value.is_null()), ..TaskResult::default() }
}

#[test]
fn the_first_that_cannot_start_says_why() {
    let mut made = pod("Pending", json!([waiting("main", "PodInitializing", "")]));
    let first = waiting("init", "CreateContainerConfigError", "secret \"keys\" not found");
    made.status.as_mut().unwrap().init_container_statuses = serde_json::from_value(json!([first])).unwrap();
    let said = outcome(&made, None, &json!({})).message;
    assert_eq!(said, "CreateContainerConfigError: secret \"keys\" not found");
}

#[test]
fn pods_become_phases_and_messages() {
    let done = || ended("wait", 0, "");
    let cases = [
        ("Pending", json!([]), Phase::Pending, ""),
        ("", json!([]), Phase::Pending, ""),
        ("Pending", json!([waiting("main", "ErrImagePull", "no image")]), Phase::Pending, "ErrImagePull: no image"),
        ("Pending", json!([waiting("main", "PodInitializing", "")]), Phase::Pending, "PodInitializing"),
        ("Running", json!([running("main", true)]), Phase::Running, ""),
        ("Succeeded", json!([done(), ended("main", 0, "")]), Phase::Succeeded, ""),
        ("Succeeded", json!([running("wait", true), ended("main", 0, "")]), Phase::Running, ""),
        ("Failed", json!([done(), ended("main", 3, "")]), Phase::Failed, "main: Error (exit code 3)"),
        ("Failed", json!([done(), ended("main", 64, "no such")]), Phase::Failed, "main: Error (exit code 64): no such"),
        (
            "Failed",
            json!([ended("wait", 1, "s3"), ended("main", 0, "")]),
            Phase::Error,
            "wait: Error (exit code 1): s3",
        ),
        ("Failed", json!([ended("wait", 1, "s3"), ended("main", 2, "")]), Phase::Failed, "main: Error (exit code 2)"),
        ("Failed", json!([done(), ended("main", 0, ""), ended("side", 143, "")]), Phase::Succeeded, ""),
        ("Failed", json!([done(), ended("main", 0, ""), ended("side", 137, "")]), Phase::Succeeded, ""),
        (
            "Failed",
            json!([done(), ended("main", 0, ""), ended("side", 1, "")]),
            Phase::Failed,
            "side: Error (exit code 1)",
        ),
        (
            "Failed",
            json!([running("wait", true), ended("main", 0, "")]),
            Phase::Failed,
            "pod failed: wait container did not complete successfully",
        ),
        (
            "Failed",
            json!([waiting("main", "CreateContainerError", "x")]),
            Phase::Error,
            "Pod failed before main container starts due to CreateContainerError: x",
        ),
        ("Failed", json!([]), Phase::Failed, "can't find failed message for pod p namespace n"),
        ("Odd", json!([]), Phase::Error, "Unexpected pod phase for p: Odd"),
    ];
    for (phase, containers, expected, message) in cases {
        let found = outcome(&pod(phase, containers.clone()), None, &json!({}));
        assert_eq!((found.phase, found.message.as_str()), (expected, message), "{phase} {containers}");
    }
}

#[test]
fn an_init_container_speaks_first_and_a_pods_own_message_before_it() {
    let mut made = pod("Failed", json!([waiting("main", "PodInitializing", "")]));
    let status = made.status.as_mut().unwrap();
    status.init_container_statuses = serde_json::from_value(json!([ended("init", 1, "artifact a failed")])).unwrap();
    let found = outcome(&made, None, &json!({}));
    assert_eq!((found.phase, found.message.as_str()), (Phase::Error, "init: Error (exit code 1): artifact a failed"));
    made.status.as_mut().unwrap().message = Some("Pod was active on the node too long".to_owned());
    let found = outcome(&made, None, &json!({}));
    assert_eq!((found.phase, found.message.as_str()), (Phase::Failed, "Pod was active on the node too long"));
}

#[test]
fn outputs_come_from_the_task_result_and_the_exit_code_from_the_pod() {
    let made = pod("Succeeded", json!([ended("wait", 0, ""), ended("main", 0, "")]));
    let template = json!({"outputs": {"parameters": [{"name": "p"}]}});
    let reported = result(true, json!({"parameters": [{"name": "p", "value": "1"}]}));
    let found = outcome(&made, Some(&reported), &template);
    assert_eq!(found.phase, Phase::Succeeded);
    assert!(found.is_synced);
    assert_eq!(found.outputs.unwrap(), json!({"parameters": [{"name": "p", "value": "1"}], "exitCode": "0"}));
    assert_eq!(found.exit_code, Some(0));
    assert_eq!(found.finished_at.unwrap().to_string(), "2026-01-01T00:00:05Z");
    assert_eq!(found.host.as_deref(), Some("m"));
    let early = outcome(&made, None, &template);
    assert_eq!(early.phase, Phase::Running, "the parameter has not been reported");
    let half = outcome(&made, Some(&result(false, Value::Null)), &json!({}));
    assert!(!half.is_synced);
    assert!(!outcome(&made, None, &json!({})).is_synced, "what was reported has not been seen yet");
    let lost = pod("Failed", json!([ended("wait", 137, ""), ended("main", 1, "")]));
    assert!(outcome(&lost, Some(&result(false, Value::Null)), &json!({})).is_synced, "it will never report");
}

#[test]
fn daemons_are_up_when_ready_and_fail_when_they_end() {
    let template = json!({"daemon": true});
    let up = outcome(&pod("Running", json!([running("main", true)])), None, &template);
    assert!(up.is_daemoned);
    assert_eq!(up.pod_ip.as_deref(), Some("10.0.0.7"));
    assert!(!outcome(&pod("Running", json!([running("main", false)])), None, &template).is_daemoned);
    let ended = outcome(&pod("Succeeded", json!([ended("main", 0, "")])), None, &template);
    assert_eq!(ended.phase, Phase::Failed);
}

#[test]
fn a_task_result_speaks_for_a_pod_that_is_gone() {
    let mut reported = result(true, json!({"exitCode": "3"}));
    assert_eq!(recorded(&reported), None);
    reported.phase = Some(Phase::Failed);
    reported.message = Some("main: Error (exit code 3)".to_owned());
    let found = recorded(&reported).unwrap();
    assert_eq!((found.phase, found.exit_code), (Phase::Failed, Some(3)));
    let mut half = reported;
    half.metadata = json!({"labels": {REPORTED: "false"}});
    assert_eq!(recorded(&half), None);
}
