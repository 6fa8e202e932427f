//! Workloads whose steps a real Argo runs, and whose gates ours opens and closes.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use thane_testkit::deployed::Workloads;

use crate::plain;

/// How long gates wait that nobody answers, in seconds.
const SHORT: i64 = 20;

pub(super) async fn run(site: &Workloads) -> Result<()> {
    for object in [template("look", &["gate"]), template("look-twice", &["gate", "second"]), rights()] {
        site.apply(&object).await?;
    }
    plain("gates: policy, people, nobody", decided(site)).await?;
    plain("two gates at once", two(site)).await?;
    plain("nobody answers in another's name", own_name(site)).await?;
    plain("our operator is away when the time is over", away(site)).await?;
    plain("a workload that is deleted takes along what runs", deleted(site)).await
}

/// Confidence is what the job is called; behind the gates is a step that says it was there.
fn template(name: &str, gates: &[&str]) -> Value {
    let task =
        |name: &str, template: &str, after: &[&str]| json!({"name": name, "template": template, "dependencies": after});
    let mut tasks = vec![task("look", "look", &[])];
    tasks.extend(gates.iter().map(|gate| task(gate, "gate", &["look"])));
    let mut last = task("report", "report", gates);
    let open = gates.iter().map(|gate| format!("{{{{tasks.{gate}.outputs.parameters.decision}}}} == approve"));
    last["when"] = json!(open.collect::<Vec<_>>().join(" && "));
    tasks.push(last);
    let container =
        |script: &str| json!({"image": "busybox", "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", script]});
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "WorkflowTemplate", "metadata": {"name": name, "namespace": "argo"},
        "spec": {
            "entrypoint": "main",
            "arguments": {"parameters": [{"name": "job_id"}, {"name": "gate_timeout", "value": "30m"}]},
            "templates": [
                {"name": "main", "dag": {"tasks": tasks}},
                {"name": "look", "container": container("echo {{workflow.parameters.job_id}} > /tmp/confidence"),
                    "outputs": {"parameters": [{"name": "confidence", "valueFrom": {"path": "/tmp/confidence"}}]}},
                {"name": "gate", "suspend": {"duration": "{{workflow.parameters.gate_timeout}}"},
                    "outputs": {"parameters": [{"name": "decision", "valueFrom": {"supplied": {}, "default": "deny"}}]}},
                {"name": "report", "container": container("echo report")},
            ],
        },
    })
}

/// Ann may answer gates; Eve may do everything to workloads but that.
fn rights() -> Value {
    let rbac = "rbac.authorization.k8s.io/v1";
    let bound = |name: &str, kind: &str, role: &str| {
        json!({"apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": name, "namespace": "argo"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}]})
    };
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": rbac, "kind": "Role", "metadata": {"name": "submitter", "namespace": "argo"}, "rules": [
            {"apiGroups": ["agentic.clawdlinux.org"], "resources": ["agentworkloads"],
                "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]}]},
        bound("eve", "Role", "submitter"),
        bound("ann", "ClusterRole", "thane-workload-approver"),
    ]})
}

async fn submit(site: &Workloads, name: &str, confidence: &str, spec: &Value) -> Result<()> {
    let mut workload = json!({
        "apiVersion": "agentic.clawdlinux.org/v1alpha1", "kind": "AgentWorkload", "metadata": {"name": name},
        "spec": {"jobId": confidence, "targetUrls": ["https://example.org/"], "autoApproveThreshold": "0.95",
            "orchestration": {"workflowTemplateRef": {"name": "look"}}},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        workload["spec"][field] = value.clone();
    }
    site.apply(&workload).await
}

async fn phase(site: &Workloads, name: &str, phase: &str) -> Result<Value> {
    site.until(&["agentworkload", name], |it| it["status"]["phase"] == phase).await
}

/// The step behind the gates ran, or it did not.
async fn reported(site: &Workloads, name: &str) -> Result<bool> {
    let workflow = site.read(&["workflow", name]).await?;
    let nodes = workflow["status"]["nodes"].as_object().context("nodes")?;
    Ok(nodes.values().any(|node| node["displayName"] == "report" && node["phase"] == "Succeeded"))
}

async fn decided(site: &Workloads) -> Result<()> {
    // name, confidence, what a person says, who is recorded, whether it opens
    let table = [
        ("sure", "0.99", None, "policy", true),
        ("weak", "0.4", None, "policy", false),
        ("approved", "0.7", Some("approve"), "admin", true),
        ("denied", "0.7", Some("deny"), "admin", false),
        ("at-it", "0.95", Some("approve"), "admin", true),
        ("unanswered", "0.7", None, "deadline", false),
    ];
    for (name, confidence, ..) in table {
        let wait = if name == "unanswered" { SHORT } else { 1800 };
        submit(site, name, confidence, &json!({"timeouts": {"suspendGate": wait}})).await?;
    }
    for (name, _, person, ..) in table {
        let Some(verb) = person else { continue };
        let waiting = phase(site, name, "PendingApproval").await?;
        ensure!(waiting["status"]["argoWorkflow"]["runtime"] == "argo", "{waiting}");
        site.thane(&["workload", verb, name, "--reason", "seen"]).await?;
    }
    for (name, _, _, by, opens) in table {
        let done = phase(site, name, if opens { "Completed" } else { "Failed" }).await?;
        let last = done["status"]["decisions"].as_array().and_then(|all| all.last()).context("a decision")?.clone();
        ensure!(last["by"] == by && last["allow"] == opens && last["stage"] == "gate", "{name}: {last}");
        ensure!(reported(site, name).await? == opens, "{name}");
        if !opens {
            let message = done["status"]["message"].as_str().unwrap_or_default();
            ensure!(message.starts_with("gate gate was denied"), "{name}: {message}");
        }
    }
    Ok(())
}

async fn two(site: &Workloads) -> Result<()> {
    for (name, second) in [("both", "approve"), ("one-of-two", "deny")] {
        submit(site, name, "0.7", &json!({"orchestration": {"workflowTemplateRef": {"name": "look-twice"}}})).await?;
        let waits = |it: &Value| {
            let nodes = it["status"]["nodes"].as_object().into_iter().flatten();
            nodes.filter(|(_, node)| node["type"] == "Suspend" && node["phase"] == "Running").count() == 2
        };
        site.until(&["workflow", name], waits).await?;
        phase(site, name, "PendingApproval").await?;
        ensure!(site.thane(&["workload", "approve", name]).await.is_err(), "which one must be said");
        site.thane(&["workload", "approve", name, "--gate", "gate"]).await?;
        site.thane(&["workload", second, name, "--gate", "second"]).await?;
        let opens = second == "approve";
        phase(site, name, if opens { "Completed" } else { "Failed" }).await?;
        ensure!(reported(site, name).await? == opens, "{name}");
    }
    Ok(())
}

async fn own_name(site: &Workloads) -> Result<()> {
    submit(site, "named", "0.7", &json!({})).await?;
    phase(site, "named", "PendingApproval").await?;
    let workflow = site.read(&["workflow", "named"]).await?;
    let nodes = workflow["status"]["nodes"].as_object().context("nodes")?;
    let gate = nodes.values().find(|node| node["displayName"] == "gate").context("a gate")?["id"].clone();
    let answers = |by: &str| {
        let answer =
            json!({"gate": gate, "workflow": workflow["metadata"]["uid"], "allow": true, "by": by, "reason": "x"});
        json!({"spec": {"gateAnswers": [answer]}}).to_string()
    };
    for (who, by, why) in [
        ("eve", "ann", "cannot answer as somebody else"),
        ("eve", "eve", "eve may not approve agentworkloads here"),
        ("ann", "admin", "cannot answer as somebody else"),
    ] {
        let patch = ["patch", "agentworkload", "named", "--type=merge", "--patch", &answers(by), "--as", who];
        let refused = site.kubectl(&patch).await.err().map(|error| format!("{error:#}")).unwrap_or_default();
        ensure!(refused.contains(why), "{who} as {by}: {refused:?}");
    }
    let patch = ["patch", "agentworkload", "named", "--type=merge", "--patch", &answers("ann"), "--as", "ann"];
    site.kubectl(&patch).await?;
    let removed = ["patch", "agentworkload", "named", "--type=merge", "--patch", r#"{"spec":{"gateAnswers":null}}"#];
    let refused = site.kubectl(&removed).await.err().map(|error| format!("{error:#}")).unwrap_or_default();
    ensure!(refused.contains("stays as it was given"), "{refused:?}");
    let done = phase(site, "named", "Completed").await?;
    let last = done["status"]["decisions"].as_array().and_then(|all| all.last()).context("a decision")?.clone();
    ensure!(last["by"] == "ann", "{last}");
    Ok(())
}

async fn scale(site: &Workloads, replicas: u8) -> Result<()> {
    let to = format!("--replicas={replicas}");
    site.kubectl(&["scale", "--namespace=agentic-system", "deployment/thane-operator", &to]).await?;
    if replicas == 0 {
        let gone = ["--namespace=agentic-system", "--selector=app.kubernetes.io/name=thane-operator", "--timeout=60s"];
        site.kubectl(&[["wait", "pod", "--for=delete"].as_slice(), &gone].concat()).await?;
    }
    Ok(())
}

async fn away(site: &Workloads) -> Result<()> {
    submit(site, "away", "0.7", &json!({"timeouts": {"suspendGate": SHORT}})).await?;
    phase(site, "away", "PendingApproval").await?;
    scale(site, 0).await?;
    let ended = site.ended(&["away".to_owned()]).await?;
    ensure!(ended[0]["status"]["phase"] == "Succeeded", "to Argo nothing failed: {}", ended[0]["status"]["message"]);
    ensure!(!reported(site, "away").await?, "nobody approved");
    scale(site, 2).await?;
    let denied = phase(site, "away", "Failed").await?;
    ensure!(denied["status"]["message"] == "gate gate was denied: nobody answered in time", "{denied}");
    Ok(())
}

async fn deleted(site: &Workloads) -> Result<()> {
    submit(site, "short-lived", "0.7", &json!({})).await?;
    phase(site, "short-lived", "PendingApproval").await?;
    site.kubectl(&["delete", "agentworkload", "short-lived"]).await?;
    let none = |it: &Value| it["items"].as_array().is_some_and(Vec::is_empty);
    site.until(&["workflows", "--selector=thane.dev/workload=short-lived"], none).await?;
    site.until(&["pods", "--selector=workflows.argoproj.io/workflow=short-lived"], none).await?;
    Ok(())
}
