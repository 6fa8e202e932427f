//! A pod of a pool: how it is made, and what is read from it.

mod kubernetes;
mod make;
pub(crate) mod tools;
mod trouble;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;

use crate::claims::PoolAt;
use crate::names;

pub use make::{Kubernetes, Shape};
pub(crate) use make::{digest, is_bound_otherwise, labels_of, make, owned_by_sandbox};
pub(crate) use trouble::{last_progress, pull_error, stuck, trouble};

/// A label of an object.
pub(crate) fn label<'a>(object: &'a impl Resource, name: &str) -> Option<&'a str> {
    object.meta().labels.as_ref()?.get(name).map(String::as_str)
}

/// An annotation of an object.
pub(crate) fn annotation<'a>(object: &'a impl Resource, name: &str) -> Option<&'a str> {
    object.meta().annotations.as_ref()?.get(name).map(String::as_str)
}

/// The name of an object.
pub(crate) fn name(object: &impl Resource) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

/// The unique id of an object.
pub(crate) fn uid(object: &impl Resource) -> &str {
    object.meta().uid.as_deref().unwrap_or_default()
}

/// The namespace of an object.
pub(crate) fn namespace(object: &impl Resource) -> &str {
    object.meta().namespace.as_deref().unwrap_or_default()
}

/// Whether an object is to go.
pub(crate) fn is_deleting(object: &impl Resource) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// The pool a pod says it is of.
pub(crate) fn pool_of(pod: &Pod) -> Option<PoolAt> {
    let name = label(pod, names::POOL)?;
    Some(PoolAt { namespace: namespace(pod).to_owned(), name: name.to_owned() })
}

/// The unique id of whoever of that kind controls a pod.
pub(crate) fn owner<'a>(pod: &'a Pod, kind: &str) -> Option<&'a OwnerReference> {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.kind == kind && owner.controller == Some(true))
}

/// Whether a pod waits for a sandbox, by its label.
pub(crate) fn is_idle(pod: &Pod) -> bool {
    label(pod, names::STATUS) == Some(names::IDLE)
}

/// Whether a pod was given to a sandbox, by its label.
pub(crate) fn is_allocated(pod: &Pod) -> bool {
    label(pod, names::STATUS) == Some(names::ALLOCATED)
}

/// How far a pod is.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Whether a pod has ended.
pub(crate) fn is_over(pod: &Pod) -> bool {
    matches!(phase(pod), "Failed" | "Succeeded")
}

/// Where a pod is.
pub(crate) fn address(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.pod_ip.as_deref().filter(|ip| !ip.is_empty())
}

/// Whether a pod can be used.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    phase(pod) == "Running"
        && !is_deleting(pod)
        && address(pod).is_some()
        && conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The container that steps run in.
pub(crate) fn container(pod: &Pod) -> Option<&Container> {
    let containers = &pod.spec.as_ref()?.containers;
    match annotation(pod, names::CONTAINER) {
        Some(wanted) => containers.iter().find(|container| container.name == wanted),
        None => containers.first(),
    }
}

/// Where steps start.
pub(crate) fn work_dir(pod: &Pod) -> &str {
    container(pod).and_then(|container| container.working_dir.as_deref()).unwrap_or(names::WORKSPACE)
}
