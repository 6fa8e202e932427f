//! The node's own object, and the lease that says it lives.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use thane_runtime::Tasks;

use super::placement::Place;
use super::schedule::{labels, machine};
use crate::host;
use crate::runner::HOST_ADDRESS;
use crate::shared::Shared;
use crate::status::whole;

const LEASES: &str = "kube-node-lease";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const LEASE_SECONDS: u32 = 40;
const RENEW: Duration = Duration::from_secs(10);

/// Makes the node known, with what it has. What people wrote on it before stays.
pub(super) async fn register(shared: &Shared) -> Result<Place, kube::Error> {
    let api: Api<Node> = Api::all(shared.client.clone());
    let name = &shared.config.name;
    let labels: serde_json::Map<String, Value> =
        labels(name).into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
    if api.get_opt(name).await?.is_none() {
        let node: Node = serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
        match api.create(&PostParams::default(), &node).await {
            Err(kube::Error::Api(answer)) if answer.code == 409 => {}
            created => drop(created?),
        }
    }
    api.patch(name, &PatchParams::default(), &Patch::Merge(&object)).await?;
    let patch = json!({"status": status(shared)});
    let node = api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(Place::of(&admitted(&api, node).await?))
}

/// Takes away the taint that an API gives every new node until it is ready: a cluster has a controller for that.
async fn admitted(api: &Api<Node>, mut node: Node) -> Result<Node, kube::Error> {
    loop {
        let mut taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let before = taints.len();
        taints.retain(|taint| taint.key != NOT_READY);
        if taints.len() == before {
            return Ok(node);
        }
        // With its version: a taint somebody sets in this moment is not lost.
        let version = node.metadata.resource_version.as_deref();
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
        let name = node.metadata.name.as_deref().unwrap_or_default();
        match api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Err(kube::Error::Api(answer)) if answer.code == 409 => node = api.get(name).await?,
            patched => return patched,
        }
    }
}

fn status(shared: &Shared) -> Value {
    let now = whole(shared.clock.now()).to_string();
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    let resources = json!({
        "cpu": host::processors().to_string(),
        "memory": format!("{}Ki", shared.memory / 1024),
        "pods": shared.config.pods_max.to_string(),
    });
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    json!({
        "capacity": resources,
        "allocatable": resources,
        "addresses": [
            {"type": "InternalIP", "address": HOST_ADDRESS}, {"type": "Hostname", "address": shared.config.name},
        ],
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "memory is not short"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "disk space is not short"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "process ids are not short"),
            condition("Ready", "True", "KubeletReady", "thane runs pods on this machine"),
        ],
        "nodeInfo": {
            "machineID": read("/etc/machine-id"),
            "systemUUID": "",
            "bootID": read("/proc/sys/kernel/random/boot_id"),
            "kernelVersion": read("/proc/sys/kernel/osrelease"),
            "osImage": os_image(),
            "containerRuntimeVersion": concat!("thane://", env!("CARGO_PKG_VERSION")),
            "kubeletVersion": concat!("v1.34.0-thane.", env!("CARGO_PKG_VERSION")),
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": machine(),
        },
    })
}

fn os_image() -> String {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    line.unwrap_or("Linux").trim_matches('"').to_owned()
}

/// Renews the node's lease until it ends.
pub(super) async fn renew(shared: Arc<Shared>, tasks: Tasks) {
    let api: Api<Lease> = Api::namespaced(shared.client.clone(), LEASES);
    loop {
        if let Err(error) = renew_once(&shared, &api).await {
            tracing::warn!(%error, "the node's lease was not renewed");
        }
        tokio::select! {
            () = tasks.cancelled() => return,
            () = tokio::time::sleep(RENEW) => {}
        }
    }
}

async fn renew_once(shared: &Shared, api: &Api<Lease>) -> Result<(), kube::Error> {
    let name = &shared.config.name;
    let now = shared.clock.now();
    let micros = jiff::fmt::temporal::DateTimePrinter::new().precision(Some(6)).timestamp_to_string(&now);
    let spec = json!({"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": micros});
    let patch = json!({"spec": spec});
    match api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Err(kube::Error::Api(answer)) if answer.code == 404 => {
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": name, "namespace": LEASES}, "spec": spec,
            });
            let lease: Lease = serde_json::from_value(lease).map_err(kube::Error::SerdeError)?;
            api.create(&PostParams::default(), &lease).await.map(|_| ())
        }
        renewed => renewed.map(|_| ()),
    }
}
