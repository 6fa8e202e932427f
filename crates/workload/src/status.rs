//! What a Workflow's status says, in Argo's shape.

pub mod names;
mod nodes;
pub mod packed;
pub mod time;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::spec::{Inputs, Outputs, Template, TemplateRef, WorkflowSpec};
pub use nodes::Nodes;
pub use time::Moment;

/// Where a Workflow is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Phase {
    /// Nobody has looked at it yet.
    #[default]
    #[serde(rename = "")]
    Unknown,
    /// It waits before it starts.
    Pending,
    /// It runs.
    Running,
    /// It ended well.
    Succeeded,
    /// It ended, and a step or the Workflow itself failed.
    Failed,
    /// It ended because something around it went wrong.
    Error,
}

impl Phase {
    /// The word of the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Error => "Error",
        }
    }

    /// Whether it ended.
    pub fn is_completed(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Error)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

/// Where a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum NodePhase {
    /// Nothing is known yet.
    #[default]
    #[serde(rename = "")]
    Unknown,
    /// It waits to run.
    Pending,
    /// It runs.
    Running,
    /// It ended well.
    Succeeded,
    /// Its condition was false.
    Skipped,
    /// It ended with a failure.
    Failed,
    /// Something around it went wrong.
    Error,
    /// What it depends on did not end as it wanted.
    Omitted,
}

impl NodePhase {
    /// The word of the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Skipped => "Skipped",
            Self::Failed => "Failed",
            Self::Error => "Error",
            Self::Omitted => "Omitted",
        }
    }

    /// Whether it failed in either way.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Error)
    }

    /// Whether it ran to an end.
    pub fn is_completed(self) -> bool {
        self.is_failure() || self == Self::Succeeded
    }

    /// Whether nothing more will happen to it.
    pub fn is_fulfilled(self) -> bool {
        self.is_completed() || matches!(self, Self::Skipped | Self::Omitted)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeType {
    /// A pod.
    Pod,
    /// A container of a pod that has several.
    Container,
    /// A template of steps.
    Steps,
    /// Steps that run side by side.
    StepGroup,
    /// A template of tasks.
    #[serde(rename = "DAG")]
    Dag,
    /// Tasks made of one by items.
    TaskGroup,
    /// Attempts.
    Retry,
    /// Something that did not run.
    Skipped,
    /// A wait for a person or a time.
    Suspend,
    /// A request.
    #[serde(rename = "HTTP")]
    Http,
    /// A plugin's work.
    Plugin,
}

/// What made a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeFlag {
    /// A hook or exit handler.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hooked: bool,
    /// An attempt of a retry node.
    #[serde(default, skip_serializing_if = "is_false")]
    pub retried: bool,
}

/// One node of the tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Name by which others refer to it.
    pub id: String,
    /// Where it is in the tree.
    pub name: String,
    /// Its name within its boundary.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: NodeType,
    /// Which template it runs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub template_name: String,
    /// Which template of another object it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_ref: Option<TemplateRef>,
    /// Where the search for its template starts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub template_scope: String,
    /// Where it is in its life.
    #[serde(default, skip_serializing_if = "NodePhase::is_unknown")]
    pub phase: NodePhase,
    /// The node of the template it belongs to.
    #[serde(default, rename = "boundaryID", skip_serializing_if = "String::is_empty")]
    pub boundary_id: String,
    /// Why it is there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it began.
    #[serde(default)]
    pub started_at: Moment,
    /// When it ended.
    #[serde(default)]
    pub finished_at: Moment,
    /// Parts done of parts known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub progress: String,
    /// Seconds of each resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources_duration: BTreeMap<String, i64>,
    /// Address of a daemon.
    #[serde(default, rename = "podIP", skip_serializing_if = "String::is_empty")]
    pub pod_ip: String,
    /// Whether it is a daemon that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemoned: Option<bool>,
    /// What made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_flag: Option<NodeFlag>,
    /// What it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Inputs>,
    /// What it gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Outputs>,
    /// What follows it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<String>,
    /// The last nodes of its template.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outbound_nodes: Vec<String>,
    /// The machine it ran on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host_node_name: String,
    /// Whether what it reports is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_result_synced: Option<bool>,
    /// Fields that are not ours.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl NodeStatus {
    /// Whether it is a daemon that runs.
    pub fn is_daemoned(&self) -> bool {
        self.daemoned == Some(true)
    }

    /// Whether what depends on it may go on.
    pub fn is_fulfilled(&self) -> bool {
        self.is_ended() || self.is_daemoned() && self.phase != NodePhase::Pending
    }

    /// Whether nothing more will happen to it.
    pub fn is_ended(&self) -> bool {
        let synced = self.task_result_synced != Some(false);
        self.phase.is_completed() && synced || matches!(self.phase, NodePhase::Skipped | NodePhase::Omitted)
    }

    /// Whether it ran to an end.
    pub fn is_completed(&self) -> bool {
        self.phase.is_completed() && self.task_result_synced != Some(false)
    }

    /// Whether a hook made it.
    pub fn is_hooked(&self) -> bool {
        self.node_flag.is_some_and(|flag| flag.hooked)
    }

    /// Whether it is an attempt.
    pub fn is_retried(&self) -> bool {
        self.node_flag.is_some_and(|flag| flag.retried)
    }

    /// Whether it waits for a person or a time.
    pub fn is_waiting(&self) -> bool {
        self.kind == NodeType::Suspend && self.phase == NodePhase::Running
    }

    /// The template's name, also of another object.
    pub fn template(&self) -> &str {
        self.template_ref.as_ref().map_or(self.template_name.as_str(), |other| other.template.as_str())
    }

    /// Seconds from start to end, as Go prints them.
    pub fn seconds(&self) -> i64 {
        self.finished_at.since(self.started_at)
    }
}

/// One observation about a Workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A Workflow's status.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowStatus {
    /// Where it is.
    #[serde(default, skip_serializing_if = "Phase::is_unknown")]
    pub phase: Phase,
    /// When it began.
    #[serde(default)]
    pub started_at: Moment,
    /// When it ended.
    #[serde(default)]
    pub finished_at: Moment,
    /// Parts done of parts known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub progress: String,
    /// Why it is there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The nodes, where they are too many to be written out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub compressed_nodes: String,
    /// The nodes by id.
    #[serde(default, skip_serializing_if = "Nodes::is_empty")]
    pub nodes: Nodes,
    /// Templates of other objects, as they were when first used.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stored_templates: BTreeMap<String, Template>,
    /// Claims made for this Workflow, as volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub persistent_volume_claims: Vec<Value>,
    /// Outputs with a global name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Outputs>,
    /// Observations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Seconds of each resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources_duration: BTreeMap<String, i64>,
    /// The spec with that of the template it refers to.
    #[serde(default, rename = "storedWorkflowTemplateSpec", skip_serializing_if = "Option::is_none")]
    pub stored_spec: Option<Box<WorkflowSpec>>,
    /// Whether each step has reported all.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub task_results_completion_status: BTreeMap<String, bool>,
    /// Fields that are not ours.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl WorkflowStatus {
    /// Sets an observation.
    pub fn observe(&mut self, kind: &str, status: bool) {
        let status = if status { "True" } else { "False" };
        match self.conditions.iter_mut().find(|one| one.kind == kind) {
            Some(found) => status.clone_into(&mut found.status),
            None => self.conditions.push(Condition {
                kind: kind.to_owned(),
                status: status.to_owned(),
                message: String::new(),
            }),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}
