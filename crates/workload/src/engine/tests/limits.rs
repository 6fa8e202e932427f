//! What is bounded: how many run at once, how much is kept.

use std::sync::Arc;

use serde_json::{Value, json};

use super::world::{World, gives, stays};
use crate::engine::{Effect, Start, abandoned};
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
