//! The task result of a step: what it left, recorded before anybody counts on it.

use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use super::super::names::{INSTANCE, REPORTED, WORKFLOW};
use super::super::outcome::Phase;
use super::{Failure, Result, Told};

/// How often a report is tried, and how long after the first failure; twice as long each time, up to the most.
const TRIES: u32 = 12;
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// What a step reports.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) outputs: Value,
    pub(super) phase: Option<Phase>,
    pub(super) message: String,
}

/// A client of the API, by what the pod has been given.
pub(super) fn client() -> Result<Client> {
    let config = Config::incluster().map_err(|error| Failure(format!("the API is not known here: {error}")))?;
    Client::try_from(config).map_err(|error| Failure(format!("the API: {error}")))
}

/// The object of a report.
pub(super) fn object(told: &Told, report: &Report) -> Value {
    let mut labels = json!({WORKFLOW: told.workflow, REPORTED: "true"});
    if let Some(instance) = &told.instance {
        labels[INSTANCE] = json!(instance);
    }
    let owner = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": told.workflow,
        "uid": told.workflow_uid});
    let mut object = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "WorkflowTaskResult",
        "metadata": {"name": told.node_id, "labels": labels, "ownerReferences": [owner]}});
    if report.outputs.as_object().is_some_and(|outputs| !outputs.is_empty()) {
        object["outputs"] = report.outputs.clone();
    }
    if let Some(phase) = report.phase {
        object["phase"] = json!(phase);
    }
    if !report.message.is_empty() {
        object["message"] = json!(report.message);
    }
    object
}

/// Records a report, again where an earlier attempt of the same node has left one.
pub(super) async fn send(client: &Client, told: &Told, report: &Report) -> Result<()> {
    let kind = GroupVersionKind::gvk("argoproj.io", "v1alpha1", "WorkflowTaskResult");
    let resource = ApiResource::from_gvk_with_plural(&kind, "workflowtaskresults");
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &told.namespace, &resource);
    let object = object(told, report);
    let new: DynamicObject =
        serde_json::from_value(object.clone()).map_err(|error| Failure(format!("the report: {error}")))?;
    let mut pause = PAUSE;
    for attempt in 1.. {
        let done = match api.create(&PostParams::default(), &new).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                let patch = Patch::Merge(&object);
                api.patch(&told.node_id, &PatchParams::default(), &patch).await
            }
            other => other,
        };
        match done {
            Ok(_) => return Ok(()),
            Err(error) if attempt >= TRIES || !is_passing(&error) => {
                return Err(Failure(format!("the step's result was not recorded: {error}")));
            }
            Err(_) => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
    Ok(())
}

/// Whether another try may go better.
fn is_passing(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        _ => true,
    }
}
