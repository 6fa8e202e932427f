//! Which pods come to this node.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::pod::PodExt;
use crate::shared::Shared;

const SCHEDULER: &str = "default-scheduler";

/// Labels of the node, which selectors of pods may name.
pub(super) fn labels(name: &str) -> [(&'static str, String); 3] {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    [
        ("kubernetes.io/hostname", name.to_owned()),
        ("kubernetes.io/os", "linux".to_owned()),
        ("kubernetes.io/arch", machine.to_owned()),
    ]
}

/// Whether a pod that has no node is for this one.
pub(super) fn is_ours(pod: &Pod, name: &str) -> bool {
    let Some(spec) = pod.spec() else { return false };
    let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    let scheduler = spec.scheduler_name.as_deref().unwrap_or(SCHEDULER);
    if pod.is_deleting() || gated || scheduler != SCHEDULER {
        return false;
    }
    let labels = labels(name);
    let mut wanted = spec.node_selector.iter().flatten();
    wanted.all(|(key, value)| labels.iter().any(|(known, own)| known == key && own == value))
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
    fn pods_come_here_unless_they_say_otherwise() {
        for (spec, expected) in [
            (json!({}), true),
            (json!({"nodeSelector": {"kubernetes.io/os": "linux"}}), true),
            (json!({"nodeSelector": {"kubernetes.io/hostname": "other"}}), false),
            (json!({"schedulerName": "mine"}), false),
            (json!({"schedulingGates": [{"name": "g"}]}), false),
        ] {
            let mut spec: Value = spec;
            spec["containers"] = json!([]);
            let pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
            assert_eq!(is_ours(&pod, "here"), expected, "{pod:?}");
        }
    }
}
