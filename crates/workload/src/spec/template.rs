//! Templates.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Rest;
use super::artifact::ArtifactLocation;
use super::body::{Container, ContainerSet, Dag, Resource, RetryStrategy, Suspend};
use super::parameter::{Inputs, Outputs};
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
