//! What a Workflow names, as the API has it now: watches tell of Workflows, templates and settings without an order, and
//! whoever makes all of them at once is right to.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::DynamicObject;
use kube::{Api, ResourceExt};

use super::store::Elsewhere;
use super::watches::{SETTINGS, Word, cluster_template, settings, template};
use super::{Shared, argo};

/// Takes over what there is of it. What is not there, or may not be read, stays as the watches told.
pub(super) async fn fetch(shared: &Shared, namespace: &str, all: &[Elsewhere]) -> Result<(), kube::Error> {
    for one in all {
        match fetch_one(shared, namespace, one).await {
            Err(kube::Error::Api(status)) if status.code < 500 && status.code != 429 => {
                tracing::warn!(namespace, ?one, error = status.message, "what a workflow names could not be read");
            }
            fetched => fetched?,
        }
    }
    Ok(())
}

async fn fetch_one(shared: &Shared, namespace: &str, one: &Elsewhere) -> Result<(), kube::Error> {
    let client = || shared.client.clone();
    match one {
        Elsewhere::Template(name) => {
            let api: Api<DynamicObject> = Api::namespaced_with(client(), namespace, &argo("WorkflowTemplate"));
            if let Some(found) = api.get_opt(name).await? {
                template(shared, Word::There(found));
            }
        }
        Elsewhere::ClusterTemplate(name) => {
            let api: Api<DynamicObject> = Api::all_with(client(), &argo("ClusterWorkflowTemplate"));
            if let Some(found) = api.get_opt(name).await? {
                cluster_template(shared, Word::There(found));
            }
        }
        Elsewhere::Settings(name) => {
            let api: Api<ConfigMap> = Api::namespaced(client(), namespace);
            let [label, value] = SETTINGS;
            let found = api.get_opt(name).await?;
            if let Some(found) = found.filter(|map| map.labels().get(label).is_some_and(|said| said == value)) {
                settings(shared, Word::There(found));
            }
        }
    }
    Ok(())
}
