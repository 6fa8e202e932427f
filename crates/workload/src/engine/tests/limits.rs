//! What is bounded: how many run at once, how much is kept.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::world::{World, exits, gives, stays};
use crate::controller::actions::{Action, edited};
use crate::engine::{Effect, Refused, Start, abandoned};
use crate::status::{NodePhase, Phase, WorkflowStatus};

fn wide(tasks: usize, more: &Value) -> Value {
    let tasks: Vec<Value> = (0..tasks).map(|at| json!({"name": format!("t{at}"), "template": "echo"})).collect();
    let mut spec = json!({"entrypoint": "main", "templates": [
        {"name": "main", "nodeSelector": {"a": "b"}, "dag": {"tasks": tasks}},
        {"name": "echo", "metadata": {"annotations": {"thane.dev/pool": "warm"}}, "container": {"image": "i"}}]});
    for (name, value) in more.as_object().into_iter().flatten() {
        spec[name] = value.clone();
    }
    spec
}

fn starts(effects: &[Effect]) -> Vec<&Start> {
    let mut found = Vec::new();
    for effect in effects {
        if let Effect::Start(start) = effect {
            found.push(start.as_ref());
        }
    }
    found
}

#[test]
fn steps_in_sandboxes_count_as_pods_do() {
    let mut world = World::new(wide(5, &json!({"parallelism": 2})), vec![]);
    let mut most = 0;
    for _ in 0..40 {
        let operated = world.look(world.status.clone());
        world.status = operated.status;
        if world.status.phase.is_completed() {
            break;
        }
        // Steps go into sandboxes, and every other look the oldest of them ends.
        for start in starts(&operated.effects) {
            world.lodged.insert(start.node_id.clone(), true);
        }
        most = most.max(world.lodged.len());
        if operated.effects.is_empty()
            && let Some((node, _)) = world.lodged.pop_first()
        {
            let result = json!({"metadata": {"name": node, "labels": {"workflows.argoproj.io/report-outputs-completed": "true"}},
                "phase": "Succeeded", "outputs": {"exitCode": "0"}});
            world.results.insert(node, Arc::new(serde_json::from_value(result).unwrap()));
        }
    }
    assert_eq!((world.status.phase, most), (Phase::Succeeded, 2), "{:#?}", world.tree());
}

#[test]
fn a_controller_that_has_just_started_takes_its_guests_back_before_others() {
    let mut world = World::new(wide(5, &json!({"parallelism": 2})), vec![]);
    for _ in 0..2 {
        let operated = world.look(world.status.clone());
        world.status = operated.status;
        for start in starts(&operated.effects) {
            world.lodged.insert(start.node_id.clone(), true);
        }
    }
    let running: Vec<String> = std::mem::take(&mut world.lodged).into_keys().collect();
    assert_eq!(running.len(), 2);
    let operated = world.look(world.status.clone());
    let mut again: Vec<String> = starts(&operated.effects).into_iter().map(|start| start.node_id.clone()).collect();
    again.sort_unstable();
    assert_eq!(again, running);
}

#[test]
fn what_runs_in_a_sandbox_is_never_begun_again() {
    let mut world = World::new(wide(1, &json!({})), vec![]);
    let operated = world.look(world.status.clone());
    assert_eq!(starts(&operated.effects).iter().map(|start| start.was_running).collect::<Vec<_>>(), [false]);
    let id = starts(&operated.effects)[0].node_id.clone();
    world.lodged.insert(id.clone(), true);
    world.status = world.look(operated.status).status;
    assert_eq!(world.node("wf.t0").phase, NodePhase::Running);
    // A controller that has just started, and whose API stutters when the sandbox is asked for.
    world.lodged.clear();
    for _ in 0..3 {
        let operated = world.look(world.status.clone());
        assert_eq!(starts(&operated.effects).iter().map(|start| start.was_running).collect::<Vec<_>>(), [true]);
        world.status = operated.status;
        assert_eq!(world.node("wf.t0").phase, NodePhase::Running);
        let refused = Refused { message: "the API is away".to_owned(), is_transient: true };
        world.refused.insert(id.clone(), refused);
    }
}

#[test]
fn a_retry_has_all_its_time_again() {
    let spec = json!({"activeDeadlineSeconds": 60, "entrypoint": "main", "templates": [
        {"name": "main", "steps": [[{"name": "a", "template": "echo"}], [{"name": "b", "template": "echo"}]]},
        {"name": "echo", "timeout": "50s", "container": {"image": "i"}}]});
    let mut world = World::new(spec, vec![("wf[1].b", exits(1))]).run();
    assert_eq!(world.status.phase, Phase::Failed);
    world.now += SignedDuration::from_hours(1);
    let mut object = serde_json::to_value(&world.workflow).unwrap();
    object["status"] = serde_json::to_value(&world.status).unwrap();
    let again = edited(object, &Action::Retry, world.now).unwrap();
    world.status = serde_json::from_value(again.object["status"].clone()).unwrap();
    for (id, _) in &again.removed {
        world.pods.remove(id);
        world.results.remove(id);
    }
    world.script.clear();
    let world = world.run();
    world.is(Phase::Succeeded, "");
    let names: Vec<&str> = world.started.iter().map(|start| start.node_name.as_str()).collect();
    assert_eq!(names, ["wf[0].a", "wf[1].b", "wf[1].b"]);
}

#[test]
fn steps_of_one_template_share_what_is_around_them() {
    let world = World::new(wide(100, &json!({})), vec![]);
    let operated = world.look(WorkflowStatus::default());
    let starts = starts(&operated.effects);
    assert_eq!(starts.len(), 100);
    let first = starts[0].boundary.as_ref().unwrap();
    assert_eq!(**first, json!({"nodeSelector": {"a": "b"}}));
    assert!(starts.iter().all(|start| Arc::ptr_eq(start.boundary.as_ref().unwrap(), first)));
}

#[test]
fn what_is_too_large_ends_without_what_its_steps_left() {
    let script = vec![("wf.t0", gives(json!({"result": "x".repeat(1000)}))), ("wf.t1", stays())];
    let mut world = World::new(wide(3, &json!({})), script);
    for _ in 0..3 {
        let operated = world.look(world.status.clone());
        world.status = operated.status;
        world.act(&operated.effects);
        world.pass();
    }
    let operated = world.look(world.status.clone());
    let ended = abandoned(&operated, "it is too large", true, world.now);
    assert_eq!((ended.status.phase, ended.status.message.as_str()), (Phase::Error, "it is too large"));
    assert_eq!(ended.labels["workflows.argoproj.io/completed"], "true");
    assert!(ended.status.nodes.iter().all(|node| node.is_ended() && node.outputs.is_none()));
    assert!(ended.status.nodes.iter().any(|node| node.phase == NodePhase::Error));
    assert!(serde_json::to_string(&ended.status).unwrap().len() < 5000);
    assert!(abandoned(&operated, "it is too large", false, world.now).status.nodes.is_empty());
}
