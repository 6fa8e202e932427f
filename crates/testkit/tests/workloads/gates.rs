//! Gates and deletion of workloads that our own controller executes.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Bed, PATIENCE, example, shell};

/// What runs until it is stopped: a length that nobody else sleeps.
const SLEEP: &str = "600.7312";

fn workload(name: &str, template: &str, more: &Value) -> String {
    let mut spec = json!({"targetUrls": ["https://example.org"], "autoApproveThreshold": "0.95",
        "orchestration": {"type": "thane", "workflowTemplateRef": {"name": template}}});
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    json!({"apiVersion": "agentic.clawdlinux.org/v1alpha1", "kind": "AgentWorkload", "metadata": {"name": name}, "spec": spec})
        .to_string()
}

fn template(name: &str, templates: &Value) -> String {
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "WorkflowTemplate", "metadata": {"name": name},
        "spec": {"entrypoint": "main", "templates": templates}})
    .to_string()
}

fn policy(namespace: &str, set: &str, rego: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("policies-{set}"), "namespace": namespace, "labels": {"thane.dev/policy": set}},
        "data": {"policies.rego": format!("package agentworkload.policies\n{rego}\n")}})
    .to_string()
}

/// Waits for a workload's end, or for a person's turn; phase and message.
async fn comes_to(bed: &Bed, name: &str, phase: &str) -> Value {
    bed.until(&format!("agentworkload {name}"), |it| it["status"]["phase"] == phase).await["status"].clone()
}

fn last(status: &Value) -> (String, bool) {
    let last = status["decisions"].as_array().unwrap().last().unwrap();
    (last["by"].as_str().unwrap().to_owned(), last["allow"].as_bool().unwrap())
}

/// Template `look` and its policies, which open a gate when sure enough; and others that never do.
fn prepare(bed: &Bed) {
    bed.says("apply -f -", &example("gate.yaml"));
    bed.says("delete agentworkload looked", "");
    let never = "decision := {\"allow\": input.stage == \"start\", \"reason\": \"not today\"}";
    bed.says("apply -f -", &policy("default", "permissive", never));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_gate_ends_as_it_should() {
    let Some(mut bed) = Bed::start().await else { return };
    prepare(&bed);
    bed.says("apply -f -", &workload("opens", "look", &json!({"autoApproveThreshold": "0.49"})));
    let opened = comes_to(&bed, "opens", "Completed").await;
    assert_eq!(last(&opened), ("policy".to_owned(), true), "{opened:#}");

    bed.says("apply -f -", &workload("exact", "look", &json!({"autoApproveThreshold": "0.50"})));
    comes_to(&bed, "exact", "PendingApproval").await;
    bed.says("workload deny exact --reason exactly", "");
    comes_to(&bed, "exact", "Failed").await;

    bed.says("apply -f -", &workload("closes", "look", &json!({"opaPolicy": "permissive"})));
    let closed = comes_to(&bed, "closes", "Failed").await;
    assert_eq!(closed["message"], "gate gate was denied: not today");

    bed.says("apply -f -", &workload("silent", "look", &json!({"timeouts": {"suspendGate": 5}})));
    let silent = comes_to(&bed, "silent", "Failed").await;
    assert_eq!(silent["message"], "gate gate was denied: nobody answered in time");
    assert_eq!(last(&silent), ("deadline".to_owned(), false));

    two_at_once(&bed).await;

    // Nobody is there when the time is over.
    bed.says("apply -f -", &workload("late", "look", &json!({"timeouts": {"suspendGate": 8}})));
    comes_to(&bed, "late", "PendingApproval").await;
    bed.thane.kill_and_start_after(Duration::from_secs(9)).await.unwrap();
    let late = comes_to(&bed, "late", "Failed").await;
    assert_eq!(late["message"], "gate gate was denied: nobody answered in time");
    let report = bed.object("workflow late");
    let nodes = report["status"]["nodes"].as_object().unwrap().values();
    assert!(nodes.filter(|node| node["displayName"] == "report").all(|node| node["type"] != "Pod"), "{report:#}");
}

async fn two_at_once(bed: &Bed) {
    let task =
        |name: &str, template: &str, after: &[&str]| json!({"name": name, "template": template, "dependencies": after});
    let tasks = [task("one", "gate", &[]), task("two", "gate", &[]), task("last", "last", &["one", "two"])];
    let supplied = json!([{"name": "decision", "valueFrom": {"supplied": {}, "default": "deny"}}]);
    let templates = json!([{"name": "main", "dag": {"tasks": tasks}},
        {"name": "gate", "suspend": {}, "outputs": {"parameters": supplied}},
        {"name": "last", "container": shell("true")}]);
    bed.says("apply -f -", &template("two", &templates));
    bed.says("apply -f -", &workload("both", "two", &json!({})));
    comes_to(bed, "both", "PendingApproval").await;
    let ambiguous = bed.run("workload approve both --reason x", "");
    assert!(String::from_utf8_lossy(&ambiguous.stderr).contains("several gates wait"), "{ambiguous:?}");
    bed.says("workload approve both --gate two --reason fine", "");
    let opened =
        |it: &Value| it["status"]["decisions"].as_array().is_some_and(|all| all.iter().any(|one| one["by"] == "admin"));
    let half = bed.until("agentworkload both", opened).await;
    assert_ne!(half["status"]["phase"], "Completed", "one gate is still closed");
    bed.says("workload approve both --gate one --reason fine", "");
    let both = comes_to(bed, "both", "Completed").await;
    let conditions = both["conditions"].as_array().unwrap();
    let open = conditions.iter().find(|condition| condition["type"] == "GateOpen").unwrap();
    assert_eq!((&open["status"], &open["reason"]), (&json!("True"), &json!("Approved")), "{both:#}");
}

/// Whether some process of this machine sleeps so long.
fn sleeps() -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let said = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    said.into_iter().any(|line| String::from_utf8_lossy(&line).ends_with(&format!("sleep\0{SLEEP}\0")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_deleted_stops() {
    let Some(bed) = Bed::start().await else { return };
    prepare(&bed);
    let templates = json!([{"name": "main", "container": {"image": "host", "command": ["sleep", SLEEP]}}]);
    bed.says("apply -f -", &template("long", &templates));
    bed.says("apply -f -", &workload("long", "long", &json!({})));
    let patience = std::time::Instant::now();
    while !sleeps() {
        assert!(patience.elapsed() < PATIENCE, "it does not run\n{}", bed.thane.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bed.says("delete agentworkload long", "");
    let patience = std::time::Instant::now();
    while sleeps() {
        assert!(patience.elapsed() < PATIENCE, "it still runs\n{}", bed.thane.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bed.until("workflows", |it| it["items"] == json!([])).await;
    bed.until("pods -l workflows.argoproj.io/workflow=long", |it| it["items"] == json!([])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_that_are_none_let_nothing_start() {
    let Some(bed) = Bed::start().await else { return };
    let endless = "decision := {\"allow\": true, \"reason\": \"r\"} if {\nsome a in numbers.range(1, 20000)\n\
                   some b in numbers.range(1, 20000)\na * b == -1\n}";
    for (namespace, rego, why) in
        [("broken", "decision := {", "is not Rego"), ("endless", endless, "the policy failed")]
    {
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        bed.says("apply -f -", &space.to_string());
        bed.says("apply -f -", &policy(namespace, "strict", rego));
        bed.says(&format!("apply -f - --namespace {namespace}"), &workload("told", "none", &json!({})));
        let told = bed
            .until(&format!("agentworkload told --namespace {namespace}"), |it| it["status"]["phase"] == "PolicyDenied")
            .await;
        let message = told["status"]["message"].as_str().unwrap();
        assert!(message.contains(why), "{message}");
        assert_eq!(bed.object(&format!("workflows --namespace {namespace}"))["items"], json!([]), "nothing was made");
    }
}
