use serde_json::{Value, json};

use super::*;
use crate::state::{Backoff, Ended, Running};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn pod(spec: &Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "p", "uid": "u"}, "spec": spec})).unwrap()
}

fn running() -> ContainerState {
    let running = Running { id: String::new(), since: at(0), started: true, ready: true, stopping: false };
    ContainerState { now: Now::Running(running), ..ContainerState::default() }
}

fn ended(code: i32) -> ContainerState {
    let ended = Ended {
        id: String::new(),
        code,
        signal: None,
        reason: String::new(),
        message: String::new(),
        started: at(90),
        finished: at(100),
    };
    ContainerState { now: Now::Ended(ended), ..ContainerState::default() }
}

fn states(all: &[(&str, ContainerState)]) -> Containers {
    all.iter().map(|(name, state)| ((*name).to_owned(), state.clone())).collect()
}

fn start(name: &str) -> Action {
    Action::Start(name.to_owned())
}

#[test]
fn containers_start_in_order() {
    let spec = json!({
        "initContainers": [{"name": "i"}, {"name": "side", "restartPolicy": "Always"}, {"name": "j"}],
        "containers": [{"name": "a"}, {"name": "b"}],
    });
    let pod = pod(&spec);
    let mut unstarted = running();
    if let Now::Running(running) = &mut unstarted.now {
        running.started = false;
    }
    let cases: [(Vec<_>, Vec<Action>); 8] = [
        (vec![], vec![start("i")]),
        (vec![("i", running())], vec![]),
        (vec![("i", ended(1))], vec![start("i")]),
        (vec![("i", ended(0))], vec![start("side")]),
        (vec![("i", ended(0)), ("side", unstarted)], vec![]),
        (vec![("i", ended(0)), ("side", running())], vec![start("j")]),
        (vec![("i", ended(0)), ("side", running()), ("j", ended(0))], vec![start("a"), start("b")]),
        (
            vec![("i", ended(0)), ("side", ended(3)), ("j", ended(0)), ("a", running()), ("b", running())],
            vec![start("side")],
        ),
    ];
    for (known, expected) in cases {
        let decision = decide(&pod, &states(&known), None, &BackoffRule::default(), at(100));
        assert_eq!(decision.actions, expected, "{known:?}");
        assert!(!decision.finished);
    }
}

#[test]
fn a_pod_that_lost_its_files_begins_anew() {
    let pod = pod(&json!({"initContainers": [{"name": "i"}], "containers": [{"name": "a"}]}));
    let earlier = ContainerState { earlier: true, ..ended(0) };
    let decision = decide(&pod, &states(&[("a", earlier)]), None, &BackoffRule::default(), at(100));
    assert_eq!(decision.actions, [start("i")]);
}

#[test]
fn the_policy_says_what_is_started_again() {
    for (policy, code, again) in [
        ("Always", 0, true),
        ("Always", 1, true),
        ("OnFailure", 0, false),
        ("OnFailure", 1, true),
        ("Never", 0, false),
        ("Never", 1, false),
    ] {
        let pod = pod(&json!({"restartPolicy": policy, "containers": [{"name": "a"}]}));
        let decision = decide(&pod, &states(&[("a", ended(code))]), None, &BackoffRule::default(), at(100));
        assert_eq!((!decision.actions.is_empty(), decision.finished), (again, !again), "{policy} {code}");
    }
    let pod = pod(&json!({
        "restartPolicy": "Never", "initContainers": [{"name": "i"}], "containers": [{"name": "a"}],
    }));
    assert!(decide(&pod, &states(&[("i", ended(1))]), None, &BackoffRule::default(), at(100)).finished);
}

#[test]
fn the_second_start_waits() {
    let pod = pod(&json!({"containers": [{"name": "a"}]}));
    let rule = BackoffRule::default();
    let mut state = ended(1);
    state.backoff = Backoff::default().started(at(90), at(90), &rule);
    let decision = decide(&pod, &states(&[("a", state.clone())]), None, &rule, at(105));
    assert_eq!(decision.actions, [Action::Wait("a".to_owned(), Duration::from_secs(10))]);
    assert_eq!(decision.wake, Some(at(110)));
    let decision = decide(&pod, &states(&[("a", state)]), None, &rule, at(110));
    assert_eq!(decision.actions, [start("a")]);
}

#[test]
fn what_could_not_be_started_is_tried_later() {
    let pod = pod(&json!({"containers": [{"name": "a"}]}));
    let state = ContainerState { retry_at: Some(at(200)), ..ContainerState::default() };
    let decision = decide(&pod, &states(&[("a", state)]), None, &BackoffRule::default(), at(100));
    assert_eq!((decision.actions, decision.wake), (vec![], Some(at(200))));
}

#[test]
fn a_deleted_pod_ends_with_its_sidecars_last() {
    let mut pod = pod(&json!({
        "initContainers": [{"name": "side", "restartPolicy": "Always"}], "containers": [{"name": "a"}, {"name": "b"}],
    }));
    pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(50)));
    let mut asked = running();
    if let Now::Running(running) = &mut asked.now {
        running.stopping = true;
    }
    let stop = |name: &str| Action::Stop(name.to_owned());
    for (known, actions, finished) in [
        (vec![("side", running()), ("a", running()), ("b", asked)], vec![stop("a")], false),
        (vec![("side", running()), ("a", ended(0)), ("b", ended(0))], vec![stop("side")], false),
        (vec![("side", ended(0)), ("a", ended(0)), ("b", ended(0))], vec![], true),
        (vec![], vec![], true),
    ] {
        let decision = decide(&pod, &states(&known), None, &BackoffRule::default(), at(100));
        assert_eq!((decision.actions, decision.finished), (actions, finished), "{known:?}");
    }
}

#[test]
fn sidecars_end_when_the_others_have() {
    let pod = pod(&json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "side", "restartPolicy": "Always"}], "containers": [{"name": "a"}],
    }));
    let decision =
        decide(&pod, &states(&[("side", running()), ("a", ended(0))]), None, &BackoffRule::default(), at(100));
    assert_eq!((decision.actions, decision.finished), (vec![Action::Stop("side".to_owned())], false));
}
