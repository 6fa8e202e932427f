use serde_json::{Value, json};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn sandbox(change: Value) -> Sandbox {
    let mut value = json!({
        "apiVersion": "arl.infra.io/v1alpha1", "kind": "Sandbox",
        "metadata": {
            "name": "s", "namespace": "default", "uid": "u", "finalizers": [names::FINALIZER],
            "creationTimestamp": "1970-01-01T00:00:00Z",
        },
        "spec": {"poolRef": "p"},
    });
    merge(&mut value, change);
    serde_json::from_value(value).unwrap()
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn bound_to_pod(phase: &str) -> Value {
    json!({"status": {"phase": phase, "podName": "p-1", "podIP": "127.64.0.1", "lastTaskTime": "1970-01-01T00:00:10Z",
        "conditions": [{"type": "Ready", "status": "True", "reason": "PodReady", "message": "",
            "lastTransitionTime": "1970-01-01T00:00:10Z"}]}})
}

fn pod(status: &Value, deleting: bool) -> Pod {
    let mut pod = json!({"metadata": {"name": "p-1", "uid": "pod", "namespace": "default"}, "status": status});
    if deleting {
        pod["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
    }
    serde_json::from_value(pod).unwrap()
}

fn well() -> Pod {
    let conditions = json!([{"type": "Ready", "status": "True"}]);
    pod(&json!({"phase": "Running", "podIP": "127.64.0.1", "conditions": conditions}), false)
}

fn pool(conditions: &Value) -> WarmPool {
    serde_json::from_value(json!({
        "apiVersion": "arl.infra.io/v1alpha1", "kind": "WarmPool", "metadata": {"name": "p", "namespace": "default"},
        "spec": {"replicas": 1, "template": {}}, "status": {"conditions": conditions},
    }))
    .unwrap()
}

fn step(sandbox: &Sandbox, pod: Option<&Pod>, now: i64) -> Step {
    let (pool, pods) = (pool(&json!([])), Vec::from_iter(pod));
    decide(&View { sandbox, pods: &pods, pool: Some(&pool), claiming: false, rested: None, now: at(now) })
}

fn reason(step: &Step) -> &str {
    match step {
        Step::Fail(said) | Step::Wait(said) => said.reason,
        _ => "",
    }
}

#[test]
fn a_sandbox_made_by_hand_waits_for_a_pod() {
    let new = sandbox(json!({"metadata": {"finalizers": []}}));
    assert_eq!(step(&new, None, 0), Step::AddFinalizer);
    assert_eq!(reason(&step(&sandbox(json!({})), None, 0)), "WaitingForPod");
    let waits = sandbox(json!({"status": {"phase": "Pending", "conditions": [{
        "type": "Ready", "status": "False", "reason": "WaitingForPod", "message": "it waits for an idle pod of pool \"p\"",
        "lastTransitionTime": "1970-01-01T00:00:00Z",
    }]}}));
    assert_eq!(step(&waits, None, 0), Step::Claim);
    let view = |pool: Option<WarmPool>, claiming| {
        decide(&View { sandbox: &waits, pods: &[], pool: pool.as_ref(), claiming, rested: None, now: at(0) })
    };
    assert_eq!(view(Some(pool(&json!([]))), true), Step::Rest(None));
    assert_eq!(reason(&view(None, false)), "PoolNotFound");
    let failing = json!([{"type": "PodsFailing", "status": "True", "reason": "PodStartupFailed", "message": "no image",
        "lastTransitionTime": "1970-01-01T00:00:00Z"}]);
    assert_eq!(reason(&view(Some(pool(&failing)), true)), "PoolNotReady");
}

#[test]
fn a_gateway_is_given_time_for_its_own() {
    let theirs = sandbox(json!({"metadata": {"annotations": {names::CLAIMED_BY: "g"}, "finalizers": []}}));
    assert_eq!(step(&theirs, None, 29), Step::Rest(Some(at(30))));
    assert_eq!(step(&theirs, None, 30), Step::AddFinalizer);
    let until = json!({names::CLAIMED_BY: "g", names::CLAIM_UNTIL: "1970-01-01T00:01:00Z"});
    let theirs = sandbox(json!({"metadata": {"annotations": until, "finalizers": []}}));
    assert_eq!(step(&theirs, None, 59), Step::Rest(Some(at(60))));
    assert_eq!(step(&theirs, None, 60), Step::Delete, "its gateway is gone, and nobody knows of it");
    let mut claimed = bound_to_pod("Ready");
    merge(&mut claimed, json!({"metadata": {"annotations": {names::CLAIM_UNTIL: "1970-01-01T00:01:00Z"}}}));
    let claimed = sandbox(claimed);
    assert_eq!(step(&claimed, Some(&well()), 59), Step::Rest(Some(at(60))));
    assert_eq!(step(&claimed, Some(&well()), 60), Step::Delete, "it was claimed, and nobody was told");
}

#[test]
fn what_its_pod_is_decides() {
    let cases = [
        (bound_to_pod("Bound"), Some(well()), "Ready"),
        (bound_to_pod("Bound"), Some(pod(&json!({"phase": "Pending"}), false)), "Rest"),
        (bound_to_pod("Ready"), Some(well()), "Rest"),
        (bound_to_pod("Ready"), None, "LookForPod"),
        (bound_to_pod("Ready"), Some(pod(&json!({"phase": "Running"}), true)), "PodDeleted"),
        (bound_to_pod("Ready"), Some(pod(&json!({"phase": "Failed", "reason": "Evicted"}), false)), "PodFailed"),
        (bound_to_pod("Ready"), Some(pod(&json!({"phase": "Succeeded"}), false)), "PodFailed"),
    ];
    for (change, pod, expected) in cases {
        let step = step(&sandbox(change), pod.as_ref(), 20);
        assert!(format!("{step:?}").contains(expected), "{expected}: {step:?}");
    }
}

#[test]
fn it_goes_when_its_time_has_come_and_can_be_looked_at_for_a_while() {
    let mut change = bound_to_pod("Ready");
    merge(&mut change, json!({"spec": {"maxLifetimeSeconds": 60, "idleTimeoutSeconds": 20}}));
    let limited = sandbox(change);
    assert_eq!(step(&limited, Some(&well()), 11), Step::Rest(Some(at(30))));
    assert_eq!(step(&limited, Some(&well()), 30), Step::Ask { ip: "127.64.0.1".into() });
    assert_eq!(reason(&step(&limited, Some(&well()), 60)), "LifetimeExceeded", "whatever runs in it");
    let mut failed = bound_to_pod("Failed");
    failed["status"]["conditions"][0]["status"] = json!("False");
    let failed = sandbox(failed);
    assert_eq!(step(&failed, Some(&well()), 60), Step::DeletePods(vec![("p-1".into(), "pod".into())]));
    assert_eq!(step(&failed, None, 60), Step::Rest(Some(at(10 + 3600))));
    assert_eq!(step(&failed, None, 3700), Step::Delete);
    let deleted = sandbox(json!({"metadata": {"deletionTimestamp": "1970-01-01T00:00:00Z"}}));
    assert_eq!(step(&deleted, Some(&well()), 0), Step::DeletePods(vec![("p-1".into(), "pod".into())]));
    assert_eq!(step(&deleted, None, 0), Step::RemoveFinalizer);
}

#[test]
fn work_that_goes_on_is_never_ended_for_being_quiet() {
    let mut change = bound_to_pod("Ready");
    merge(&mut change, json!({"spec": {"idleTimeoutSeconds": 20}}));
    let limited = sandbox(change);
    let says = |running, streams, active: i64| Description {
        running,
        streams,
        active_at_ms: active * 1000,
        ..Description::default()
    };
    let cases = [
        (says(1, 0, 10), Some((100, 120))),
        (says(0, 1, 10), Some((100, 120))),
        (says(0, 0, 95), Some((95, 115))),
        (says(0, 0, 79), None),
        (says(0, 0, 5), None),
        // a clock that goes ahead does not keep it for ever
        (says(0, 0, 1 << 40), Some((100, 120))),
    ];
    for (description, expected) in cases {
        match (verdict(&limited, &description, at(100)), expected) {
            (Verdict::Active { at: active, again }, Some((since, until))) => {
                assert_eq!((active, again), (at(since), at(until)), "{description:?}");
            }
            (Verdict::Over(said), None) => assert_eq!(said.reason, "IdleTimeout"),
            (verdict, _) => panic!("{description:?}: {verdict:?}"),
        }
    }
}

#[test]
fn one_made_by_hand_for_one_use_goes_after_it() {
    let mut change = bound_to_pod("Ready");
    merge(&mut change, json!({"spec": {"keepAlive": false}}));
    let once = sandbox(change.clone());
    assert_eq!(step(&once, Some(&well()), 60), Step::Ask { ip: "127.64.0.1".into() });
    let says =
        |running, next_index| Description { running, next_index, active_at_ms: 50_000, ..Description::default() };
    assert!(matches!(verdict(&once, &says(0, 1), at(60)), Verdict::Over(said) if said.reason == "Released"));
    for (running, steps, now) in [(1, 1, 60), (0, 0, 60), (0, 1, 51)] {
        let verdict = verdict(&once, &says(running, steps), at(now));
        assert!(matches!(verdict, Verdict::Active { .. }), "{running} {steps} {now}: {verdict:?}");
    }
    for stays in [json!({"spec": {"keepAlive": true}}), json!({"metadata": {"annotations": {names::SESSION: "s"}}})] {
        let mut change = change.clone();
        merge(&mut change, stays.clone());
        assert_eq!(step(&sandbox(change), Some(&well()), 60), Step::Rest(None), "{stays}");
    }
}
