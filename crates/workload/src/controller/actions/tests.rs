use super::*;

#[expect(clippy::needless_pass_by_value, reason = "it reads better where it is called")]
fn workflow(nodes: Value, phase: &str) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": {"name": "wf", "namespace": "ns", "labels": {"workflows.argoproj.io/completed": "true", "team": "a"}},
        "spec": {"suspend": true, "shutdown": "Stop"},
        "status": {"phase": phase, "nodes": nodes},
    })
}

fn node(name: &str, kind: &str, phase: &str, children: &[&str]) -> (String, Value) {
    let id = crate::steps::names::node_id("wf", name);
    let children: Vec<String> = children.iter().map(|child| crate::steps::names::node_id("wf", child)).collect();
    let display = name.rsplit_once("].").map_or(name, |(_, last)| last);
    (
        id.clone(),
        json!({"id": id, "name": name, "displayName": display, "type": kind, "phase": phase, "templateName": "t", "children": children}),
    )
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().expect("a time")
}

fn selector(text: &str) -> Selector {
    text.parse().expect("a selector")
}

#[test]
fn a_wait_is_resumed_stopped_and_set() {
    let (id, mut gate) = node("wf[0].gate", "Suspend", "Running", &[]);
    gate["outputs"] =
        json!({"parameters": [{"name": "d", "globalName": "g", "valueFrom": {"supplied": {}, "default": "no"}}]});
    let object = workflow(json!({id.clone(): gate}), "Running");
    let at = |edited: &Edited| edited.object["status"]["nodes"][&id].clone();
    let resume = Action::Resume { nodes: Selector::default(), message: "by me".to_owned() };
    let resumed = edited(object.clone(), &resume, now()).expect("resumes");
    assert_eq!(resumed.object["spec"].get("suspend"), None);
    assert_eq!((at(&resumed)["phase"].as_str(), at(&resumed)["message"].as_str()), (Some("Succeeded"), Some("by me")));
    assert_eq!(at(&resumed)["outputs"]["parameters"][0]["value"], "no");
    let set = Action::Set {
        nodes: selector("displayName=gate"),
        outputs: vec![("d".to_owned(), "yes".to_owned())],
        phase: None,
        message: String::new(),
    };
    let changed = edited(object.clone(), &set, now()).expect("sets");
    assert_eq!(
        (at(&changed)["phase"].as_str(), at(&changed)["outputs"]["parameters"][0]["value"].as_str()),
        (Some("Running"), Some("yes"))
    );
    assert_eq!(changed.object["status"]["outputs"]["parameters"][0]["value"], "yes");
    let stop = Action::Stop { nodes: selector("displayName=gate"), message: "denied".to_owned() };
    let stopped = edited(object.clone(), &stop, now()).expect("stops");
    assert_eq!(
        (at(&stopped)["phase"].as_str(), at(&stopped)["finishedAt"].as_str()),
        (Some("Failed"), Some("2026-01-02T03:04:05Z"))
    );
    let other = Action::Resume { nodes: selector("displayName=other"), message: String::new() };
    assert!(edited(object, &other, now()).is_err());
}

#[test]
fn a_retry_takes_back_what_failed_and_what_hung_on_it() {
    let nodes = [
        node("wf", "DAG", "Failed", &["wf.a", "wf.b"]),
        node("wf.a", "Pod", "Succeeded", &["wf.c"]),
        node("wf.b", "Retry", "Failed", &["wf.b(0)"]),
        node("wf.b(0)", "Pod", "Failed", &["wf.c"]),
        node("wf.c", "Skipped", "Omitted", &[]),
        node("wf.onExit", "Pod", "Succeeded", &[]),
    ];
    let object = workflow(Value::Object(nodes.into_iter().collect()), "Failed");
    let again = edited(object.clone(), &Action::Retry, now()).expect("retries");
    let mut removed: Vec<&str> = again.removed.iter().map(|(_, pod)| pod.as_str()).collect();
    removed.sort_unstable();
    let pods = [pod_name("wf", "t", "wf.b(0)"), pod_name("wf", "t", "wf.onExit")];
    let mut pods: Vec<&str> = pods.iter().map(String::as_str).collect();
    pods.sort_unstable();
    assert_eq!(removed, pods);
    let left = again.object["status"]["nodes"].as_object().expect("nodes");
    let mut left: Vec<(&str, &str)> = left
        .values()
        .map(|node| (node["name"].as_str().expect("a name"), node["phase"].as_str().expect("a phase")))
        .collect();
    left.sort_unstable();
    assert_eq!(left, [("wf", "Running"), ("wf.a", "Succeeded"), ("wf.b", "Running")]);
    assert_eq!(again.object["metadata"]["labels"]["workflows.argoproj.io/completed"], "false");
    assert_eq!(again.object["spec"].get("shutdown"), None);
    assert!(edited(workflow(json!({}), "Succeeded"), &Action::Retry, now()).is_err());
    assert!(edited(object, &Action::Terminate, now()).is_err());
}

#[test]
fn a_new_workflow_does_the_same() {
    let new = resubmitted(&workflow(json!({}), "Failed"));
    assert_eq!(new["metadata"]["generateName"], "wf-");
    assert_eq!(
        new["metadata"]["labels"],
        json!({"team": "a", "workflows.argoproj.io/resubmitted-from-workflow": "wf"})
    );
    assert_eq!((new["spec"].get("shutdown"), new.get("status")), (None, None));
}

#[test]
fn what_succeeded_is_not_run_again_in_a_new_workflow() {
    let nodes: serde_json::Map<String, Value> = [
        node("wf", "Steps", "Failed", &["wf[0]"]),
        node("wf[0]", "StepGroup", "Failed", &["wf[0].a", "wf[0].b"]),
        node("wf[0].a", "Pod", "Succeeded", &[]),
        node("wf[0].b", "Pod", "Failed", &[]),
    ]
    .into_iter()
    .collect();
    let old = workflow(Value::Object(nodes.clone()), "Failed");
    let new = memoized(&old, "x1y2z", now()).expect("a workflow");
    assert_eq!(new["metadata"]["name"], "wf-x1y2z");
    assert_eq!(new["metadata"].get("generateName"), None);
    let id = |name: &str| crate::steps::names::node_id("wf-x1y2z", name);
    let at = |name: &str| &new["status"]["nodes"][&id(name)];
    assert_eq!(
        (&at("wf-x1y2z")["phase"], &at("wf-x1y2z")["children"]),
        (&json!("Running"), &json!([id("wf-x1y2z[0]")]))
    );
    assert_eq!(at("wf-x1y2z[0]")["children"], json!([id("wf-x1y2z[0].a")]), "what failed is made anew");
    let (first, original) = (at("wf-x1y2z[0].a"), crate::steps::names::node_id("wf", "wf[0].a"));
    assert_eq!((&first["type"], &first["phase"]), (&json!("Skipped"), &json!("Skipped")));
    assert_eq!(first["message"], format!("original pod: {original}"));
    assert!(at("wf-x1y2z[0].b").is_null());
    let why = memoized(&workflow(Value::Object(nodes), "Succeeded"), "x", now()).unwrap_err();
    assert_eq!(why, "workflow must be Failed/Error to resubmit in memoized mode");
}
