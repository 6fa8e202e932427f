//! A pod from a pool's template.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use sha2::{Digest, Sha256};

use crate::kinds::{Sandbox, WarmPool};
use crate::names;

use super::{kubernetes, name, namespace, tools, uid};

/// What pods are made for.
#[derive(Debug, Clone, Default)]
pub enum Shape {
    /// A node of ours, which brings executor and sidecar.
    #[default]
    Embedded,
    /// A cluster with kubelets.
    Kubernetes(Kubernetes),
}

/// What pods of a cluster need of ours.
#[derive(Debug, Clone)]
pub struct Kubernetes {
    /// Our own image.
    pub image: String,
    /// The Secret with the sidecars' certificates, in each namespace that has pools.
    pub secret: String,
}

/// What a pod is made for: to wait, or for a sandbox.
pub(crate) fn make(pool: &WarmPool, shape: &Shape, sandbox: Option<&Sandbox>) -> Pod {
    let template = &pool.spec.template;
    let metadata = template.metadata.clone().unwrap_or_default();
    let mut spec = template.spec.clone().unwrap_or_default();
    let container = spec.containers.first().map(|container| container.name.clone()).unwrap_or_default();
    let mut labels = metadata.labels.unwrap_or_default();
    let mut annotations = metadata.annotations.unwrap_or_default();
    labels.insert(names::POOL.to_owned(), name(pool).to_owned());
    annotations.insert(names::CONTAINER.to_owned(), container);
    annotations.insert(names::TEMPLATE.to_owned(), digest(pool, shape));
    let owner = match sandbox {
        Some(sandbox) => {
            labels.insert(names::STATUS.to_owned(), names::ALLOCATED.to_owned());
            labels.insert(names::SANDBOX.to_owned(), name(sandbox).to_owned());
            bound(&mut spec, sandbox.spec.resources.as_ref());
            owned_by_sandbox(sandbox)
        }
        None => {
            labels.insert(names::STATUS.to_owned(), names::IDLE.to_owned());
            owned_by(pool, "WarmPool")
        }
    };
    complete(&mut spec);
    if let Some(tools) = &pool.spec.tools {
        tools::bring(&mut spec, pool, tools);
    }
    if let Shape::Kubernetes(cluster) = shape {
        kubernetes::complete(&mut spec, cluster);
    }
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", name(pool))),
            namespace: Some(namespace(pool).to_owned()),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    }
}

/// What every sandbox has: no credentials of the API, somewhere to start, and one life. A container that began again
/// would be another sandbox under the same name.
fn complete(spec: &mut PodSpec) {
    spec.automount_service_account_token = Some(false);
    spec.enable_service_links = Some(false);
    spec.restart_policy = Some("Never".to_owned());
    if let Some(first) = spec.containers.first_mut() {
        first.working_dir.get_or_insert_with(|| names::WORKSPACE.to_owned());
    }
}

fn bound(spec: &mut PodSpec, resources: Option<&ResourceRequirements>) {
    if let (Some(first), Some(resources)) = (spec.containers.first_mut(), resources) {
        first.resources = Some(resources.clone());
    }
}

/// Which template a pod was made from: other digests are replaced.
pub(crate) fn digest(pool: &WarmPool, shape: &Shape) -> String {
    let said = serde_json::json!([pool.spec.template, pool.spec.tools, format!("{shape:?}")]);
    let digest = Sha256::digest(said.to_string());
    u64::from_be_bytes(digest[..8].try_into().unwrap_or_default()).to_string()
}

/// What makes a pod a sandbox's.
pub(crate) fn owned_by_sandbox(sandbox: &Sandbox) -> OwnerReference {
    owned_by(sandbox, "Sandbox")
}

pub(super) fn owned_by(owner: &impl kube::Resource, kind: &str) -> OwnerReference {
    OwnerReference {
        api_version: "arl.infra.io/v1alpha1".to_owned(),
        kind: kind.to_owned(),
        name: name(owner).to_owned(),
        uid: uid(owner).to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// What labels make a pod a sandbox's.
pub(crate) fn labels_of(sandbox: &Sandbox) -> BTreeMap<&'static str, String> {
    BTreeMap::from([(names::STATUS, names::ALLOCATED.to_owned()), (names::SANDBOX, name(sandbox).to_owned())])
}

#[cfg(test)]
mod tests;
