//! Final trees.

use serde_json::{Value, json};

use super::world::{End, World, exits, gives, stays};
use crate::status::{NodePhase, Phase};

fn echo() -> Value {
    json!({"name": "echo", "inputs": {"parameters": [{"name": "m", "default": "x"}]},
        "outputs": {"parameters": [{"name": "p", "valueFrom": {"path": "/p", "default": "none"}}]},
        "container": {"image": "i", "args": ["{{inputs.parameters.m}}"]}})
}

#[expect(clippy::needless_pass_by_value, reason = "it reads better where it is called")]
fn spec(main: Value, more: Value) -> Value {
    let mut main = main;
    main["name"] = json!("main");
    let mut templates = vec![main, echo()];
    templates.extend(more.as_array().cloned().unwrap_or_default());
    json!({"entrypoint": "main", "templates": templates})
}

fn outputs(p: &str) -> End {
    gives(json!({"parameters": [{"name": "p", "value": p}], "result": p}))
}

fn check(spec: Value, script: Vec<(&str, End)>, phase: Phase, message: &str, tree: &[&str]) -> World {
    let world = World::new(spec, script).run();
    assert_eq!(world.tree(), tree, "{:?} {}", world.status.phase, world.status.message);
    world.is(phase, message);
    world
}

#[test]
fn one_container() {
    let tree = ["wf Pod Succeeded"];
    let world = check(spec(json!({"container": {"image": "i"}}), json!([])), vec![], Phase::Succeeded, "", &tree);
    let start = &world.started[0];
    assert_eq!((start.node_id.as_str(), start.pod.as_str()), ("wf", "wf"));
    assert_eq!(world.status.progress, "1/1");
    assert_eq!(world.node("wf").outputs.as_ref().and_then(|outputs| outputs.exit_code.as_deref()), Some("0"));
    let failed = ["wf Pod Failed (main: Error (exit code 3))"];
    let spec = spec(json!({"container": {"image": "i"}}), json!([]));
    check(spec, vec![("wf", exits(3))], Phase::Failed, "main: Error (exit code 3)", &failed);
}

#[test]
fn steps_pass_outputs_on() {
    let main = json!({"outputs": {"parameters": [{"name": "o", "valueFrom": {"parameter": "{{steps.b.outputs.parameters.p}}"}}]},
    "steps": [
        [{"name": "a", "template": "echo"}],
        [{"name": "b", "template": "echo", "arguments": {"parameters": [{"name": "m", "value": "got {{steps.a.outputs.result}}"}]}},
         {"name": "c", "template": "echo", "when": "{{steps.a.outputs.parameters.p}} != one"}],
    ]});
    let world = check(
        spec(main, json!([])),
        vec![("wf[0].a", outputs("one")), ("wf[1].b", outputs("two"))],
        Phase::Succeeded,
        "",
        &[
            "wf Steps Succeeded -> wf[0]",
            "wf[0] StepGroup Succeeded -> wf[0].a",
            "wf[0].a Pod Succeeded -> wf[1]",
            "wf[1] StepGroup Succeeded -> wf[1].b, wf[1].c",
            "wf[1].b Pod Succeeded",
            "wf[1].c Skipped Skipped (when 'one != one' evaluated false)",
        ],
    );
    assert_eq!(world.started[1].template["container"]["args"], json!(["got one"]));
    assert!(world.started[0].wants_result && !world.started[1].wants_result);
    let given = world.node("wf").outputs.clone().expect("outputs");
    assert_eq!(given.parameters[0].value.as_ref().map(crate::spec::AnyString::as_str), Some("two"));
    let outbound: Vec<&str> = world.node("wf").outbound_nodes.iter().map(String::as_str).collect();
    assert_eq!(outbound, [world.node("wf[1].b").id.as_str(), world.node("wf[1].c").id.as_str()]);
}

#[test]
fn a_failed_group_ends_the_steps_unless_they_continue() {
    let steps = |on: Value| json!({"steps": [[{"name": "a", "template": "echo", "continueOn": on}, {"name": "b", "template": "echo"}], [{"name": "c", "template": "echo"}]]});
    let world = World::new(spec(steps(json!({})), json!([])), vec![("wf[0].a", exits(1))]).run();
    let id = world.node("wf[0].a").id.clone();
    world.is(Phase::Failed, &format!("child '{id}' failed"));
    assert_eq!(world.tree().len(), 4, "{:#?}", world.tree());
    let world = World::new(spec(steps(json!({"failed": true})), json!([])), vec![("wf[0].a", exits(1))]).run();
    world.is(Phase::Succeeded, "");
    assert_eq!(world.node("wf[1].c").phase, NodePhase::Succeeded);
}

#[test]
fn items_are_expanded_and_collected() {
    let main = json!({"steps": [
        [{"name": "a", "template": "echo", "withItems": ["x", {"k": "v"}, 3], "arguments": {"parameters": [{"name": "m", "value": "{{item}}"}]}}],
        [{"name": "b", "template": "echo", "arguments": {"parameters": [{"name": "m", "value": "{{steps.a.outputs.result}} {{steps.a.outputs.parameters.p}}"}]}}],
        [{"name": "c", "template": "echo", "withParam": "[]"}],
    ]});
    let world = check(
        spec(main, json!([])),
        vec![("wf[0].a(0:x)", outputs("1")), ("wf[0].a(1:k:v)", outputs("{\"z\":2}")), ("wf[0].a(2:3)", outputs("s"))],
        Phase::Succeeded,
        "",
        &[
            "wf Steps Succeeded -> wf[0]",
            "wf[0] StepGroup Succeeded -> wf[0].a(0:x), wf[0].a(1:k:v), wf[0].a(2:3)",
            "wf[0].a(0:x) Pod Succeeded -> wf[1]",
            "wf[0].a(1:k:v) Pod Succeeded -> wf[1]",
            "wf[0].a(2:3) Pod Succeeded -> wf[1]",
            "wf[1] StepGroup Succeeded -> wf[1].b",
            "wf[1].b Pod Succeeded -> wf[2]",
            "wf[2] StepGroup Succeeded -> wf[2].c",
            "wf[2].c Skipped Skipped (Skipped, empty params)",
        ],
    );
    let args =
        world.started.iter().find(|start| start.node_name == "wf[1].b").expect("b").template["container"]["args"]
            .clone();
    assert_eq!(args, json!(["[1,{\"z\":2},\"s\"] [\"1\",\"{\\\"z\\\":2}\",\"s\"]"]));
    assert_eq!(world.started[1].template["container"]["args"], json!(["{\"k\":\"v\"}"]));
}

#[test]
fn tasks_wait_for_each_other() {
    let main = json!({"dag": {"tasks": [
        {"name": "a", "template": "echo"},
        {"name": "b", "template": "echo", "dependencies": ["a"]},
        {"name": "c-1", "template": "echo", "dependencies": ["a"]},
        {"name": "d", "template": "echo", "dependencies": ["b", "c-1"],
         "arguments": {"parameters": [{"name": "m", "value": "{{=tasks['c-1'].outputs.parameters.p + '!'}}"}]}},
    ]}});
    let good = check(
        spec(main.clone(), json!([])),
        vec![("wf.c-1", outputs("see"))],
        Phase::Succeeded,
        "",
        &[
            "wf Dag Succeeded -> wf.a",
            "wf.a Pod Succeeded -> wf.b, wf.c-1",
            "wf.b Pod Succeeded -> wf.d",
            "wf.c-1 Pod Succeeded -> wf.d",
            "wf.d Pod Succeeded",
        ],
    );
    assert_eq!(good.started[3].template["container"]["args"], json!(["see!"]));
    check(
        spec(main, json!([])),
        vec![("wf.b", exits(1))],
        Phase::Failed,
        "",
        &[
            "wf Dag Failed -> wf.a",
            "wf.a Pod Succeeded -> wf.b, wf.c-1",
            "wf.b Pod Failed (main: Error (exit code 1)) -> wf.d",
            "wf.c-1 Pod Succeeded -> wf.d",
            "wf.d Skipped Omitted (omitted: depends condition not met)",
        ],
    );
}

#[test]
fn a_failure_that_is_handled_is_none() {
    let main = json!({"dag": {"tasks": [
        {"name": "a", "template": "echo"},
        {"name": "b", "template": "echo", "depends": "a.Failed"},
        {"name": "each", "template": "echo", "depends": "b", "withSequence": {"count": "2"}},
        {"name": "c", "template": "echo", "depends": "each.AnySucceeded"},
    ]}});
    check(
        spec(main, json!([])),
        vec![("wf.a", exits(1)), ("wf.each(0:0)", exits(1))],
        Phase::Succeeded,
        "",
        &[
            "wf Dag Succeeded -> wf.a",
            "wf.a Pod Failed (main: Error (exit code 1)) -> wf.b",
            "wf.b Pod Succeeded -> wf.each",
            "wf.c Pod Succeeded",
            "wf.each TaskGroup Failed -> wf.each(0:0), wf.each(1:1)",
            "wf.each(0:0) Pod Failed (main: Error (exit code 1)) -> wf.c",
            "wf.each(1:1) Pod Succeeded -> wf.c",
        ],
    );
}

#[test]
fn attempts_end_with_the_first_that_succeeds() {
    let again = json!([{"name": "again", "retryStrategy": {"limit": "2"}, "container": {"image": "i", "args": ["{{retries}} {{lastRetry.exitCode}}"]}}]);
    let main = json!({"steps": [[{"name": "a", "template": "again"}], [{"name": "b", "template": "echo"}]]});
    let world = check(
        spec(main.clone(), again.clone()),
        vec![("wf[0].a(0)", exits(7))],
        Phase::Succeeded,
        "",
        &[
            "wf Steps Succeeded -> wf[0]",
            "wf[0] StepGroup Succeeded -> wf[0].a",
            "wf[0].a Retry Succeeded -> wf[0].a(0), wf[0].a(1)",
            "wf[0].a(0) Pod Failed (main: Error (exit code 7))",
            "wf[0].a(1) Pod Succeeded -> wf[1]",
            "wf[1] StepGroup Succeeded -> wf[1].b",
            "wf[1].b Pod Succeeded",
        ],
    );
    assert_eq!(world.started[1].template["container"]["args"], json!(["1 7"]));
    assert_eq!(world.node("wf[0].a(1)").node_flag.map(|flag| flag.retried), Some(true));
    let all = vec![("wf[0].a(0)", exits(1)), ("wf[0].a(1)", exits(1)), ("wf[0].a(2)", exits(1))];
    let world = World::new(spec(main, again), all).run();
    assert_eq!(world.node("wf[0].a").message, "No more retries left");
    assert_eq!(world.status.phase, Phase::Failed);
}

#[test]
fn attempts_wait_and_ask_an_expression() {
    let again = |strategy: Value| spec(json!({"retryStrategy": strategy, "container": {"image": "i"}}), json!([]));
    let waits = again(json!({"limit": 3, "backoff": {"duration": "60", "factor": 2}}));
    let world = World::new(waits, vec![("wf(0)", exits(1)), ("wf(1)", exits(1))]).run();
    world.is(Phase::Succeeded, "");
    let gap = world.node("wf(2)").started_at.since(world.node("wf(1)").finished_at);
    assert!((119..=121).contains(&gap), "{gap}");
    let asks = again(json!({"expression": "asInt(lastRetry.exitCode) > 1"}));
    let world = World::new(asks, vec![("wf(0)", exits(2)), ("wf(1)", exits(1))]).run();
    world.is(Phase::Failed, "retryStrategy.expression evaluated to false");
    let short = again(json!({"limit": 9, "backoff": {"duration": "60", "maxDuration": "90"}}));
    let world = World::new(short, vec![("wf(0)", exits(1)), ("wf(1)", exits(1))]).run();
    world.is(Phase::Failed, "Backoff would exceed max duration limit");
}

#[test]
fn exit_handlers_and_hooks_run() {
    let main = json!({"steps": [[{"name": "a", "template": "echo", "hooks": {
        "exit": {"template": "echo", "arguments": {"parameters": [{"name": "m", "value": "{{steps.a.outputs.parameters.p}}"}]}},
        "runs": {"template": "echo", "expression": "steps.a.status == 'Running'"}}}]]});
    let mut spec = spec(main, json!([{"name": "bye", "container": {"image": "i", "args": ["{{workflow.status}}"]}}]));
    spec["onExit"] = json!("bye");
    let world = check(
        spec.clone(),
        vec![("wf[0].a", outputs("out"))],
        Phase::Succeeded,
        "",
        &[
            "wf Steps Succeeded -> wf[0]",
            "wf.onExit Pod Succeeded",
            "wf[0] StepGroup Succeeded -> wf[0].a",
            "wf[0].a Pod Succeeded -> wf[0].a.hooks.runs, wf[0].a.onExit",
            "wf[0].a.hooks.runs Pod Succeeded",
            "wf[0].a.onExit Pod Succeeded",
        ],
    );
    let args = |world: &World, name: &str| {
        world.started.iter().find(|start| start.node_name == name).expect("it").template["container"]["args"][0].clone()
    };
    assert_eq!((args(&world, "wf[0].a.onExit"), args(&world, "wf.onExit")), (json!("out"), json!("Succeeded")));
    assert!(world.started.iter().find(|start| start.node_name == "wf.onExit").expect("exit").on_exit);
    let world = World::new(spec, vec![("wf.onExit", exits(4))]).run();
    world.is(Phase::Failed, "main: Error (exit code 4)");
}

#[test]
fn a_wait_ends_by_time_with_defaults_or_an_error() {
    let wait = |from: Value| json!([{"name": "wait", "suspend": {"duration": "30"}, "outputs": {"parameters": [{"name": "d", "valueFrom": from}]}}]);
    let main = json!({"steps": [[{"name": "gate", "template": "wait"}], [{"name": "go", "template": "echo", "when": "{{steps.gate.outputs.parameters.d}} == approve"}]]});
    let world = World::new(spec(main.clone(), wait(json!({"supplied": {}, "default": "deny"}))), vec![]).run();
    world.is(Phase::Succeeded, "");
    assert_eq!(world.node("wf[1].go").phase, NodePhase::Skipped);
    let world = World::new(spec(main, wait(json!({"supplied": {}}))), vec![]).run();
    assert_eq!(world.node("wf[0].gate").phase, NodePhase::Error);
    assert_eq!(
        world.node("wf[0].gate").message,
        "raw output parameter 'd' has not been set and does not have a default value"
    );
    let forever = World::new(spec(json!({"suspend": {}}), json!([])), vec![]).run();
    assert_eq!((forever.status.phase, forever.node("wf").phase), (Phase::Running, NodePhase::Running));
}

#[test]
fn a_daemon_runs_until_its_template_ends() {
    let main = json!({"steps": [[{"name": "server", "template": "server"}], [{"name": "a", "template": "echo",
        "arguments": {"parameters": [{"name": "m", "value": "{{steps.server.ip}}"}]}}]]});
    let server = json!([{"name": "server", "daemon": true, "container": {"image": "i"}}]);
    let world = World::new(spec(main, server), vec![("wf[0].server", stays())]).run();
    world.is(Phase::Succeeded, "");
    assert_eq!(world.started[1].template["container"]["args"], json!(["10.0.0.1"]));
    assert_eq!(world.ended, [world.started[0].pod.clone()]);
    assert_eq!((world.node("wf[0].server").phase, world.node("wf[0].server").daemoned), (NodePhase::Succeeded, None));
}

#[test]
fn no_more_run_at_once_than_may() {
    let items: Vec<Value> = (0..6).map(Value::from).collect();
    for (main, whole) in [
        (json!({"parallelism": 2, "steps": [[{"name": "a", "template": "echo", "withItems": items}]]}), Value::Null),
        (
            json!({"parallelism": 2, "dag": {"tasks": [{"name": "a", "template": "echo", "withItems": items}]}}),
            Value::Null,
        ),
        (json!({"steps": [[{"name": "a", "template": "echo", "withItems": items}]]}), json!(2)),
    ] {
        let mut spec = spec(main, json!([]));
        if !whole.is_null() {
            spec["parallelism"] = whole;
        }
        let mut world = World::new(spec, vec![]);
        let mut most = 0;
        for _ in 0..100 {
            let operated = world.look(world.status.clone());
            world.status = operated.status;
            world.act(&operated.effects);
            let active =
                world.status.nodes.iter().filter(|node| node.kind == crate::status::NodeType::Pod && !node.is_ended());
            most = most.max(active.count());
            world.pass();
        }
        assert_eq!((world.status.phase, most, world.started.len()), (Phase::Succeeded, 2, 6), "{:#?}", world.tree());
    }
}

#[test]
fn a_deadline_and_a_shutdown_end_what_runs() {
    let main = json!({"steps": [[{"name": "a", "template": "echo"}, {"name": "w", "template": "wait"}]]});
    let mut late = spec(main.clone(), json!([{"name": "wait", "suspend": {}}]));
    late["activeDeadlineSeconds"] = json!(20);
    let world = World::new(late.clone(), vec![("wf[0].a", stays())]).run();
    assert_eq!(world.node("wf[0].a").message, "Step exceeded its deadline");
    assert_eq!(world.node("wf[0].w").message, "Step exceeded its deadline");
    assert_eq!((world.status.phase, world.ended.len()), (Phase::Failed, 1));
    let mut stopped =
        spec(main, json!([{"name": "wait", "suspend": {}}, {"name": "bye", "container": {"image": "i"}}]));
    stopped["onExit"] = json!("bye");
    for (strategy, exits) in [("Stop", true), ("Terminate", false)] {
        let mut world = World::new(stopped.clone(), vec![("wf[0].a", stays())]).run();
        world.workflow.spec.shutdown = strategy.to_owned();
        let world = world.run();
        world.is(Phase::Failed, &format!("Stopped with strategy '{strategy}'"));
        assert_eq!(world.status.nodes.get(&crate::steps::names::node_id("wf", "wf.onExit")).is_some(), exits);
        assert_eq!(world.node("wf[0].a").message, format!("workflow shutdown with strategy:  {strategy}"));
    }
}

#[test]
fn templates_elsewhere_are_found_and_kept() {
    let main = json!({"steps": [[{"name": "a", "templateRef": {"name": "lib", "template": "outer"}}]]});
    let lib = json!({"templates": [{"name": "outer", "steps": [[{"name": "in", "template": "leaf"}]]}, {"name": "leaf", "container": {"image": "i"}}]});
    let world = World::new(spec(main, json!([])), vec![]).template("lib", lib.clone()).run();
    world.is(Phase::Succeeded, "");
    let kept: Vec<&String> = world.status.stored_templates.keys().collect();
    assert_eq!(kept, ["namespaced/lib/leaf", "namespaced/lib/outer"]);
    assert_eq!(world.node("wf[0].a[0].in").template_scope, "namespaced/lib");
    assert_eq!(world.node("wf[0].a").template_scope, "local/wf");
    let whole = json!({"workflowTemplateRef": {"name": "lib"}, "entrypoint": "leaf", "arguments": {"parameters": [{"name": "x", "value": "1"}]}});
    let world = World::new(whole, vec![]).template("lib", lib).run();
    world.is(Phase::Succeeded, "");
    assert_eq!(world.status.stored_spec.as_ref().map(|spec| spec.entrypoint.as_str()), Some("leaf"));
}

#[test]
fn what_cannot_be_says_so() {
    let main = json!({"steps": [[{"name": "a", "template": "main"}]]});
    let world = World::new(spec(main, json!([])), vec![]).run();
    assert!(matches!(world.status.phase, Phase::Failed | Phase::Error), "{:?}", world.status.phase);
    assert!(world.status.nodes.iter().any(|node| node.message.starts_with("Maximum recursion depth exceeded")));
    let main = json!({"steps": [[{"name": "a", "template": "echo", "withParam": "no list"}]]});
    let world = World::new(spec(main, json!([])), vec![]).run();
    assert!(
        world.node("wf[0]").message.starts_with("withParam value could not be parsed as a JSON list: no list"),
        "{:#?}",
        world.tree()
    );
    let main = json!({"http": {"url": "http://x"}});
    let world = World::new(spec(main, json!([])), vec![]).run();
    world.is(Phase::Error, "error in entry template execution: templates of type HTTP are not supported");
}

#[test]
fn outputs_with_a_global_name_are_the_workflows() {
    let mut giver = echo();
    giver["name"] = json!("giver");
    giver["outputs"]["parameters"][0]["globalName"] = json!("shared");
    let main = json!({"steps": [[{"name": "a", "template": "giver"}], [{"name": "b", "template": "echo",
        "arguments": {"parameters": [{"name": "m", "value": "{{workflow.outputs.parameters.shared}}"}]}}]]});
    let left = gives(json!({"parameters": [{"name": "p", "value": "v", "globalName": "shared"}]}));
    let world = World::new(spec(main, json!([giver])), vec![("wf[0].a", left)]).run();
    world.is(Phase::Succeeded, "");
    assert_eq!(world.started[1].template["container"]["args"], json!(["v"]));
    let shared = &world.status.outputs.as_ref().expect("outputs").parameters[0];
    assert_eq!(
        (shared.name.as_str(), shared.value.as_ref().map(crate::spec::AnyString::as_str)),
        ("shared", Some("v"))
    );
}

#[test]
fn parameters_come_from_settings() {
    let mut spec = spec(
        json!({"inputs": {"parameters": [{"name": "c", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}}]},
            "container": {"image": "i", "args": ["{{inputs.parameters.c}} {{workflow.parameters.g}} {{workflow.name}} {{pod.name}}"]}}),
        json!([]),
    );
    spec["arguments"] =
        json!({"parameters": [{"name": "g", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}}]});
    let world = World::new(spec, vec![]).run();
    world.is(Phase::Succeeded, "");
    assert_eq!(world.started[0].template["container"]["args"], json!(["blue blue wf wf"]));
}
