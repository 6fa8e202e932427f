//! The kind, with the fields its users have; its definition is generated from these types.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A job of agents in several steps, with gates that policy or people open.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "agentic.clawdlinux.org",
    version = "v1alpha1",
    kind = "AgentWorkload",
    shortname = "awl",
    namespaced,
    status = "AgentWorkloadStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Workflow","type":"string","jsonPath":".status.argoWorkflow.name"}"#,
    printcolumn = r#"{"name":"Argo","type":"string","jsonPath":".status.argoPhase"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentWorkloadSpec {
    /// What it works on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_type: Option<WorkloadType>,
    /// A tool server of its agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^https://"))]
    pub mcp_server_endpoint: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32768))]
    pub objective: Option<String>,
    /// Its agents by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// Above which confidence its gates open without a person, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^(0(\.[0-9]{1,2})?|1(\.0{1,2})?)$"))]
    pub auto_approve_threshold: Option<String>,
    /// Which policies decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opa_policy: Option<PolicySet>,
    /// A workflow that is known by name, where no template is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_name: Option<WorkflowName>,
    /// What its artifacts and checkpoints are filed under.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = r"^[a-zA-Z0-9]([a-zA-Z0-9_.-]*[a-zA-Z0-9])?$"))]
    pub job_id: Option<String>,
    /// What it looks at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_urls: Vec<String>,
    /// Where its artifacts go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_bucket: Option<String>,
    /// Under what there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_prefix: Option<String>,
    /// A script its agents run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script_url: Option<String>,
    /// Who runs it, and from what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orchestration: Option<Orchestration>,
    /// What its agents may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// How long it may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<Timeouts>,
    /// How models are chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_strategy: Option<ModelStrategy>,
    /// How tasks are told apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_classifier: Option<String>,
    /// Who serves models.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub providers: Vec<Provider>,
    /// Which model does which kind of task.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub model_mapping: BTreeMap<String, String>,
    /// How its agents work together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collaboration_mode: Option<CollaborationMode>,
    /// Other agents by reference.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agent_refs: Vec<AgentRef>,
    /// How its agents speak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persona: Option<Persona>,
    /// What people said of its gates; only added to, by whoever may `approve`, in their own name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub gate_answers: Vec<GateAnswer>,
}

/// What a person says of a gate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GateAnswer {
    /// The gate's node, by its id.
    #[schemars(length(min = 1, max = 512))]
    pub gate: String,
    /// The uid of the Workflow it is in: another run is another question.
    #[schemars(length(min = 1, max = 64))]
    pub workflow: String,
    /// Whether it opens.
    pub allow: bool,
    /// Who says so, as the API knows them.
    #[schemars(length(min = 1, max = 512))]
    pub by: String,
    /// Why.
    #[serde(default)]
    #[schemars(length(max = 4096))]
    pub reason: String,
}

/// What a workload works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum WorkloadType {
    Generic,
    Ceph,
    Minio,
    Postgres,
    Aws,
    Kubernetes,
}

/// Which policies decide.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PolicySet {
    /// Those labelled `strict`.
    #[default]
    Strict,
    /// Those labelled `permissive`.
    Permissive,
}

impl PolicySet {
    /// The label's value.
    pub fn label(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Permissive => "permissive",
        }
    }
}

/// A workflow that is known by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum WorkflowName {
    ResearchSwarm,
    CodeReview,
    DocProcessor,
}

impl WorkflowName {
    /// The template of that name.
    pub fn template(self) -> &'static str {
        match self {
            Self::ResearchSwarm => "research-swarm",
            Self::CodeReview => "code-review",
            Self::DocProcessor => "doc-processor",
        }
    }
}

/// Who runs a workload, and from what.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Orchestration {
    /// `argo` or `thane`; Argo where one is found, otherwise us.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
    /// Its template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_template_ref: Option<TemplateReference>,
}

/// Who runs a Workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// An Argo controller.
    Argo,
    /// Ours.
    Thane,
}

/// A `WorkflowTemplate`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateReference {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its namespace, if it is not the workload's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// What agents may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "as in Kubernetes")]
pub struct Resources {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
}

/// How long a workload may take, in seconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Timeouts {
    /// The whole of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 604_800))]
    pub execution: Option<i64>,
    /// Each gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 604_800))]
    pub suspend_gate: Option<i64>,
}

/// How models are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum ModelStrategy {
    Fixed,
    CostAware,
}

/// Who serves models.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Provider {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_secret: Option<SecretKey>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub custom_config: BTreeMap<String, String>,
}

/// A key of a Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "the names say it")]
pub struct SecretKey {
    pub name: String,
    pub key: String,
}

/// How agents work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum CollaborationMode {
    Solo,
    Team,
    Delegation,
}

/// Another agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "the names say it")]
pub struct AgentRef {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// How agents speak.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Persona {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt_append: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_profile: Vec<String>,
}

/// Where a workload is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// It has not begun.
    #[default]
    Pending,
    /// It runs.
    Running,
    /// A gate waits for a person.
    PendingApproval,
    /// A policy did not let it start.
    PolicyDenied,
    /// It is done.
    Completed,
    /// It is not.
    Failed,
}

impl Phase {
    /// Whether nothing more will happen.
    pub fn ended(self) -> bool {
        matches!(self, Self::PolicyDenied | Self::Completed | Self::Failed)
    }
}

/// What is known of a workload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentWorkloadStatus {
    /// Where it is.
    pub phase: Phase,
    /// Why, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The generation of the spec this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many agents run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_agents: Option<i32>,
    /// When it was looked at and something had changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_reconcile_time: Option<Time>,
    /// Its Workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argo_workflow: Option<WorkflowReference>,
    /// The phase of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argo_phase: Option<String>,
    /// Its agents: the steps that ran or run, those that began last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agent_statuses: Vec<AgentStatus>,
    /// What agents would like to do; kept for those who write it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub proposed_actions: Vec<AgentAction>,
    /// What of that was done; kept for those who write it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub executed_actions: Vec<AgentAction>,
    /// Which routing of models it has; kept for those who write it.
    #[serde(rename = "modelRoutingOperationID", skip_serializing_if = "Option::is_none")]
    pub model_routing_operation_id: Option<String>,
    /// What its steps left, by step.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub workflow_artifacts: BTreeMap<String, String>,
    /// What was decided, by whom and on what.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<Recorded>,
    /// Conditions as elsewhere.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// One agent at work: a step that is a pod or in a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentStatus {
    /// The step.
    pub name: String,
    /// How far it is.
    pub phase: String,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
}

/// Something an agent would like to do, or did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct AgentAction {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved: Option<bool>,
}

/// The Workflow of a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names say it")]
pub struct WorkflowReference {
    pub runtime: Runtime,
    pub name: String,
    pub namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
}

/// What was decided, by whom and on what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recorded {
    /// `start` or `gate`.
    pub stage: Stage,
    /// The gate's node, by its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// Whether it may be.
    pub allow: bool,
    /// Why.
    pub reason: String,
    /// Who: `policy`, `deadline`, or the name of a person.
    pub by: String,
    /// The rule that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What it was asked with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub input: Option<Value>,
    /// The uid of the Workflow it is about, once there is one; empty if its run never had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// When.
    pub at: Time,
}

/// When a decision is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Before it begins.
    Start,
    /// At a gate.
    Gate,
}

fn anything(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
