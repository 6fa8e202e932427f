//! What a Workflow does next, decided without doing it: no I/O, no clock, no randomness.
//!
//! [`operate`] looks at a Workflow and at what is known of its steps, and gives its next status and what has to be done.
//! Names of nodes and pods follow from the tree alone, so a controller that lost its memory comes to the same tree
//! again from what is stored, and finds under each name what was started before.

mod abandon;
mod arguments;
mod around;
mod claims;
mod dag;
mod depends;
mod duration;
mod expand;
mod finish;
mod globals;
mod hooks;
mod leftovers;
mod nodes;
mod outputs;
mod parallelism;
mod phase;
mod pods;
mod resolve;
mod resources;
mod retry;
mod scope;
mod steps;
mod suspend;
mod template;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use crate::spec::{Template, TemplateRef, Workflow, WorkflowSpec};
use crate::status::{NodeFlag, Phase, WorkflowStatus};
use crate::steps::{Identity, TaskResult};
pub(crate) use abandon::abandoned;
pub(crate) use claims::unclaimed;
pub(crate) use leftovers::{OVER_SECONDS, leftovers};
pub use resolve::{Place, Sources};
use scope::Values;
pub(crate) use suspend::take_defaults;

/// Templates may call each other this deep.
const DEPTH_MAX: usize = 100;
/// Labels of a Workflow.
pub(crate) const PHASE_LABEL: &str = "workflows.argoproj.io/phase";
/// `true` once it has ended.
pub(crate) const COMPLETED_LABEL: &str = "workflows.argoproj.io/completed";
/// How its pods are named.
const POD_NAMES: &str = "workflows.argoproj.io/pod-name-format";

/// What is known of a Workflow's steps.
pub struct Seen<'a> {
    /// Pods by node id.
    pub pods: &'a BTreeMap<String, Arc<Pod>>,
    /// What was reported, by node id.
    pub results: &'a BTreeMap<String, Arc<TaskResult>>,
    /// Steps that wait for a sandbox or are in one, by node id, and whether they are.
    pub lodged: &'a BTreeMap<String, bool>,
    /// Steps whose pod could not be made, by node id, and why.
    pub refused: &'a BTreeMap<String, Refused>,
    /// Templates and settings elsewhere.
    pub sources: &'a dyn Sources,
}

/// Why a step's pod could not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// In words.
    pub message: String,
    /// Whether it may be made later.
    pub is_transient: bool,
}

/// What [`operate`] decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Operated {
    /// The next status.
    pub status: WorkflowStatus,
    /// Labels that the Workflow should have.
    pub labels: BTreeMap<String, String>,
    /// Annotations that the Workflow should have.
    pub annotations: BTreeMap<String, String>,
    /// What has to be done, in this order.
    pub effects: Vec<Effect>,
    /// When to look again even if nothing happens.
    pub wake_at: Option<Timestamp>,
    /// Whether status, labels or annotations are not what they were.
    pub changed: bool,
}

/// Something to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Make a claim, unless it is there.
    Claim(Value),
    /// Start a step, unless it has been started.
    Start(Box<Start>),
    /// End a step's pod.
    End {
        /// The pod.
        pod: String,
    },
    /// Remove a claim.
    Unclaim {
        /// Its name.
        claim: String,
    },
}

/// A step to be started.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// The node's id.
    pub node_id: String,
    /// The node's name.
    pub node_name: String,
    /// The pod's name.
    pub pod: String,
    /// The template, fully substituted.
    pub template: Value,
    /// Where the template around it says its pod may be.
    pub boundary: Option<Arc<Value>>,
    /// The spec with parameters substituted, without templates.
    pub spec: Arc<Value>,
    /// Seconds its pod may be active.
    pub active_seconds: Option<i64>,
    /// When it has to be over.
    pub deadline: Option<Timestamp>,
    /// Whether somebody reads its result.
    pub wants_result: bool,
    /// Whether it is part of an exit handler.
    pub on_exit: bool,
    /// Whether it runs already, in a sandbox that a controller before this one gave it: that one goes on, or it is lost.
    pub was_running: bool,
}

/// Why something does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Halt {
    /// Something it needs is not there yet.
    Later,
    /// As many run as may.
    Parallelism,
    /// Templates call each other too deep.
    Depth,
    /// Its own time is over.
    Timeout,
    /// It cannot.
    Failed(String),
}

impl Halt {
    fn words(&self) -> &str {
        match self {
            Self::Later => "requeue",
            Self::Parallelism => "Max parallelism reached",
            Self::Depth => {
                "Maximum recursion depth exceeded. See https://argo-workflows.readthedocs.io/en/latest/scaling/#maximum-recursion-depth"
            }
            Self::Timeout => "timeout",
            Self::Failed(message) => message,
        }
    }
}

impl From<String> for Halt {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

/// Who runs a template, and where.
#[derive(Clone, Copy)]
struct Call<'c> {
    /// The template's name, empty if it is elsewhere or written here.
    template_name: &'c str,
    template_ref: Option<&'c TemplateRef>,
    inline: Option<&'c Template>,
    /// Where the search for it starts.
    scope: &'c Place,
    /// The id of the node it belongs to.
    boundary: &'c str,
    flag: Option<NodeFlag>,
    on_exit: bool,
    /// `steps.name` or `tasks.name`, and the name.
    caller: Option<(&'static str, &'c str)>,
    /// When it has to be over, whatever its template says.
    deadline: Option<Timestamp>,
}

/// One look at one Workflow.
struct Operation<'a> {
    identity: Identity,
    workflow: &'a Workflow,
    seen: &'a Seen<'a>,
    now: Timestamp,
    spec: Arc<WorkflowSpec>,
    /// The same without templates, for pods.
    spec_value: Arc<Value>,
    status: WorkflowStatus,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    globals: Values,
    deadline: Option<Timestamp>,
    effects: Vec<Effect>,
    started: BTreeSet<String>,
    /// What is around steps, by the node they belong to.
    arounds: BTreeMap<String, Arc<around::Around>>,
    wake_at: Option<Timestamp>,
    depth: usize,
    changed: bool,
}

/// Decides what a Workflow does next.
pub fn operate(
    workflow: &Workflow,
    identity: &Identity,
    status: WorkflowStatus,
    seen: &Seen<'_>,
    now: Timestamp,
) -> Operated {
    let mut operation = Operation::new(workflow, identity, status, seen, now);
    if !operation.status.phase.is_completed() {
        operation.run();
    }
    operation.summed_up();
    Operated {
        status: operation.status,
        labels: operation.labels,
        annotations: operation.annotations,
        effects: operation.effects,
        wake_at: operation.wake_at,
        changed: operation.changed,
    }
}

impl<'a> Operation<'a> {
    fn new(
        workflow: &'a Workflow,
        identity: &Identity,
        status: WorkflowStatus,
        seen: &'a Seen<'a>,
        now: Timestamp,
    ) -> Self {
        let metadata = &workflow.metadata;
        Self {
            identity: identity.clone(),
            workflow,
            seen,
            now,
            spec: Arc::new(workflow.spec.clone()),
            spec_value: Arc::new(Value::Null),
            labels: metadata.labels.clone().unwrap_or_default(),
            annotations: metadata.annotations.clone().unwrap_or_default(),
            status,
            globals: Values::default(),
            deadline: None,
            effects: Vec::new(),
            started: BTreeSet::new(),
            arounds: BTreeMap::new(),
            wake_at: None,
            depth: 0,
            changed: false,
        }
    }

    fn run(&mut self) {
        if let Err((phase, message)) = self.prepare() {
            self.end(phase, &message);
            return;
        }
        if self.status.phase == Phase::Unknown {
            self.begin();
        } else {
            self.deadline = self.workflow_deadline();
            self.reconcile();
            self.give_up();
        }
        if let Some(deadline) = self.deadline {
            self.wake(deadline);
        }
        if self.spec.suspend == Some(true) {
            return;
        }
        if let Err(message) = self.claim() {
            self.end(Phase::Error, &format!("pvc create error: {message}"));
            return;
        }
        self.execute();
    }

    fn begin(&mut self) {
        self.move_to(Phase::Running, "");
        self.annotations.insert(POD_NAMES.to_owned(), "v2".to_owned());
        self.deadline = self.workflow_deadline();
    }

    /// Looks again at `time`, or earlier.
    fn wake(&mut self, time: Timestamp) {
        if time > self.now && self.wake_at.is_none_or(|other| time < other) {
            self.wake_at = Some(time);
        }
    }

    fn workflow_deadline(&self) -> Option<Timestamp> {
        let seconds = self.spec.active_deadline_seconds?;
        let start = self.status.started_at.time()?;
        start.checked_add(jiff::SignedDuration::from_secs(seconds)).ok()
    }

    fn is_past_deadline(&self) -> bool {
        self.deadline.is_some_and(|deadline| self.now >= deadline)
    }
}
