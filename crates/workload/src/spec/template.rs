//! Templates and what goes into and comes out of them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMapKeySelector, VolumeMount};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Rest;
use super::artifact::{Artifact, ArtifactLocation};
use super::scalar::AnyString;
use super::task::Step;
use super::workflow::Metadata;

/// What can be called: exactly one of its types is there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Template {
    /// Its name, unique in its object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What goes in.
    #[serde(skip_serializing_if = "Inputs::is_empty")]
    pub inputs: Inputs,
    /// What comes out.
    #[serde(skip_serializing_if = "Outputs::is_empty")]
    pub outputs: Outputs,
    /// Labels and annotations of its pod.
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// Whether the caller goes on as soon as it is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daemon: Option<bool>,
    /// Groups one after another, the steps of a group side by side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<Vec<Step>>>,
    /// One container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// Containers of one pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_set: Option<ContainerSet>,
    /// One container with a program in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<Container>,
    /// Something done to a Kubernetes object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<Resource>,
    /// Tasks in the order of what they depend on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dag: Option<Dag>,
    /// A wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<Suspend>,
    /// A list of what is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// A request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<Value>,
    /// A plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<Value>,
    /// Volumes of its pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Value>,
    /// Containers before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<Container>,
    /// Containers beside it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sidecars: Vec<Container>,
    /// Where its outputs are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_location: Option<ArtifactLocation>,
    /// How long its pod may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<IntOrString>,
    /// How it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_strategy: Option<RetryStrategy>,
    /// How many of its children run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<i64>,
    /// Whether a failed child stops the start of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_fast: Option<bool>,
    /// Scheduling: labels of nodes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Scheduling: affinity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Value>,
    /// Scheduling: tolerations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Value>,
    /// Scheduling: by whom.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub scheduler_name: String,
    /// Scheduling: priority.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub priority_class_name: String,
    /// The pod's service account.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_account_name: String,
    /// Whether its token is mounted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automount_service_account_token: Option<bool>,
    /// How the executor runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<Value>,
    /// Lines of the pod's hosts file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub host_aliases: Vec<Value>,
    /// The pod's security context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_context: Option<Value>,
    /// A merge patch for the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod_spec_patch: String,
    /// Metrics to emit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Value>,
    /// Locks to hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synchronization: Option<Value>,
    /// Results to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memoize: Option<Value>,
    /// How long it may take, with waiting.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub timeout: String,
    /// Annotations of the template itself.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Which type of template one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateType {
    /// One container.
    Container,
    /// Containers of one pod.
    ContainerSet,
    /// Groups of steps.
    Steps,
    /// A program in place.
    Script,
    /// Something done to an object.
    Resource,
    /// Tasks.
    Dag,
    /// A wait.
    Suspend,
    /// A list of what is stored.
    Data,
    /// A request.
    Http,
    /// A plugin.
    Plugin,
}

impl TemplateType {
    /// The name Argo gives it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Container => "Container",
            Self::ContainerSet => "ContainerSet",
            Self::Steps => "Steps",
            Self::Script => "Script",
            Self::Resource => "Resource",
            Self::Dag => "DAG",
            Self::Suspend => "Suspend",
            Self::Data => "Data",
            Self::Http => "HTTP",
            Self::Plugin => "Plugin",
        }
    }
}

impl Template {
    /// Its types; a valid template has one.
    pub fn types(&self) -> Vec<TemplateType> {
        [
            (self.container.is_some(), TemplateType::Container),
            (self.container_set.is_some(), TemplateType::ContainerSet),
            (self.steps.is_some(), TemplateType::Steps),
            (self.script.is_some(), TemplateType::Script),
            (self.resource.is_some(), TemplateType::Resource),
            (self.dag.is_some(), TemplateType::Dag),
            (self.suspend.is_some(), TemplateType::Suspend),
            (self.data.is_some(), TemplateType::Data),
            (self.http.is_some(), TemplateType::Http),
            (self.plugin.is_some(), TemplateType::Plugin),
        ]
        .into_iter()
        .filter_map(|(there, kind)| there.then_some(kind))
        .collect()
    }

    /// Its type, if it has one.
    pub fn kind(&self) -> Option<TemplateType> {
        self.types().first().copied()
    }

    /// Whether it calls no others.
    pub fn is_leaf(&self) -> bool {
        use TemplateType::{Container, ContainerSet, Data, Http, Plugin, Resource, Script};
        matches!(self.kind(), Some(Container | ContainerSet | Script | Resource | Data | Http | Plugin))
    }

    /// Whether it becomes a pod of its own.
    pub fn is_pod(&self) -> bool {
        use TemplateType::{Container, ContainerSet, Data, Resource, Script};
        matches!(self.kind(), Some(Container | ContainerSet | Script | Resource | Data))
    }

    /// Whether `outputs.result` and `exitCode` exist.
    pub fn has_result(&self) -> bool {
        use TemplateType::{Container, ContainerSet, Data, Http, Plugin, Script};
        match self.kind() {
            Some(ContainerSet) => self
                .container_set
                .as_ref()
                .is_some_and(|set| set.containers.iter().any(|container| container.name == "main")),
            Some(Container | Script | Data | Http | Plugin) => true,
            _ => false,
        }
    }
}

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

/// What goes into a template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Inputs {
    /// Parameters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
    /// Artifacts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What a call passes: the same as what goes in.
pub type Arguments = Inputs;

impl Inputs {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.parameters.is_empty() && self.artifacts.is_empty() && self.rest.is_empty()
    }

    /// The parameter of that name.
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// The artifact of that name.
    pub fn artifact(&self, name: &str) -> Option<&Artifact> {
        self.artifacts.iter().find(|artifact| artifact.name == name)
    }
}

/// What comes out of a template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Outputs {
    /// Parameters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
    /// Artifacts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// What a program printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// How a program ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

impl Outputs {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.parameters.is_empty()
            && self.artifacts.is_empty()
            && self.result.is_none()
            && self.exit_code.is_none()
            && self.rest.is_empty()
    }
}

/// A named text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its value where nobody gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<AnyString>,
    /// Its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<AnyString>,
    /// Where its value comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_from: Option<ValueFrom>,
    /// The workflow's output that it becomes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub global_name: String,
    /// What it may be.
    #[serde(rename = "enum", skip_serializing_if = "Option::is_none")]
    pub choices: Option<Vec<AnyString>>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<AnyString>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Where a parameter's value comes from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ValueFrom {
    /// A file in the container.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// A path in the resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub json_path: String,
    /// A filter over the resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub jq_filter: String,
    /// An expression over an event.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub event: String,
    /// Another parameter.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parameter: String,
    /// Whoever resumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supplied: Option<Rest>,
    /// A key of a `ConfigMap`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<ConfigMapKeySelector>,
    /// The value where that yields none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<AnyString>,
    /// An expression.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub expression: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}
