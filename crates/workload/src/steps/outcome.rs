//! What a pod and its task result say about a step, in Argo's words.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStateWaiting, ContainerStatus, Pod, PodStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::names::{INIT, MAIN, REPORTED, WAIT, WHY_A_POD};

/// Where a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Its pod has not started.
    Pending,
    /// It runs, or what it leaves is being saved.
    Running,
    /// It ended well.
    Succeeded,
    /// Its program did not end well.
    Failed,
    /// Something around its program did not.
    Error,
}

/// What the executor reported: a `WorkflowTaskResult`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskResult {
    /// Name, labels, owner.
    pub metadata: Value,
    /// Only where the executor knows better than the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Goes with the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Parameters, artifacts and result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Value>,
    /// How far it says it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
}

impl TaskResult {
    /// The node it is about.
    pub fn node_id(&self) -> &str {
        self.metadata["name"].as_str().unwrap_or_default()
    }

    /// Whether nothing more will come.
    pub fn is_complete(&self) -> bool {
        self.metadata["labels"][REPORTED] == "true"
    }
}

/// A step, as its node shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Where it is.
    pub phase: Phase,
    /// Why.
    pub message: String,
    /// Argo's Outputs, with `exitCode`.
    pub outputs: Option<Value>,
    /// The exit code of `main`.
    pub exit_code: Option<i32>,
    /// Whether all that was reported has come; where it is not, the step is not over.
    pub is_synced: bool,
    /// A daemon that is up.
    pub is_daemoned: bool,
    /// The pod's address, for daemons.
    pub pod_ip: Option<String>,
    /// The machine it runs on.
    pub host: Option<String>,
    /// When its last container ended, once it is over.
    pub finished_at: Option<Timestamp>,
    /// How far it says it is.
    pub progress: Option<String>,
}

/// What a step's pod and task result say about it. The template is the one it was made from.
pub fn outcome(pod: &Pod, result: Option<&TaskResult>, template: &Value) -> Outcome {
    let status = pod.status.clone().unwrap_or_default();
    let is_daemon = template["daemon"] == true;
    let (mut phase, mut message) = assess(pod, &status, is_daemon);
    let exit_code = exit_code(&status);
    let mut outputs = result.and_then(|result| result.outputs.clone()).filter(has_outputs);
    if let Some(code) = exit_code {
        let all = outputs.get_or_insert_with(|| Value::Object(Map::new()));
        if all["exitCode"].is_null() {
            all["exitCode"] = json!(code.to_string());
        }
    }
    let wait = status.container_statuses.iter().flatten().find(|one| one.name == WAIT);
    let is_over = !matches!(phase, Phase::Pending | Phase::Running);
    let is_synced = result.is_some_and(TaskResult::is_complete) || !will_report(&status);
    if is_over && status.phase.as_deref() != Some("Failed") && wait.is_some_and(runs) {
        // It may be busy saving what the step left.
        phase = Phase::Running;
        message.clear();
    }
    if phase == Phase::Succeeded && !are_there(template, outputs.as_ref()) && wait.is_some() {
        phase = Phase::Running;
    }
    let is_daemoned = is_daemon && phase == Phase::Running && is_ready(&status);
    if message.is_empty()
        && let Some(why) = pod.metadata.annotations.as_ref().and_then(|all| all.get(WHY_A_POD))
    {
        message = format!("runs as a pod: {why}");
    }
    Outcome {
        phase,
        message,
        outputs,
        exit_code,
        is_synced,
        is_daemoned,
        pod_ip: status.pod_ip.clone().filter(|_| is_daemoned),
        host: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        finished_at: finished_at(&status).filter(|_| is_over),
        progress: result.and_then(|result| result.progress.clone()),
    }
}

/// What a complete task result says on its own, for a step whose pod is gone.
pub fn recorded(result: &TaskResult) -> Option<Outcome> {
    let phase = result.phase.filter(|_| result.is_complete())?;
    let exit_code = result.outputs.as_ref().and_then(|outputs| outputs["exitCode"].as_str()?.parse().ok());
    Some(Outcome {
        phase,
        message: result.message.clone().unwrap_or_default(),
        outputs: result.outputs.clone().filter(has_outputs),
        exit_code,
        is_synced: true,
        is_daemoned: false,
        pod_ip: None,
        host: None,
        finished_at: None,
        progress: result.progress.clone(),
    })
}

fn assess(pod: &Pod, status: &PodStatus, is_daemon: bool) -> (Phase, String) {
    match status.phase.as_deref() {
        None | Some("" | "Pending") => (Phase::Pending, pending(status)),
        Some("Running") => (Phase::Running, String::new()),
        // A daemon is meant to run until it is ended.
        Some("Succeeded") if is_daemon => (Phase::Failed, String::new()),
        Some("Succeeded") => (Phase::Succeeded, String::new()),
        Some("Failed") => reason(pod, status),
        Some(other) => {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            (Phase::Error, format!("Unexpected pod phase for {name}: {other}"))
        }
    }
}

fn waiting(one: &ContainerStatus) -> Option<&ContainerStateWaiting> {
    one.state.as_ref()?.waiting.as_ref()
}

fn pending(status: &PodStatus) -> String {
    let worded = |reason: Option<&str>, message: Option<&str>| {
        let reason = reason.unwrap_or_default();
        message.filter(|text| !text.is_empty()).map_or_else(|| reason.to_owned(), |text| format!("{reason}: {text}"))
    };
    let mut own = status.container_statuses.iter().flatten().filter_map(waiting);
    // What keeps the first from starting says more than that the others wait for it.
    let mut all = status.init_container_statuses.iter().flatten().filter_map(waiting).chain(own.clone());
    let stuck = all.find(|one| one.message.as_ref().is_some_and(|text| !text.is_empty()));
    if let Some(waiting) = stuck.or_else(|| own.next()) {
        return worded(waiting.reason.as_deref(), waiting.message.as_deref());
    }
    let unschedulable = |reason: Option<&str>| reason == Some("Unschedulable");
    let found = status.conditions.iter().flatten().find(|one| unschedulable(one.reason.as_deref()));
    found.map(|one| worded(one.reason.as_deref(), one.message.as_deref())).unwrap_or_default()
}

/// Of all containers that failed, the one that says most: init containers, then main, wait and sidecars.
fn reason(pod: &Pod, status: &PodStatus) -> (Phase, String) {
    if let Some(message) = status.message.as_ref().filter(|message| !message.is_empty()) {
        return (Phase::Failed, message.clone());
    }
    let rank = |name: &str| match name {
        MAIN => 1,
        WAIT => 2,
        _ => 3,
    };
    let mut later: Vec<&ContainerStatus> = status.container_statuses.iter().flatten().collect();
    later.sort_by_key(|one| rank(&one.name));
    let all: Vec<&ContainerStatus> = status.init_container_statuses.iter().flatten().chain(later).collect();
    if all.is_empty() {
        let (name, namespace) = (pod.metadata.name.as_deref(), pod.metadata.namespace.as_deref());
        let (name, namespace) = (name.unwrap_or_default(), namespace.unwrap_or_default());
        return (Phase::Failed, format!("can't find failed message for pod {name} namespace {namespace}"));
    }
    let mut ended_well: Vec<&str> = Vec::new();
    for one in all {
        let Some(state) = &one.state else { continue };
        if let Some(waiting) = &state.waiting {
            let (reason, message) = (waiting.reason.as_deref(), waiting.message.as_deref());
            let (reason, message) = (reason.unwrap_or_default(), message.unwrap_or_default());
            let text = format!("Pod failed before {} container starts due to {reason}: {message}", one.name);
            return (Phase::Error, text);
        }
        let Some(ended) = &state.terminated else { continue };
        if ended.exit_code == 0 {
            ended_well.push(&one.name);
            continue;
        }
        let is_ours = [MAIN, WAIT, INIT].contains(&one.name.as_str());
        // A sidecar is ended by us when main is over.
        if !is_ours && [137, 143].contains(&ended.exit_code) {
            continue;
        }
        let why = ended.reason.as_deref().unwrap_or_default();
        let mut text = format!("{}: {why} (exit code {})", one.name, ended.exit_code);
        if let Some(said) = ended.message.as_ref().filter(|said| !said.is_empty()) {
            text = format!("{text}: {said}");
        }
        let is_error = [INIT, WAIT].contains(&one.name.as_str());
        return (if is_error { Phase::Error } else { Phase::Failed }, text);
    }
    match (ended_well.contains(&MAIN), ended_well.contains(&WAIT)) {
        (true, true) => (Phase::Succeeded, String::new()),
        (true, false) => (Phase::Failed, "pod failed: wait container did not complete successfully".to_owned()),
        (false, true) => (Phase::Failed, "pod failed: main container did not complete successfully".to_owned()),
        (false, false) => {
            (Phase::Failed, "pod failed: neither main nor wait container completed successfully".to_owned())
        }
    }
}

fn exit_code(status: &PodStatus) -> Option<i32> {
    let main = status.container_statuses.iter().flatten().find(|one| one.name == MAIN)?;
    Some(main.state.as_ref()?.terminated.as_ref()?.exit_code)
}

fn runs(one: &ContainerStatus) -> bool {
    one.state.as_ref().is_some_and(|state| state.running.is_some())
}

/// Whether the container that reports runs or has ended well, which it does only after it has reported.
fn will_report(status: &PodStatus) -> bool {
    let all = || status.container_statuses.iter().flatten();
    let reporter = all().find(|one| one.name == WAIT).or_else(|| all().find(|one| one.name == MAIN));
    let ended = reporter.and_then(|one| one.state.as_ref()?.terminated.as_ref());
    ended.is_some_and(|ended| ended.exit_code == 0) || reporter.is_some_and(runs)
}

fn is_ready(status: &PodStatus) -> bool {
    status.container_statuses.iter().flatten().all(|one| one.ready)
}

fn finished_at(status: &PodStatus) -> Option<Timestamp> {
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    all.filter_map(|one| Some(one.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0)).max()
}

fn has_outputs(outputs: &Value) -> bool {
    let some = |name: &str| outputs[name].as_array().is_some_and(|all| !all.is_empty());
    some("parameters") || some("artifacts") || !outputs["result"].is_null() || !outputs["exitCode"].is_null()
}

/// Whether what the template promises has been reported.
fn are_there(template: &Value, outputs: Option<&Value>) -> bool {
    let promised = &template["outputs"];
    let list = |of: &Value, name: &str| of[name].as_array().is_some_and(|all| !all.is_empty());
    let required = |one: &Value| one["optional"] != true;
    let artifacts = promised["artifacts"].as_array().is_some_and(|all| all.iter().any(required));
    let none = Value::Null;
    let outputs = outputs.unwrap_or(&none);
    (!list(promised, "parameters") || outputs["parameters"].is_array())
        && (!artifacts || outputs["artifacts"].is_array())
}

#[cfg(test)]
mod tests;
