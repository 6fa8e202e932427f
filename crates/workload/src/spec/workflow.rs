//! The kinds.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodDNSConfig;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Rest;
use super::body::RetryStrategy;
use super::parameter::Arguments;
use super::task::{Hook, TemplateRef};
use super::template::Template;

/// A workflow. Its status is another module's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Workflow {
    /// argoproj.io/v1alpha1.
    pub api_version: String,
    /// Workflow.
    pub kind: String,
    /// Name, labels and the like.
    pub metadata: ObjectMeta,
    /// What is to be done.
    pub spec: WorkflowSpec,
    /// Everything else, with the status.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A `WorkflowTemplate` or `ClusterWorkflowTemplate`: a workflow's shape.
pub type WorkflowTemplate = Workflow;

/// What a workflow is to do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkflowSpec {
    /// What can be called.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub templates: Vec<Template>,
    /// The template that is called.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub entrypoint: String,
    /// What it is called with.
    #[serde(skip_serializing_if = "Arguments::is_empty")]
    pub arguments: Arguments,
    /// The pods' service account.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_account_name: String,
    /// Whether its token is mounted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automount_service_account_token: Option<bool>,
    /// How the executor runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<Value>,
    /// Volumes of all pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Value>,
    /// Claims made for the workflow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volume_claim_templates: Vec<Value>,
    /// How many pods run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<i64>,
    /// Where artifacts are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_repository_ref: Option<ArtifactRepositoryRef>,
    /// Whether nothing more is started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Scheduling: labels of nodes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Scheduling: affinity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Value>,
    /// Scheduling: tolerations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Value>,
    /// Secrets to pull images with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<Value>,
    /// Whether pods use the host's network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_network: Option<bool>,
    /// The pods' DNS policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_policy: Option<String>,
    /// The pods' DNS settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_config: Option<PodDNSConfig>,
    /// The template that runs at the end.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub on_exit: String,
    /// When it is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_strategy: Option<TtlStrategy>,
    /// How long it may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
    /// Its priority among workflows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Scheduling: by whom.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub scheduler_name: String,
    /// When pods are deleted.
    #[serde(rename = "podGC", skip_serializing_if = "Option::is_none")]
    pub pod_gc: Option<PodGc>,
    /// Scheduling: priority.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod_priority_class_name: String,
    /// Lines of the pods' hosts file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub host_aliases: Vec<Value>,
    /// The pods' security context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_context: Option<Value>,
    /// A merge patch for pods.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod_spec_patch: String,
    /// A disruption budget for its pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<Value>,
    /// Metrics to emit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Value>,
    /// Stop or Terminate.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub shutdown: String,
    /// The `WorkflowTemplate` that it is made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_template_ref: Option<WorkflowTemplateRef>,
    /// Locks to hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synchronization: Option<Value>,
    /// When claims are deleted.
    #[serde(rename = "volumeClaimGC", skip_serializing_if = "Option::is_none")]
    pub volume_claim_gc: Option<VolumeClaimGc>,
    /// How templates are tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_strategy: Option<RetryStrategy>,
    /// Labels and annotations of all pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_metadata: Option<Metadata>,
    /// What every template starts from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_defaults: Option<Box<Template>>,
    /// Whether logs are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_logs: Option<bool>,
    /// What runs when a condition holds; `exit` at the end.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hooks: BTreeMap<String, Hook>,
    /// Labels and annotations of the workflow itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_metadata: Option<WorkflowMetadata>,
    /// When artifacts are removed.
    #[serde(rename = "artifactGC", skip_serializing_if = "Option::is_none")]
    pub artifact_gc: Option<Value>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

impl WorkflowSpec {
    /// The template of that name.
    pub fn template(&self, name: &str) -> Option<&Template> {
        self.templates.iter().find(|template| template.name == name)
    }

    /// The hook that runs at the end, also from its older form.
    pub fn exit_hook(&self) -> Option<Hook> {
        match self.hooks.get("exit") {
            Some(hook) => Some(hook.clone()),
            None if self.on_exit.is_empty() => None,
            None => Some(Hook { template: self.on_exit.clone(), ..Hook::default() }),
        }
    }
}

/// The `WorkflowTemplate` that a workflow is made from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkflowTemplateRef {
    /// Its name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Whether it is a `ClusterWorkflowTemplate`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cluster_scope: bool,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

impl WorkflowTemplateRef {
    /// The reference to one of its templates.
    pub fn template(&self, name: &str) -> TemplateRef {
        TemplateRef {
            name: self.name.clone(),
            template: name.to_owned(),
            cluster_scope: self.cluster_scope,
            rest: Rest::new(),
        }
    }
}

/// Where artifacts are stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ArtifactRepositoryRef {
    /// The `ConfigMap`; `artifact-repositories` where empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub config_map: String,
    /// Its key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// When a workflow is deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TtlStrategy {
    /// After any end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_after_completion: Option<i32>,
    /// After success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_after_success: Option<i32>,
    /// After failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_after_failure: Option<i32>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// When pods are deleted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGc {
    /// `OnPodCompletion`, `OnPodSuccess`, `OnWorkflowCompletion` or `OnWorkflowSuccess`; never where empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub strategy: String,
    /// Which pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// After which wait.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub delete_delay_duration: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// When claims are deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeClaimGc {
    /// `OnWorkflowCompletion` or `OnWorkflowSuccess`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub strategy: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Labels and annotations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

impl Metadata {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.annotations.is_empty() && self.labels.is_empty() && self.rest.is_empty()
    }
}

/// Labels and annotations of a workflow itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkflowMetadata {
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels by expression.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels_from: BTreeMap<String, LabelValueFrom>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A label's value by expression.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LabelValueFrom {
    /// The expression.
    pub expression: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A workflow that starts by the clock.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronWorkflow {
    /// argoproj.io/v1alpha1.
    pub api_version: String,
    /// `CronWorkflow`.
    pub kind: String,
    /// Name, labels and the like.
    pub metadata: ObjectMeta,
    /// What starts when.
    pub spec: CronWorkflowSpec,
    /// Everything else, with the status.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What starts when.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronWorkflowSpec {
    /// The workflow.
    pub workflow_spec: WorkflowSpec,
    /// Allow, Forbid or Replace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub concurrency_policy: String,
    /// Whether nothing starts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// How late a start may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starting_deadline_seconds: Option<i64>,
    /// How many succeeded workflows are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successful_jobs_history_limit: Option<i32>,
    /// How many failed workflows are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_jobs_history_limit: Option<i32>,
    /// The clock's zone.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub timezone: String,
    /// Labels and annotations of the workflows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_metadata: Option<ObjectMeta>,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_strategy: Option<Value>,
    /// The times.
    pub schedules: Vec<String>,
    /// The condition of a start.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub when: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}
