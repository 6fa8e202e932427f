//! The Workflow of a workload.

use serde_json::{Value, json};

use super::kind::{AgentWorkload, Runtime};

/// The label whose value says which controller takes a Workflow.
pub(super) const INSTANCE: &str = "workflows.argoproj.io/controller-instanceid";
/// The label that says whose Workflow it is.
pub(super) const WORKLOAD: &str = "thane.dev/workload";
/// The label that says where that is.
pub(super) const WORKLOAD_NAMESPACE: &str = "thane.dev/workload-namespace";
/// The annotation with the uid of the workload, so that a namesake's Workflow is not taken for its own.
pub(super) const WORKLOAD_UID: &str = "thane.dev/workload-uid";

/// What the steps of every workload call, and the instance ids of those who run Workflows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Services {
    /// The image of the agents.
    pub agent_image: String,
    /// Where a browser is.
    pub browserless_url: String,
    /// Where models are.
    pub litellm_url: String,
    /// Where checkpoints go; without a password, which steps have from a Secret.
    pub postgres_dsn: String,
    /// Where artifacts go if a workload does not say.
    pub bucket: String,
    /// The label of our own controller, if it has one.
    pub instance: Option<String>,
}

/// Where a workload's Workflow is: name and namespace.
pub(crate) fn place(workload: &AgentWorkload) -> (String, String) {
    let own = workload.metadata.namespace.clone().unwrap_or_default();
    let named = workload.spec.orchestration.as_ref().and_then(|it| it.workflow_template_ref.as_ref());
    let namespace = named.and_then(|template| template.namespace.clone()).unwrap_or(own);
    (workload.metadata.name.clone().unwrap_or_default(), namespace)
}

/// The template a workload is made from.
pub(crate) fn template(workload: &AgentWorkload) -> Option<String> {
    let named = workload.spec.orchestration.as_ref().and_then(|it| it.workflow_template_ref.as_ref());
    let named = named.map(|template| template.name.clone());
    named.or_else(|| workload.spec.workflow_name.map(|name| name.template().to_owned()))
}

/// The Workflow, as it is to be created.
pub(crate) fn workflow(workload: &AgentWorkload, template: &str, runtime: Runtime, services: &Services) -> Value {
    let (name, namespace) = place(workload);
    let meta = &workload.metadata;
    let own = meta.namespace.clone().unwrap_or_default();
    let spec = &workload.spec;
    let job = spec.job_id.clone().unwrap_or_else(|| name.clone());
    let targets = Value::from(spec.target_urls.clone()).to_string();
    let bucket = spec.target_bucket.clone().unwrap_or_else(|| services.bucket.clone());
    let parameters = [
        ("job_id", job),
        ("target_urls", targets),
        ("minio_bucket", bucket),
        ("agent_image", services.agent_image.clone()),
        ("browserless_url", services.browserless_url.clone()),
        ("litellm_url", services.litellm_url.clone()),
        ("postgres_dsn", services.postgres_dsn.clone()),
        // So that a gate closes in time even if nobody is there to close it.
        ("gate_timeout", gate_timeout(workload)),
    ];
    let parameters: Vec<Value> = parameters
        .into_iter()
        // What nobody has set is the template's to say.
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    let mut made = json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {WORKLOAD: name, WORKLOAD_NAMESPACE: own},
            "annotations": {WORKLOAD_UID: meta.uid},
        },
        "spec": {"workflowTemplateRef": {"name": template}, "arguments": {"parameters": parameters}},
    });
    if let (Runtime::Thane, Some(instance)) = (runtime, &services.instance) {
        made["metadata"]["labels"][INSTANCE] = json!(instance);
    }
    if let Some(limit) = spec.timeouts.as_ref().and_then(|timeouts| timeouts.execution) {
        made["spec"]["activeDeadlineSeconds"] = json!(limit);
    }
    // An owner in another namespace is no owner to Kubernetes; there the finalizer does its work.
    if own == namespace {
        made["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "agentic.clawdlinux.org/v1alpha1", "kind": "AgentWorkload", "name": meta.name, "uid": meta.uid,
            "controller": true, "blockOwnerDeletion": true,
        }]);
    }
    made
}

/// How long its gates wait, where it says so, as a template has it.
fn gate_timeout(workload: &AgentWorkload) -> String {
    let seconds = workload.spec.timeouts.as_ref().and_then(|timeouts| timeouts.suspend_gate);
    seconds.map(|seconds| format!("{seconds}s")).unwrap_or_default()
}

/// Whether a Workflow was made for an earlier workload of that name: it goes with that one, which is gone.
pub(crate) fn is_left_over(workflow: &Value, workload: &AgentWorkload) -> bool {
    let said = |kind: &str, name: &str| workflow["metadata"][kind][name].as_str();
    said("annotations", WORKLOAD_UID).is_some_and(|uid| Some(uid) != workload.metadata.uid.as_deref())
        && said("labels", WORKLOAD) == workload.metadata.name.as_deref()
        && said("labels", WORKLOAD_NAMESPACE) == workload.metadata.namespace.as_deref()
}

/// Whether a Workflow was made for this workload, and not for a namesake or by somebody else.
pub(crate) fn is_of(workflow: &Value, workload: &AgentWorkload) -> bool {
    let uid = workflow.pointer("/metadata/annotations").and_then(|annotations| annotations.get(WORKLOAD_UID));
    uid.and_then(Value::as_str) == workload.metadata.uid.as_deref()
}
