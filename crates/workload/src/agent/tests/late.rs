//! What comes late, and what is waited for.

use super::super::kind::Persona;
use super::super::plan::learn;
use super::super::unused;
use super::*;

#[test]
fn a_gate_that_was_opened_may_wait_for_another() {
    let mut nodes = gate("g1", Some(0.5));
    nodes["g2"] = json!({"id": "g2", "displayName": "second", "type": "Suspend", "phase": "Running", "startedAt": at(10).to_string()});
    let mut world = World::with_nodes(nodes);
    world.now = 20;
    world.policy(true);
    world.answer("g1", true);
    world.look();
    let nodes = &mut world.workflow.as_mut().unwrap()["status"]["nodes"];
    nodes["g1"]["phase"] = json!("Succeeded");
    nodes["g1"]["finishedAt"] = json!(at(20).to_string());
    for now in [319, 320, 1000, 1809] {
        world.now = now;
        let planned = world.look();
        assert_eq!(planned.effects, [], "{now}");
        assert_eq!(planned.status.phase, Phase::PendingApproval, "{now}: {:?}", planned.status.message);
    }
    // Once the second is open too, five minutes without anything are a doubt again.
    world.answer("g2", true);
    world.look();
    let node = &mut world.workflow.as_mut().unwrap()["status"]["nodes"]["g2"];
    node["phase"] = json!("Succeeded");
    node["finishedAt"] = json!(at(1809).to_string());
    world.now = 1809 + 299;
    assert!(!world.look().status.phase.ended());
    world.now = 1809 + 300;
    assert_eq!(world.look().effects, [Effect::Stop]);
    assert!(world.phase().1.contains("nothing has followed"), "{:?}", world.phase());
}

#[test]
fn an_approval_that_came_too_late_is_none() {
    let mut world = World::with_nodes(gate("g", Some(0.5)));
    world.now = 20;
    world.policy(true);
    world.answer("g", true);
    assert!(matches!(world.look().effects.as_slice(), [Effect::Gate { allow: true, .. }]));
    // The duration of the template was over before that reached the Workflow.
    let mut nodes = gate("g", Some(0.5));
    nodes["g"]["phase"] = json!("Succeeded");
    nodes["g"]["outputs"] = json!({"parameters": [{"name": "decision", "value": "deny"}]});
    let (phase, why) = world.ends("Succeeded", &nodes);
    assert_eq!(phase, Phase::Failed);
    assert_eq!(why, "gate approval-gate was denied: it was approved, but only after the Workflow had closed it");
    // The same with a decision that did reach it.
    let mut world = World::with_nodes(gate("g", Some(0.5)));
    world.now = 20;
    world.policy(true);
    world.answer("g", true);
    world.look();
    nodes["g"]["outputs"]["parameters"][0]["value"] = json!("approve");
    assert_eq!(world.ends("Succeeded", &nodes).0, Phase::Completed);
}

#[test]
fn the_workflow_of_an_earlier_namesake_is_waited_for() {
    let left = json!({"metadata": {"name": "scan", "uid": "x", "annotations": {"thane.dev/workload-uid": "u0"},
        "labels": {"thane.dev/workload": "scan", "thane.dev/workload-namespace": "team"}}});
    let going = json!({"metadata": {"name": "scan", "uid": "x", "deletionTimestamp": at(0).to_string()}});
    for found in [left, going] {
        let mut world = World::new();
        world.policy(true);
        world.workflow = Some(found.clone());
        world.now = 299;
        let planned = world.look();
        assert_eq!((planned.status.phase, planned.effects.len()), (Phase::Pending, 0), "{found}");
        assert_eq!(planned.wake, Some(at(300)));
        assert!(world.phase().1.contains("of an earlier one"), "{:?}", world.phase());
        let mut patient = World::new();
        patient.workload = world.workload.clone();
        patient.now = 299;
        assert!(matches!(patient.look().effects.as_slice(), [Effect::Create(_)]));
        world.now = 300;
        world.look();
        assert_eq!(world.phase().0, Phase::Failed);
    }
}

#[test]
fn a_workload_that_no_policy_judged_is_judged_once_one_can() {
    let recorded = |allow: bool, rule: Option<&str>, reason: &str| Recorded {
        stage: Stage::Start,
        gate: None,
        allow,
        reason: reason.to_owned(),
        by: "policy".to_owned(),
        rule: rule.map(str::to_owned),
        input: None,
        workflow: None,
        at: Time(at(0)),
    };
    let mut world = World::new();
    let mut status = world.look().status;
    assert!(learn(&mut status, recorded(false, None, "there is no policy")));
    world.workload.status = Some(status);
    assert_eq!(world.look().status.phase, Phase::PolicyDenied);
    // Looked at again, it is asked for, and the same answer changes nothing.
    let planned = world.look();
    assert_eq!(
        (planned.asks.len(), planned.asks[0].stage, planned.status.phase),
        (1, Stage::Start, Phase::PolicyDenied)
    );
    let mut status = planned.status.clone();
    assert!(!learn(&mut status, recorded(false, None, "there is no policy")));
    assert_eq!(status, planned.status);
    assert!(learn(&mut status, recorded(true, Some("data.rule"), "fine")));
    world.workload.status = Some(status);
    assert!(matches!(world.look().effects.as_slice(), [Effect::Create(_)]));
    // A policy's own word stays.
    let mut judged = World::new();
    judged.policy(false);
    judged.look();
    assert!(judged.look().asks.is_empty());
}

#[test]
fn fields_that_nothing_acts_on_are_named_once() {
    let mut world = World::new();
    let before = world.look().status;
    assert!(before.conditions.is_empty());
    world.workload.spec.persona = Some(Persona::default());
    world.workload.spec.model_mapping = [("easy".to_owned(), "small".to_owned())].into();
    let after = world.look().status;
    let said = "accepted, but nothing here acts on spec.modelMapping, spec.persona";
    assert_eq!(unused::told(&before, &after), Some(said));
    assert_eq!(unused::told(&after, &after), None);
    world.now = 9;
    assert_eq!(world.look().status, after, "a second look finds nothing new");
    world.workload.spec.persona = None;
    world.workload.spec.model_mapping.clear();
    assert!(world.look().status.conditions.is_empty());
}
