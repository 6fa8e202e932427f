//! Pod.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::{each_mut, flag, items, map_mut, present, restore, same, text};
use super::{Column, Strategy};
use crate::field::FieldError;
use crate::{metadata, names};

pub(crate) mod admission;
mod containers;
mod defaults;
mod placement;
mod print;
mod probes;
pub(super) mod resources;
mod security;
mod update;
mod validate;
mod volumes;

pub(super) struct Pod;

const SELECTABLE: [&str; 9] = [
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
];

impl Strategy for Pod {
    fn default(&self, object: &mut Value) {
        defaults::pod(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        admission::tolerations(object);
        admission::priority(object);
        drop_restart_rules(object);
        drop_image_volumes(object);
        if let Some(spec) = map_mut(object, "spec")
            && spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0)
        {
            spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
        }
        let made = metadata::creation_timestamp(object);
        let made = if made.is_empty() { Value::Null } else { made.into() };
        let mut status = json!({"phase": "Pending", "qosClass": resources::quality(object)});
        if !items(object, "/spec/schedulingGates").is_empty() {
            status["conditions"] = json!([{
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": null,
                "lastTransitionTime": made,
            }]);
        }
        object["status"] = status;
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        restore(object, old, "status");
        drop_restart_rules(object);
        admission::tolerations(object);
        for field in ["priority", "preemptionPolicy"] {
            let before = present(old, &format!("/spec/{field}")).cloned();
            if let (Some(before), Some(spec)) = (before, map_mut(object, "spec")) {
                super::access::fill(spec, field, before);
            }
        }
    }

    fn prepare_status_update(&self, object: &mut Value, old: &Value) {
        restore(object, old, "spec");
        if let Some(meta) = object.get_mut("metadata")
            && let Some(before) = old.get("metadata")
        {
            restore(meta, before, "ownerReferences");
            restore(meta, before, "deletionTimestamp");
        }
        let quality = text(old, "/status/qosClass").to_owned();
        if let Some(status) = map_mut(object, "status")
            && !quality.is_empty()
        {
            super::access::fill_text(status, "qosClass", &quality);
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = validate::pod(object);
        errors.extend(validate::only_on_create(object));
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = validate::pod(object);
        errors.extend(update::changes(object, old));
        errors
    }

    fn validate_status_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        update::status_changes(object, old)
    }

    fn name_errors(&self, name: &str, prefix: bool) -> Vec<String> {
        names::subdomain_name(name, prefix)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn raises_generation(&self, object: &Value, old: &Value) -> bool {
        !same(object.get("spec"), old.get("spec"))
    }

    fn columns(&self) -> &'static [Column] {
        print::COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        print::cells(object, now)
    }

    fn row_conditions(&self, object: &Value) -> Option<Value> {
        let message = match text(object, "/status/phase") {
            "Succeeded" => "The pod has completed successfully.",
            "Failed" => "The pod failed.",
            _ => return None,
        };
        let reason = text(object, "/status/phase");
        Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        let read = |name: &str| match name {
            "spec.hostNetwork" => flag(object, "/spec/hostNetwork").to_string(),
            "status.podIPs" => String::new(),
            "status.podIP" => {
                items(object, "/status/podIPs").first().map_or("", |address| text(address, "/ip")).to_owned()
            }
            _ => text(object, &format!("/{}", name.replace('.', "/"))).to_owned(),
        };
        SELECTABLE.iter().map(|name| (*name, read(name))).collect()
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        &SELECTABLE
    }
}

/// Volumes of a feature that is off unless asked for.
fn drop_image_volumes(pod: &mut Value) {
    if let Some(volumes) = pod.pointer_mut("/spec/volumes").and_then(Value::as_array_mut) {
        volumes.retain(|volume| present(volume, "/image").is_none());
    }
}

/// Fields of a feature that is off unless asked for: restart policies of containers that are no sidecars.
fn drop_restart_rules(pod: &mut Value) {
    for list in ["/spec/containers", "/spec/initContainers"] {
        for container in each_mut(pod, list) {
            container.remove("restartPolicyRules");
            if list == "/spec/containers" || container.get("restartPolicy").is_some_and(|policy| policy != "Always") {
                container.remove("restartPolicy");
            }
        }
    }
}
