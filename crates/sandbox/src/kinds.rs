//! `WarmPool` and Sandbox, as upstream has them; their definitions are generated from these types.

mod lenient;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodTemplateSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A number of sandboxes that wait, ready, to be claimed.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "arl.infra.io",
    version = "v1alpha1",
    kind = "WarmPool",
    namespaced,
    status = "WarmPoolStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"}"#,
    printcolumn = r#"{"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas"}"#,
    printcolumn = r#"{"name": "Allocated", "type": "integer", "jsonPath": ".status.allocatedReplicas"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct WarmPoolSpec {
    /// How many are to wait idle.
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// The most there may be, idle and claimed together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_replicas: Option<i32>,
    /// What each is made from.
    #[serde(deserialize_with = "lenient::read")]
    #[schemars(schema_with = "anything")]
    pub template: PodTemplateSpec,
    /// Programs that agents find in each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Tools>,
    /// Which nodes are preferred, so that images are there already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_locality: Option<ImageLocality>,
}

/// Programs that agents find in a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Tools {
    /// Images that have them under `/tools`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ToolsImage>,
    /// `ConfigMaps` with their files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub config_maps: Vec<ToolsConfigMap>,
    /// Said here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inline: Vec<InlineTool>,
}

/// An image with tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolsImage {
    /// Its reference.
    pub image: String,
}

/// A `ConfigMap` with tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolsConfigMap {
    /// Its name.
    pub name: String,
}

/// A tool said in the pool itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InlineTool {
    /// What agents call it.
    #[schemars(length(max = 63), regex(pattern = r"^[a-zA-Z0-9][a-zA-Z0-9_.-]*$"))]
    pub name: String,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it takes, as a JSON Schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub parameters: Option<Value>,
    /// What runs it.
    pub runtime: ToolRuntime,
    /// The file that is run.
    #[schemars(length(max = 255), regex(pattern = r"^[a-zA-Z0-9][a-zA-Z0-9_.-]*$"))]
    pub entrypoint: String,
    /// How long it may take, as in `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Its files by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

/// What runs a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolRuntime {
    /// A shell.
    Bash,
    /// Python.
    Python,
    /// Nothing: it is a program.
    Binary,
}

/// Which nodes are preferred.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageLocality {
    /// Whether any are.
    pub enabled: bool,
    /// Which share of the replicas' number of nodes.
    #[schemars(range(min = 0.0, max = 10.0))]
    pub spread_factor: f64,
    /// How much they are preferred.
    #[schemars(range(min = 1, max = 100))]
    pub weight: i32,
}

impl Default for ImageLocality {
    fn default() -> Self {
        Self { enabled: true, spread_factor: 0.25, weight: 100 }
    }
}

/// How a pool is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WarmPoolStatus {
    /// Idle and ready.
    pub ready_replicas: i32,
    /// Claimed.
    pub allocated_replicas: i32,
    /// `Ready` and `PodsFailing`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A sandbox that is somebody's.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "arl.infra.io",
    version = "v1alpha1",
    kind = "Sandbox",
    plural = "sandboxes",
    namespaced,
    status = "SandboxStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Pod", "type": "string", "jsonPath": ".status.podName"}"#,
    printcolumn = r#"{"name": "Pool", "type": "string", "jsonPath": ".spec.poolRef"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct SandboxSpec {
    /// The pool it comes from, in the same namespace.
    #[schemars(length(min = 1))]
    pub pool_ref: String,
    /// Whether one made by hand stays after its first execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_alive: Option<bool>,
    /// Bounds of its own.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient::read")]
    #[schemars(schema_with = "anything")]
    pub resources: Option<ResourceRequirements>,
    /// Without a command or a stream for so long it goes; 0: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub idle_timeout_seconds: Option<i32>,
    /// After so long it goes; 0: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_lifetime_seconds: Option<i32>,
}

/// How far a sandbox has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// It waits for a pod.
    #[default]
    Pending,
    /// It has one.
    Bound,
    /// It can be used.
    Ready,
    /// It cannot, and never will.
    Failed,
}

/// How a sandbox is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxStatus {
    /// How far it has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Its pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<String>,
    /// Where its sidecar listens.
    #[serde(rename = "podIP", skip_serializing_if = "Option::is_none")]
    pub pod_ip: Option<String>,
    /// Where its steps start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work_dir: Option<String>,
    /// When something last happened in it, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_task_time: Option<String>,
    /// What else is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

fn anything(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
