//! A pod from a pool's template.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
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

/// Whether a sandbox is to have other bounds than the pods of its pool that wait.
pub(crate) fn is_bound_otherwise(pool: &WarmPool, sandbox: &Sandbox) -> bool {
    let first = pool.spec.template.spec.as_ref().and_then(|spec| spec.containers.first());
    let of_pool = first.and_then(|container| container.resources.as_ref());
    sandbox.spec.resources.as_ref().is_some_and(|own| Some(own) != of_pool)
}

/// What every sandbox has: no credentials of the API, somewhere to start, and one life. A container that began again
/// would be another sandbox under the same name.
fn complete(spec: &mut PodSpec) {
    spec.automount_service_account_token = Some(false);
    spec.enable_service_links = Some(false);
    spec.restart_policy = Some("Never".to_owned());
    // Steps would see the processes of others, and where there is one the sidecar's.
    spec.share_process_namespace = None;
    if let Some(first) = spec.containers.first_mut() {
        limit(first.resources.get_or_insert_default());
        first.working_dir.get_or_insert_with(|| names::WORKSPACE.to_owned());
    }
}

/// What a sandbox may use of the machine, unless it is said, and what is kept free for it then.
const LIMITS: [(&str, &str, &str); 2] = [("cpu", "1", "100m"), ("memory", "1Gi", "128Mi")];

/// Nothing of anybody's is without a bound; one who asks for more may have that, and no more.
fn limit(resources: &mut ResourceRequirements) {
    for (name, most, least) in LIMITS {
        let limits = resources.limits.get_or_insert_default();
        if !limits.contains_key(name) {
            let asked = resources.requests.as_ref().and_then(|requests| requests.get(name));
            let asked = asked.filter(|asked| amount(&asked.0) > amount(most)).cloned();
            limits.insert(name.to_owned(), asked.unwrap_or_else(|| Quantity(most.to_owned())));
            // A request that is missing would be made of the limit, and idle pods would reserve it all.
            let requests = resources.requests.get_or_insert_default();
            requests.entry(name.to_owned()).or_insert_with(|| Quantity(least.to_owned()));
        }
    }
}

/// A quantity as a number; what is none counts as nothing.
fn amount(text: &str) -> f64 {
    let end = text.rfind(|letter: char| letter.is_ascii_digit() || letter == '.').map_or(0, |at| at + 1);
    let (number, unit) = text.split_at(end);
    let factor = match unit {
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        _ => 1.0,
    };
    number.parse::<f64>().unwrap_or_default() * factor
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
