//! A controller that forgets everything but what is stored goes on where it was.

use jiff::SignedDuration;
use serde_json::json;

use super::world::{World, exits, gives, stays};
use crate::engine::{Effect, leftovers};
use crate::status::WorkflowStatus;

fn worlds() -> Vec<(&'static str, World)> {
    let echo = json!({"name": "echo", "inputs": {"parameters": [{"name": "m", "default": "x"}]},
        "container": {"image": "i", "args": ["{{inputs.parameters.m}}"]}});
    let steps = json!({"entrypoint": "main", "onExit": "echo", "templates": [
        {"name": "main", "steps": [
            [{"name": "gen", "template": "echo"}],
            [{"name": "each", "template": "echo", "withParam": "{{steps.gen.outputs.result}}",
              "arguments": {"parameters": [{"name": "m", "value": "{{item}}"}]}}],
            [{"name": "last", "template": "echo", "when": "{{steps.gen.status}} == Succeeded"}],
        ]}, echo]});
    let dag = json!({"entrypoint": "main", "templates": [
        {"name": "main", "dag": {"tasks": [
            {"name": "a", "template": "echo"},
            {"name": "b", "template": "again", "depends": "a"},
            {"name": "c", "template": "echo", "depends": "a.Failed"},
            {"name": "d", "template": "echo", "depends": "b && (c || c.Omitted)"},
        ]}},
        {"name": "again", "retryStrategy": {"limit": 3}, "container": {"image": "i"}},
        echo]});
    vec![
        ("steps", World::new(steps, vec![("wf[0].gen", gives(json!({"result": "[1,2,3]"})))])),
        ("dag", World::new(dag, vec![("wf.b(0)", exits(1)), ("wf.b(1)", exits(2))])),
    ]
}

/// Runs with a status that is stored only at some looks; in between the controller works from memory, and it may lose that.
fn run(mut world: World, stores_every: usize, crash_at: Option<usize>, sweeps: bool) -> World {
    let mut memory: WorkflowStatus = world.status.clone();
    for look in 0..300 {
        if crash_at == Some(look) {
            memory = world.status.clone();
        }
        let operated = world.look(memory.clone());
        memory = operated.status.clone();
        world.act(&operated.effects);
        if look % stores_every == 0 || memory.phase.is_completed() {
            world.status = memory.clone();
            if sweeps {
                let ended: Vec<String> =
                    memory.nodes.iter().filter(|node| node.is_ended()).map(|node| node.id.clone()).collect();
                world.pods.retain(|id, _| !ended.contains(id));
            }
        }
        if memory.phase.is_completed() {
            return world;
        }
        world.now += SignedDuration::from_secs(1);
        world.pass();
    }
    panic!("it does not end:\n{:#?}", world.tree());
}

#[test]
fn wherever_it_forgets_no_step_runs_twice_and_none_is_forgotten() {
    for (name, world) in worlds() {
        let whole = run(world.clone(), 1, None, false);
        let mut expected: Vec<&str> = whole.started.iter().map(|start| start.node_name.as_str()).collect();
        expected.sort_unstable();
        for stores_every in [1, 2, 5, 1000] {
            for crash_at in 0..20 {
                for sweeps in [false, true] {
                    let other = run(world.clone(), stores_every, Some(crash_at), sweeps);
                    assert_eq!(other.tree(), whole.tree(), "{name}: crash at {crash_at}, stored every {stores_every}");
                    let mut started: Vec<&str> = other.started.iter().map(|start| start.node_name.as_str()).collect();
                    started.sort_unstable();
                    assert_eq!(started, expected, "{name}: crash at {crash_at}, stored every {stores_every}");
                }
            }
        }
    }
}

#[test]
fn a_result_counts_even_if_the_pod_is_gone() {
    let (_, world) = worlds().remove(0);
    let mut world = world;
    let operated = world.look(world.status.clone());
    world.act(&operated.effects);
    world.pass();
    world.pass();
    // Everything but the result is lost before anybody looked.
    world.pods.clear();
    let operated = world.look(WorkflowStatus::default());
    world.act(&operated.effects);
    world.status = operated.status;
    assert_eq!(world.node("wf[0].gen").phase, crate::status::NodePhase::Succeeded, "{:#?}", world.tree());
}

/// Worlds in which something is ended: by a person, by a template that is over, by time.
fn ending() -> Vec<(&'static str, World)> {
    let echo = json!({"name": "echo", "container": {"image": "i"}});
    let server = json!({"name": "server", "daemon": true, "container": {"image": "i"}});
    let daemon = json!({"entrypoint": "main", "templates": [
        {"name": "main", "steps": [[{"name": "use", "template": "used"}], [{"name": "last", "template": "echo"}]]},
        {"name": "used", "steps": [[{"name": "server", "template": "server"}], [{"name": "a", "template": "echo"}]]},
        server, echo]});
    let side = json!({"entrypoint": "main", "activeDeadlineSeconds": 60, "templates": [
        {"name": "main", "steps": [[{"name": "a", "template": "echo"}, {"name": "b", "template": "echo"}]]}, echo]});
    let late = json!({"entrypoint": "main", "activeDeadlineSeconds": 12, "onExit": "echo", "templates": [
        {"name": "main", "steps": [[{"name": "a", "template": "echo"}, {"name": "b", "template": "echo"}]]}, echo]});
    let stay = || vec![("wf[0].a", stays()), ("wf[0].b", stays())];
    vec![
        ("daemon", World::new(daemon, vec![("wf[0].use[0].server", stays())])),
        ("stop", World::new(side.clone(), stay())),
        ("terminate", World::new(side, stay())),
        ("late", World::new(late, stay())),
    ]
}

/// Runs to the end; at one look the controller is gone after it has stored what it came to, before it has ended anything.
fn run_ending(name: &str, mut world: World, crash_at: Option<usize>) -> World {
    for look in 0..100 {
        if look == 5 && ["stop", "terminate"].contains(&name) {
            world.workflow.spec.shutdown = if name == "stop" { "Stop" } else { "Terminate" }.to_owned();
        }
        let operated = world.look(world.status.clone());
        world.status = operated.status;
        let is_lost = |effect: &Effect| crash_at == Some(look) && matches!(effect, Effect::End { .. });
        let done: Vec<Effect> = operated.effects.into_iter().filter(|effect| !is_lost(effect)).collect();
        world.act(&done);
        if world.status.phase.is_completed() {
            let left = leftovers(&world.status, &world.pods).into_iter().map(|pod| Effect::End { pod });
            world.act(&left.collect::<Vec<_>>());
            return world;
        }
        world.now += SignedDuration::from_secs(1);
        world.pass();
    }
    panic!("{name} does not end:\n{:#?}", world.tree());
}

#[test]
fn wherever_it_forgets_nothing_goes_on_that_was_to_end() {
    for (name, world) in ending() {
        let whole = run_ending(name, world.clone(), None);
        assert!(!whole.ended.is_empty() && whole.alive().is_empty(), "{name}: {:?}", whole.tree());
        let mut once = whole.ended.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), whole.ended.len(), "{name}: nothing is ended twice");
        for crash_at in 0..20 {
            let other = run_ending(name, world.clone(), Some(crash_at));
            assert_eq!(other.tree(), whole.tree(), "{name}: crash at {crash_at}");
            assert_eq!(other.alive(), Vec::<&str>::new(), "{name}: crash at {crash_at}");
        }
    }
}
