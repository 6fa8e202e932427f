//! Node.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::access::{align, each_mut, fill, flag, items, map_mut, restore, text, texts};
use super::columns::{AGE, NAME, age, column, name, or_else, wide};
use super::service::net;
use super::tidy::tidy;
use super::{Column, Strategy};
use crate::field::{FieldError, Path, Problem};
use crate::{metadata, names};

const NOT_READY: &str = "node.kubernetes.io/not-ready";

pub(super) struct Node;

impl Strategy for Node {
    fn default(&self, object: &mut Value) {
        tidy(object);
        if let Some(spec) = map_mut(object, "spec") {
            align(spec, "podCIDR", "podCIDRs", |range| range.into(), "");
        }
        for condition in each_mut(object, "/status/conditions") {
            fill(condition, "lastHeartbeatTime", Value::Null);
            fill(condition, "lastTransitionTime", Value::Null);
        }
        if let Some(status) = map_mut(object, "status") {
            if let Some(capacity) = status.get("capacity").cloned().filter(Value::is_object) {
                fill(status, "allocatable", capacity);
            }
            fill(status, "daemonEndpoints", serde_json::json!({"kubeletEndpoint": {"Port": 0}}));
            fill(status, "nodeInfo", empty_info());
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        let taint = serde_json::json!({"key": NOT_READY, "effect": "NoSchedule"});
        let tainted = items(object, "/spec/taints").iter().any(|taint| text(taint, "/key") == NOT_READY);
        if let Some(spec) = map_mut(object, "spec")
            && !tainted
        {
            fill(spec, "taints", serde_json::json!([]));
            if let Some(taints) = spec.get_mut("taints").and_then(Value::as_array_mut) {
                taints.push(taint);
            }
        }
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        restore(object, old, "status");
    }

    fn prepare_status_update(&self, object: &mut Value, old: &Value) {
        restore(object, old, "spec");
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = taint_errors(object);
        let path = Path::new("spec.podCIDRs");
        let ranges = texts(object, "/spec/podCIDRs");
        for (index, range) in ranges.iter().enumerate() {
            errors.extend(net::range_errors(range, &path.index(index)));
        }
        if ranges.len() > 1 {
            let families = ranges.iter().map(|range| range.contains(':')).collect::<BTreeSet<_>>();
            if families.len() < 2 || ranges.len() > 2 {
                let why = "may specify no more than one CIDR for each IP family";
                errors.push(FieldError::invalid(&path, ranges, why));
            }
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let before = items(old, "/spec/podCIDRs");
        if !before.is_empty() && before != items(object, "/spec/podCIDRs") {
            let why = "node updates may not change podCIDR except from \"\" to valid";
            errors.push(FieldError::forbidden(&Path::new("spec.podCIDRs"), why));
        }
        let before = text(old, "/spec/providerID");
        if !before.is_empty() && before != text(object, "/spec/providerID") {
            let why = "node updates may not change providerID except from \"\" to valid";
            errors.push(FieldError::forbidden(&Path::new("spec.providerID"), why));
        }
        errors.extend(taint_errors(object));
        errors
    }

    fn validate_status_update(&self, object: &Value, _old: &Value) -> Vec<FieldError> {
        let addresses = items(object, "/status/addresses");
        let mut errors = Vec::new();
        for (index, address) in addresses.iter().enumerate() {
            if addresses.iter().take(index).any(|other| other == address) {
                let path = Path::new("status.addresses").index(index);
                errors.push(FieldError::duplicate(&path, address.clone()));
            }
        }
        errors
    }

    fn name_errors(&self, name: &str, prefix: bool) -> Vec<String> {
        names::subdomain_name(name, prefix)
    }

    fn columns(&self) -> &'static [Column] {
        const {
            &[
                NAME,
                column("Status", "Whether the node is ready."),
                column("Roles", "The roles of the node"),
                AGE,
                column("Version", "Version of its kubelet."),
                wide("Internal-IP", "Its address inside the cluster."),
                wide("External-IP", "Its address outside the cluster."),
                wide("OS-Image", "Its operating system."),
                wide("Kernel-Version", "Its kernel."),
                wide("Container-Runtime", "What runs its containers."),
            ]
        }
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let address = |kind: &str| {
            let found = items(object, "/status/addresses").iter().find(|address| text(address, "/type") == kind);
            found.map_or("<none>", |address| text(address, "/address")).to_owned()
        };
        vec![
            name(object),
            status(object).into(),
            roles(object).into(),
            age(object, now),
            text(object, "/status/nodeInfo/kubeletVersion").into(),
            address("InternalIP").into(),
            address("ExternalIP").into(),
            or_else(object, "/status/nodeInfo/osImage", "<unknown>").into(),
            or_else(object, "/status/nodeInfo/kernelVersion", "<unknown>").into(),
            or_else(object, "/status/nodeInfo/containerRuntimeVersion", "<unknown>").into(),
        ]
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("spec.unschedulable", flag(object, "/spec/unschedulable").to_string())]
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        &["spec.unschedulable"]
    }
}

fn empty_info() -> Value {
    const FIELDS: [&str; 10] = [
        "architecture",
        "bootID",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "kubeletVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    ];
    FIELDS.iter().map(|field| ((*field).to_owned(), Value::from(""))).collect()
}

fn status(object: &Value) -> String {
    let ready = items(object, "/status/conditions").iter().rfind(|condition| text(condition, "/type") == "Ready");
    let mut status = match ready {
        Some(condition) if text(condition, "/status") == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if flag(object, "/spec/unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn roles(object: &Value) -> String {
    let mut roles = BTreeSet::new();
    for (key, value) in metadata::labels(object).into_iter().flatten() {
        match (key.strip_prefix("node-role.kubernetes.io/"), value.as_str().unwrap_or_default()) {
            (Some(role), _) if !role.is_empty() => roles.insert(role),
            (None, role) if key == "kubernetes.io/role" && !role.is_empty() => roles.insert(role),
            _ => false,
        };
    }
    if roles.is_empty() { "<none>".to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn taint_errors(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, taint) in items(object, "/spec/taints").iter().enumerate() {
        let path = Path::new("metadata.taints").index(index);
        let (key, value, effect) = (text(taint, "/key"), text(taint, "/value"), text(taint, "/effect"));
        let why = names::qualified_name(key);
        errors.extend(why.into_iter().map(|why| FieldError::invalid(&path.child("key"), key, why)));
        let why = names::label_value(value);
        if !why.is_empty() {
            errors.push(FieldError::invalid(&path.child("value"), value, why.join(";")));
        }
        match effect {
            "" => errors.push(FieldError::required(&path.child("effect"), "")),
            "NoSchedule" | "PreferNoSchedule" | "NoExecute" => {}
            _ => {
                let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
                errors.push(FieldError::not_supported(&path.child("effect"), effect, &effects));
            }
        }
        if !seen.insert((key, effect)) {
            errors.push(FieldError {
                field: path.as_str().to_owned(),
                problem: Problem::Duplicate(taint.clone()),
                detail: "taints must be unique by key and effect pair".to_owned(),
            });
        }
    }
    errors
}
