//! What a template runs, and how it is tried again.

use k8s_openapi::api::core::v1::VolumeMount;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Rest;
use super::artifact::Artifact;
use super::task::Step;

/// A container. `source` belongs to scripts, `mirrorVolumeMounts` to sidecars, `dependencies` to container sets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its image.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// What runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// With which arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// What is mounted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<VolumeMount>,
    /// Of a script: the program.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Of a sidecar: whether it mounts what the main container does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirror_volume_mounts: Option<bool>,
    /// Of a container set: the containers before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<String>,
    /// Everything else, as in Kubernetes.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Containers of one pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerSet {
    /// The containers.
    pub containers: Vec<Container>,
    /// What all mount.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<VolumeMount>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Something done to a Kubernetes object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Resource {
    /// get, create, apply, delete, replace or patch.
    pub action: String,
    /// strategic, merge or json.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub merge_strategy: String,
    /// The object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manifest: String,
    /// Where the object is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest_from: Option<ManifestFrom>,
    /// Whether the workflow owns it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub set_owner_reference: bool,
    /// When it has succeeded.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub success_condition: String,
    /// When it has failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failure_condition: String,
    /// kubectl's flags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Where an object is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ManifestFrom {
    /// An input artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Tasks in the order of what they depend on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Dag {
    /// The tasks that decide, separated by spaces.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub target: String,
    /// The tasks.
    pub tasks: Vec<Step>,
    /// Whether one failure ends it; true where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_fast: Option<bool>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Suspend {
    /// For how long; for ever where empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub duration: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// How a template is tried again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RetryStrategy {
    /// How often at most; without end where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<IntOrString>,
    /// Always, `OnFailure`, `OnError` or `OnTransientError`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub retry_policy: String,
    /// After which waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// On which nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Value>,
    /// Under which condition.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub expression: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Waits between attempts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Backoff {
    /// The first wait.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub duration: String,
    /// What a wait is multiplied by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<IntOrString>,
    /// How long all attempts may take.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub max_duration: String,
    /// The longest wait.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cap: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}
