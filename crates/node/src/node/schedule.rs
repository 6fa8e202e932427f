//! Which pods come to this node.

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use serde_json::{Value, json};

use super::placement::Place;
use crate::pod::PodExt;
use crate::shared::Shared;
use crate::status::whole;

const SCHEDULER: &str = "default-scheduler";

/// What kind of machine it is, as Kubernetes says it.
pub(super) fn machine() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Labels every node has: a kubelet's, with those of old that manifests still name.
pub(super) fn labels(name: &str) -> [(&'static str, &str); 5] {
    [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", machine()),
        ("beta.kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", machine()),
    ]
}

/// What the node says about which pods it takes, whenever that changes. People label, taint and cordon it.
pub(super) fn places(shared: &Shared) -> impl Stream<Item = Place> + Send + use<> {
    let api: Api<Node> = Api::all(shared.client.clone());
    let nodes = watch_object(api, &shared.config.name).default_backoff();
    let mut last = None;
    nodes.filter_map(move |seen| {
        // A broken watch goes on by itself, and a node that is gone keeps what it said.
        let place = seen.ok().flatten().as_ref().map(Place::of).filter(|place| last.as_ref() != Some(place));
        last = place.clone().or(last.take());
        std::future::ready(place)
    })
}

/// What a pod without a node asks for, if it is this scheduler's to place it.
pub(super) fn wanted(pod: &Pod) -> Option<&PodSpec> {
    let spec = pod.spec()?;
    let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    let scheduler = spec.scheduler_name.as_deref().unwrap_or(SCHEDULER);
    (spec.node_name.is_none() && !pod.is_deleting() && !gated && scheduler == SCHEDULER).then_some(spec)
}

/// The pods that have no node.
pub(super) async fn waiting(shared: &Shared) -> Result<Vec<Pod>, kube::Error> {
    let api: Api<Pod> = Api::all(shared.client.clone());
    Ok(api.list(&ListParams::default().fields("spec.nodeName=")).await?.items)
}

/// Says on the pod why it waits, unless it says so already.
pub(super) async fn tell(shared: &Shared, pod: &Pod, why: String) {
    let told = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut told = told.filter(|one| one.type_ == "PodScheduled" && one.status == "False");
    if told.any(|one| one.message.as_deref() == Some(&why)) {
        return;
    }
    let now = whole(shared.clock.now()).to_string();
    let condition = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why,
        "lastTransitionTime": now,
    });
    let patch = json!({"metadata": {"uid": PodExt::uid(pod)}, "status": {"conditions": [condition]}});
    let api: Api<Pod> = Api::namespaced(shared.client.clone(), PodExt::namespace(pod));
    match api.patch_status(pod.name(), &PatchParams::default(), &Patch::Strategic(&patch)).await {
        Ok(_) => shared.tell(pod, true, "FailedScheduling", why).await,
        Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => {}
        Err(error) => tracing::warn!(%error, pod = pod.name(), "a pod that has to wait was not told"),
    }
}

/// Brings it here, unless somebody was faster.
pub(super) async fn bind(shared: &Shared, pod: &Pod) {
    let api: Api<Pod> = Api::namespaced(shared.client.clone(), PodExt::namespace(pod));
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": pod.name(), "namespace": PodExt::namespace(pod), "uid": PodExt::uid(pod)},
        "target": {"apiVersion": "v1", "kind": "Node", "name": shared.config.name},
    });
    let bound: Result<Value, kube::Error> =
        api.create_subresource("binding", pod.name(), &PostParams::default(), &binding).await;
    match bound {
        Ok(_) => {}
        Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => {}
        Err(error) => tracing::warn!(%error, pod = pod.name(), "a pod was not bound"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_placed_unless_that_is_for_others() {
        for (spec, expected) in [
            (json!({}), true),
            (json!({"nodeSelector": {"kubernetes.io/hostname": "other"}}), true),
            (json!({"nodeName": "other"}), false),
            (json!({"schedulerName": "mine"}), false),
            (json!({"schedulingGates": [{"name": "g"}]}), false),
        ] {
            let mut spec: Value = spec;
            spec["containers"] = json!([]);
            let pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
            assert_eq!(wanted(&pod).is_some(), expected, "{pod:?}");
        }
    }
}
