use serde_json::{Value, json};

use super::*;
use crate::state::Running;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn pod(spec: &Value) -> Pod {
    let status = json!({"phase": "Pending", "qosClass": "BestEffort"});
    serde_json::from_value(json!({"metadata": {"name": "p", "uid": "u"}, "spec": spec, "status": status})).unwrap()
}

fn running(ready: bool) -> ContainerState {
    let running = Running { id: "thane://1".to_owned(), since: at(5), started: true, ready, stopping: false };
    ContainerState { now: Now::Running(running), ..ContainerState::default() }
}

fn ended(code: i32) -> ContainerState {
    let ended = Ended {
        id: "thane://1".to_owned(),
        code,
        signal: None,
        reason: "Error".to_owned(),
        message: String::new(),
        started: at(5),
        finished: at(9),
    };
    ContainerState { now: Now::Ended(ended), ..ContainerState::default() }
}

fn facts(finished: bool) -> Facts {
    Facts { address: Some("127.64.0.1".to_owned()), host: "127.0.0.1".to_owned(), verdict: None, finished }
}

fn told(status: &PodStatus, kind: &str) -> (String, Option<String>) {
    let found = status.conditions.iter().flatten().find(|one| one.type_ == kind).unwrap();
    (found.status.clone(), found.reason.clone())
}

#[test]
fn phases() {
    for (policy, state, finished, expected) in [
        ("Always", None, false, "Pending"),
        ("Always", Some(running(false)), false, "Running"),
        ("Always", Some(ended(1)), false, "Running"),
        ("Never", Some(ended(0)), true, "Succeeded"),
        ("Never", Some(ended(1)), true, "Failed"),
    ] {
        let pod = pod(&json!({"restartPolicy": policy, "containers": [{"name": "a"}]}));
        let containers: Containers = state.into_iter().map(|state| ("a".to_owned(), state)).collect();
        assert_eq!(phase(&pod, &containers, &facts(finished)), expected, "{containers:?}");
    }
}

#[test]
fn readiness_is_of_all_containers() {
    let pod = pod(&json!({"containers": [{"name": "a"}, {"name": "b"}]}));
    for (ready, expected) in
        [(true, ("True".to_owned(), None)), (false, ("False".to_owned(), Some("ContainersNotReady".to_owned())))]
    {
        let containers = Containers::from([("a".to_owned(), running(true)), ("b".to_owned(), running(ready))]);
        let status = status(&pod, &containers, &facts(false), at(10));
        assert_eq!(told(&status, "Ready"), expected);
        assert_eq!(told(&status, "Initialized").0, "True");
        assert_eq!(told(&status, "PodScheduled").0, "True");
        assert_eq!(status.pod_ip.as_deref(), Some("127.64.0.1"));
    }
}

#[test]
fn what_did_not_change_keeps_its_time() {
    let mut pod = pod(&json!({"containers": [{"name": "a"}]}));
    let containers = Containers::from([("a".to_owned(), running(true))]);
    let first = status(&pod, &containers, &facts(false), at(10));
    pod.status = Some(first.clone());
    assert_eq!(status(&pod, &containers, &facts(false), at(99)), first);
}

#[test]
fn an_init_container_that_failed_for_good_fails_the_pod() {
    let pod = pod(&json!({"restartPolicy": "Never", "initContainers": [{"name": "i"}], "containers": [{"name": "a"}]}));
    let status = status(&pod, &Containers::from([("i".to_owned(), ended(3))]), &facts(true), at(10));
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    assert_eq!(told(&status, "Initialized"), ("False".to_owned(), Some("ContainersNotInitialized".to_owned())));
    let waiting = status.container_statuses.unwrap()[0].state.clone().unwrap().waiting.unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("PodInitializing"));
}
