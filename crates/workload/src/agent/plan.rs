//! What is to be done about a workload, given what is there. Pure: decisions of policies come in as records, and what is
//! recorded is written before anything follows from it.

mod gate;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::conditions;
use super::create::{self, Services};
use super::doubt::{self, EndedPod};
use super::kind::{AgentWorkload, AgentWorkloadStatus, Phase, Recorded, Runtime, Stage, WorkflowReference};
use super::unused;
use super::view::WorkflowView;
pub(super) use gate::closing;

/// The finalizer of a workload whose Workflow is in another namespace.
pub(super) const FINALIZER: &str = "thane.dev/workflow";
/// How long a workload may wait to begin.
const PENDING: SignedDuration = SignedDuration::from_mins(5);
/// A look now and then while something is unfinished, beside the watches.
const AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// What is there.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The workload.
    pub workload: &'a AgentWorkload,
    /// The Workflow of its name.
    pub workflow: Option<&'a Value>,
    /// Whether its template is there.
    pub template: bool,
    /// The Workflow's pods that have ended.
    pub pods: &'a [EndedPod],
    /// Whether an Argo controller runs Workflows here.
    pub argo: bool,
    /// What steps call.
    pub services: &'a Services,
    /// The time.
    pub now: Timestamp,
}

/// A question to the policies.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// When it is asked.
    pub stage: Stage,
    /// About which gate.
    pub gate: Option<String>,
    /// With what.
    pub input: Value,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Keep it until its Workflow is gone.
    Hold,
    /// Let it go.
    Release,
    /// Make its Workflow.
    Create(Value),
    /// Delete its Workflow.
    Delete,
    /// End its Workflow where it is.
    Stop,
    /// Open or close a gate.
    Gate {
        /// The node.
        node: String,
        /// Whether it opens.
        allow: bool,
        /// Why.
        message: String,
    },
}

/// What is to be done: the status first, then the effects; the questions are answered by further records.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Planned {
    /// What is known.
    pub status: AgentWorkloadStatus,
    /// What must be decided first.
    pub asks: Vec<Ask>,
    /// What to do.
    pub effects: Vec<Effect>,
    /// When to look again, if nothing happens.
    pub wake: Option<Timestamp>,
}

/// What is to be done about a workload.
pub fn plan(seen: &Seen<'_>) -> Planned {
    let mut planned = Planned { status: seen.workload.status.clone().unwrap_or_default(), ..Planned::default() };
    if seen.workload.metadata.deletion_timestamp.is_some() {
        leave(seen, &mut planned);
        return planned;
    }
    let generation = seen.workload.metadata.generation;
    if planned.status.phase == Phase::PolicyDenied && planned.status.observed_generation != generation {
        planned.status = std::mem::take(&mut planned.status).anew();
    }
    if planned.status.phase.ended() {
        if goes_on(seen, &planned.status) {
            planned.effects.push(Effect::Stop);
        } else if let Some(phase) = ended_phase(seen) {
            // From now on it is its own: who retries it is not stopped for what was before.
            planned.status.argo_phase.get_or_insert_default().clone_from(&phase);
        }
        // Where no policy could be asked there may be one by now; whether that changes anything, its answer says.
        if unjudged(&planned.status).is_some() {
            planned.asks.push(Ask { stage: Stage::Start, gate: None, input: input(seen, Stage::Start, None, None) });
        }
        return planned;
    }
    planned.status.observed_generation.get_or_insert(generation.unwrap_or_default());
    unused::tell(&seen.workload.spec, &mut planned.status, seen.now);
    let Some(start) = planned.status.current().find(|it| it.stage == Stage::Start).cloned() else {
        planned.asks.push(Ask { stage: Stage::Start, gate: None, input: input(seen, Stage::Start, None, None) });
        return planned;
    };
    if !start.allow {
        end(&mut planned, Phase::PolicyDenied, start.reason, seen.now);
        return planned;
    }
    planned.wake = Some(seen.now + AGAIN);
    match seen.workflow {
        None => begin(seen, &start, &mut planned),
        Some(workflow) if create::is_of(workflow, seen.workload) => follow(seen, workflow, &mut planned),
        Some(workflow) => yield_to(seen, workflow, &start, &mut planned),
    }
    planned
}

/// How the Workflow of a workload ended, if it did.
fn ended_phase(seen: &Seen<'_>) -> Option<String> {
    let own = seen.workflow.filter(|workflow| create::is_of(workflow, seen.workload))?;
    let view = WorkflowView::read(own);
    if view.ended() { view.phase } else { None }
}

/// Whether the Workflow of a workload that was given up still is to be ended: whoever decided that may not have come to it.
fn goes_on(seen: &Seen<'_>, status: &AgentWorkloadStatus) -> bool {
    // One that ended with its Workflow was not given up, and its Workflow may have been retried since.
    let given_up = status.phase == Phase::Failed
        && !matches!(status.argo_phase.as_deref(), Some("Succeeded" | "Failed" | "Error"));
    let own = seen.workflow.filter(|workflow| create::is_of(workflow, seen.workload));
    given_up
        && own.is_some_and(|workflow| {
            let shutdown = workflow.pointer("/spec/shutdown").and_then(Value::as_str).unwrap_or_default();
            shutdown.is_empty() && !WorkflowView::read(workflow).ended()
        })
}

/// A Workflow of that name is there that is not its own. One that goes is waited for.
fn yield_to(seen: &Seen<'_>, workflow: &Value, start: &Recorded, planned: &mut Planned) {
    let (name, namespace) = create::place(seen.workload);
    let goes = WorkflowView::read(workflow).deleting || create::is_left_over(workflow, seen.workload);
    let until = start.at.0 + PENDING;
    if !goes || seen.now >= until {
        let why = format!("there is a Workflow {namespace}/{name} already that was not made for this AgentWorkload");
        return end(planned, Phase::Failed, why, seen.now);
    }
    planned.status.phase = Phase::Pending;
    planned.status.message = Some(format!("waits until the Workflow {namespace}/{name} of an earlier one is gone"));
    planned.wake = planned.wake.min(Some(until));
}

/// The record of a workload that was not let start since no policy could be asked.
fn unjudged(status: &AgentWorkloadStatus) -> Option<&Recorded> {
    let start = status.current().find(|it| it.stage == Stage::Start)?;
    (status.phase == Phase::PolicyDenied && !start.allow && start.rule.is_none()).then_some(start)
}

/// Takes a decision over; whether it says anything new.
pub(super) fn learn(status: &mut AgentWorkloadStatus, recorded: Recorded) -> bool {
    if let Some(before) = unjudged(status) {
        if recorded.rule.is_none() && recorded.reason == before.reason {
            return false;
        }
        *status = std::mem::take(status).anew();
    }
    status.decisions.push(recorded);
    true
}

/// It is being deleted: what it made goes first.
fn leave(seen: &Seen<'_>, planned: &mut Planned) {
    let held = seen.workload.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER);
    match seen.workflow.filter(|workflow| create::is_of(workflow, seen.workload)) {
        Some(workflow) if !WorkflowView::read(workflow).deleting => planned.effects.push(Effect::Delete),
        None if held => planned.effects.push(Effect::Release),
        Some(_) | None => {}
    }
}

/// It may start and has no Workflow.
fn begin(seen: &Seen<'_>, start: &Recorded, planned: &mut Planned) {
    let (name, namespace) = create::place(seen.workload);
    if planned.status.argo_workflow.as_ref().is_some_and(|workflow| workflow.uid.is_some()) {
        let why = format!("its Workflow {namespace}/{name} was deleted");
        return end(planned, Phase::Failed, why, seen.now);
    }
    let Some(template) = create::template(seen.workload) else {
        let why = "spec.orchestration.workflowTemplateRef names no template, and there is no spec.workflowName";
        return end(planned, Phase::Failed, why.to_owned(), seen.now);
    };
    planned.status.phase = Phase::Pending;
    if !seen.template {
        let why = format!("there is no WorkflowTemplate {template} in namespace {namespace}");
        if seen.now.duration_since(start.at.0) > PENDING {
            return end(planned, Phase::Failed, why, seen.now);
        }
        planned.status.message = Some(why);
        return;
    }
    let away = seen.workload.metadata.namespace.as_deref() != Some(namespace.as_str());
    let held = seen.workload.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER);
    if away && !held {
        planned.effects.push(Effect::Hold);
    }
    let named = seen.workload.spec.orchestration.as_ref().and_then(|it| it.runtime);
    let recorded = planned.status.argo_workflow.as_ref().map(|workflow| workflow.runtime);
    let found = if seen.argo { Runtime::Argo } else { Runtime::Thane };
    let runtime = recorded.or(named).unwrap_or(found);
    planned.status.argo_workflow = Some(WorkflowReference { runtime, name, namespace, uid: None, created_at: None });
    planned.status.message = None;
    planned.effects.push(Effect::Create(create::workflow(seen.workload, &template, runtime, seen.services)));
}

/// It has a Workflow.
fn follow(seen: &Seen<'_>, workflow: &Value, planned: &mut Planned) {
    let view = WorkflowView::read(workflow);
    if let Some(reference) = &mut planned.status.argo_workflow {
        reference.uid = Some(view.uid.clone());
        reference.created_at = view.created.map(Time);
    }
    planned.status.belongs_to(&view.uid);
    planned.status.argo_phase.clone_from(&view.phase);
    planned.status.workflow_artifacts = view.artifacts();
    planned.status.agent_statuses = view.agents();
    let running = view.nodes.values().filter(|node| node.kind == "Pod" && node.phase == "Running").count();
    planned.status.ready_agents = i32::try_from(running).ok();
    conditions::say(&mut planned.status, ("Started", true), "WorkflowCreated", "its Workflow was made", seen.now);
    if view.ended() {
        return finish(seen, &view, planned);
    }
    planned.status.phase = if view.phase.is_some() { Phase::Running } else { Phase::Pending };
    planned.status.message = view.hidden.clone().or_else(|| view.message.clone());
    gate::decide(seen, &view, planned);
    conditions::tell_gates(&mut planned.status, &view, seen.now);
    let resumed: Vec<(String, Timestamp)> = planned.status.current().filter_map(closing).collect();
    let mut doubts: Vec<(Timestamp, String)> = doubt::unseen(&view, seen.pods, &resumed).into_iter().collect();
    if let (Some("Pending"), Some(created)) = (view.phase.as_deref(), view.created) {
        doubts.push((created, view.message.clone().unwrap_or_else(|| "its Workflow is pending".to_owned())));
    }
    if let Some((since, why)) = doubts.into_iter().min() {
        let until = since + doubt::PATIENCE;
        if seen.now >= until {
            planned.effects = vec![Effect::Stop];
            let why = format!("{why} for 5 minutes: is the workflow controller running?");
            return end(planned, Phase::Failed, why, seen.now);
        }
        planned.wake = planned.wake.min(Some(until));
    }
}

/// Its Workflow has ended: done, unless a gate stayed closed.
fn finish(seen: &Seen<'_>, view: &WorkflowView, planned: &mut Planned) {
    planned.wake = None;
    gate::expired(seen, view, planned);
    conditions::tell_gates(&mut planned.status, view, seen.now);
    let closed = planned.status.current().find(|it| it.stage == Stage::Gate && !it.allow).cloned();
    let failed = view.phase.as_deref() != Some("Succeeded");
    match closed {
        Some(closed) => {
            let gate = closed.gate.and_then(|gate| view.nodes.get(&gate)).map(|node| node.display_name.clone());
            let why = format!("gate {} was denied: {}", gate.unwrap_or_default(), closed.reason);
            end(planned, Phase::Failed, why, seen.now);
        }
        None if failed => {
            let phase = view.phase.clone().unwrap_or_default();
            let told = view.message.clone().unwrap_or_else(|| "without a message".to_owned());
            end(planned, Phase::Failed, format!("its Workflow ended {phase}: {told}"), seen.now);
        }
        None => end(planned, Phase::Completed, "all steps have ended well".to_owned(), seen.now),
    }
}

/// Nothing more will happen to it.
fn end(planned: &mut Planned, phase: Phase, why: String, now: Timestamp) {
    planned.status.phase = phase;
    planned.wake = None;
    planned.status.ready_agents = Some(0);
    let is_done = phase == Phase::Completed;
    conditions::say(&mut planned.status, ("Completed", is_done), &format!("{phase:?}"), &why, now);
    planned.status.message = Some(why);
}

/// What a policy is asked with.
fn input(seen: &Seen<'_>, stage: Stage, gate: Option<&str>, view: Option<&WorkflowView>) -> Value {
    let (insights, confidence) = view.map(WorkflowView::findings).unwrap_or_default();
    let meta = &seen.workload.metadata;
    json!({
        "stage": stage,
        "workload": {
            "name": meta.name, "namespace": meta.namespace, "labels": meta.labels, "spec": seen.workload.spec,
        },
        "gate": gate,
        "insights": insights,
        "confidence": confidence,
        "threshold": threshold(seen.workload),
        "now": seen.now.to_string(),
    })
}

/// Above which confidence gates open without a person.
fn threshold(workload: &AgentWorkload) -> f64 {
    let said = workload.spec.auto_approve_threshold.as_deref().and_then(|text| text.parse().ok());
    said.unwrap_or(0.95)
}
