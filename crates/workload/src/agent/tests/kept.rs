//! What is kept of a workload: decisions of this run and of earlier ones, conditions, agents.

use super::super::history;
use super::super::kind::AgentWorkloadStatus;
use super::super::plan::learn;
use super::*;

fn record(stage: Stage, gate: Option<&str>, by: &str, allow: bool, input: Option<Value>) -> Recorded {
    Recorded {
        stage,
        gate: gate.map(str::to_owned),
        allow,
        reason: "because".to_owned(),
        by: by.to_owned(),
        rule: (by == "policy").then(|| "data.rule".to_owned()),
        input,
        workflow: None,
        at: Time(at(0)),
    }
}

fn asked(confidence: f64, insights: usize) -> Value {
    json!({"stage": "gate", "confidence": confidence, "threshold": 0.95, "insights": ["x".repeat(insights)]})
}

#[test]
fn what_let_it_start_outlives_any_number_of_decisions() {
    let mut world = World::with_nodes(json!({}));
    world.look();
    let status = world.workload.status.as_mut().unwrap();
    for number in 0..120 {
        let gate = format!("g{number}");
        status.decisions.push(record(Stage::Gate, Some(&gate), "policy", true, Some(asked(0.5, 10))));
        status.decisions.push(record(Stage::Gate, Some(&gate), "ada", true, None));
    }
    history::bound(status);
    assert_eq!(status.decisions[0].stage, Stage::Start);
    assert_eq!(status.decisions.iter().filter(|it| it.by == "ada").count(), 120, "rulings stay");
    assert!(status.decisions.len() < 130, "{}", status.decisions.len());
    assert!(world.look().asks.is_empty(), "nothing is asked again");
}

#[test]
fn earlier_runs_are_forgotten_first() {
    let mut status = AgentWorkloadStatus::default();
    for _ in 0..150 {
        status.decisions.push(record(Stage::Start, None, "policy", true, None));
    }
    status = status.anew();
    status.decisions.push(record(Stage::Start, None, "policy", true, None));
    history::bound(&mut status);
    assert_eq!((status.decisions.len(), status.current().count()), (100, 1));
}

#[test]
fn records_have_a_bound_and_gates_open_all_the_same() {
    let mut status = AgentWorkloadStatus::default();
    status.decisions.push(record(Stage::Start, None, "policy", true, Some(asked(0.5, 200_000))));
    for number in 0..90 {
        let gate = format!("g{number}");
        status.decisions.push(record(Stage::Gate, Some(&gate), "policy", true, Some(asked(0.96, 60_000))));
    }
    status.decisions[0].reason = "r".repeat(1 << 20);
    history::bound(&mut status);
    let size = serde_json::to_string(&status).unwrap().len();
    assert!(size < 350_000, "{size}");
    assert_eq!(status.decisions.len(), 91);
    assert!(status.decisions[1..].iter().all(|it| super::super::plan::closing(it).is_some()), "each was sure enough");
    let before = status.clone();
    history::bound(&mut status);
    assert_eq!(status, before, "a second time changes nothing");
    history::least(&mut status);
    assert!(serde_json::to_string(&status).unwrap().len() < 50_000);
}

#[test]
fn an_earlier_run_is_remembered_and_does_not_count() {
    let mut world = World::with_nodes(gate("g", Some(0.5)));
    world.now = 20;
    world.policy(true);
    world.answer("g", false);
    world.look();
    assert_eq!(world.ends("Failed", &json!({})).0, Phase::Failed);
    // As `thane workload retry` leaves it.
    let status = world.workload.status.take().unwrap().anew();
    assert_eq!((status.phase, status.decisions.len(), status.current().count()), (Phase::Pending, 3, 0));
    assert!(status.decisions.iter().all(|it| it.workflow.as_deref() == Some("w1")));
    (world.workload.status, world.workflow) = (Some(status), None);
    assert_eq!(world.look().asks.len(), 1, "whether it may start is asked again");
    world.policy(true);
    let planned = world.look();
    let [Effect::Create(made)] = planned.effects.as_slice() else { panic!("{planned:?}") };
    let mut workflow = made.clone();
    workflow["metadata"]["uid"] = json!("w2");
    workflow["status"] = json!({"phase": "Running", "nodes": gate("g", Some(0.5))});
    world.workflow = Some(workflow);
    world.policy(true);
    let planned = world.look();
    assert_eq!(planned.effects, [], "what was said of the gate then is not about this one");
    assert_eq!(planned.status.phase, Phase::PendingApproval);
    assert_eq!(planned.status.current().count(), 2);

    let mut denied = World::new();
    denied.policy(false);
    denied.look();
    denied.workload.metadata.generation = Some(2);
    let planned = denied.look();
    assert_eq!((planned.asks.len(), planned.status.decisions.len()), (1, 1), "what was denied is still to be read");
    let mut status = planned.status;
    assert!(learn(&mut status, record(Stage::Start, None, "policy", true, None)));
    assert_eq!((status.decisions.len(), status.current().count()), (2, 1));
}

#[test]
fn a_workflow_that_was_given_up_is_stopped_by_whoever_starts_next() {
    let mut world = World::with_nodes(json!({}));
    world.workflow.as_mut().unwrap()["status"] = json!({});
    world.now = 300;
    assert_eq!(world.look().effects, [Effect::Stop]);
    // Written, and killed before it was stopped.
    assert_eq!(world.look().effects, [Effect::Stop]);
    world.workflow.as_mut().unwrap()["spec"]["shutdown"] = json!("Terminate");
    assert_eq!(world.look().effects, []);
    world.workflow.as_mut().unwrap()["spec"].as_object_mut().unwrap().remove("shutdown");
    world.workflow.as_mut().unwrap()["status"] = json!({"phase": "Failed"});
    assert_eq!(world.look().effects, []);

    // One that ended by itself and was retried is somebody's.
    let mut retried = World::with_nodes(json!({}));
    retried.look();
    retried.ends("Failed", &json!({}));
    retried.workflow.as_mut().unwrap()["status"]["phase"] = json!("Running");
    assert_eq!(retried.look().effects, []);
}

#[test]
fn conditions_and_agents_say_how_far_it_is() {
    let mut nodes = gate("g", Some(0.5));
    nodes["s"]["startedAt"] = json!(at(1).to_string());
    let mut world = World::with_nodes(nodes);
    world.now = 20;
    world.policy(true);
    let said = |world: &World, kind: &str| {
        let status = world.workload.status.clone().unwrap();
        let found = status.conditions.into_iter().find(|condition| condition.type_ == kind);
        found.map(|condition| (condition.status, condition.reason, condition.message))
    };
    let words = |a: &str, b: &str, c: &str| Some((a.to_owned(), b.to_owned(), c.to_owned()));
    world.look();
    assert_eq!(said(&world, "Started"), words("True", "WorkflowCreated", "its Workflow was made"));
    assert_eq!(said(&world, "GateOpen"), words("False", "Waiting", "waits: approval-gate"));
    world.answer("g", true);
    world.look();
    assert_eq!(said(&world, "GateOpen"), words("True", "Approved", "by ada: I looked"));
    let agents = world.workload.status.clone().unwrap().agent_statuses;
    let names: Vec<(&str, &str)> = agents.iter().map(|it| (it.name.as_str(), it.phase.as_str())).collect();
    assert_eq!(names, [("dom", "Succeeded"), ("screenshot", "Succeeded")]);
}
