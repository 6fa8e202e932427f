//! What a change of a pod may not do.

use serde_json::Value;

use super::super::access::{items, present, remove, same, text};
use super::validate::tolerations;
use crate::field::{FieldError, Path};
use crate::names;

const ALLOWED: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                       `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions \
                       to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it \
                       was previously negative)";

pub(super) fn changes(object: &Value, old: &Value) -> Vec<FieldError> {
    let spec = Path::new("spec");
    let mut errors = Vec::new();
    for list in ["containers", "initContainers"] {
        let pointer = format!("/spec/{list}");
        if items(object, &pointer).len() != items(old, &pointer).len() {
            errors.push(FieldError::forbidden(&spec.child(list), "pod updates may not add or remove containers"));
            return errors;
        }
    }
    if let Some((error, stop)) = deadline(object, old, &spec.child("activeDeadlineSeconds")) {
        errors.push(error);
        if stop {
            return errors;
        }
    }
    errors.extend(toleration_changes(object, old, &spec.child("tolerations")));
    errors.extend(gate_changes(object, old, &spec.child("schedulingGates")));
    let gated = !items(old, "/spec/schedulingGates").is_empty();
    let (mut new, mut before) = (object["spec"].clone(), old["spec"].clone());
    let negative = present(&before, "/terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|s| s < 0);
    let mended = negative && new["terminationGracePeriodSeconds"] == 1;
    for spec in [&mut new, &mut before] {
        for list in ["containers", "initContainers"] {
            let items = spec.get_mut(list).and_then(Value::as_array_mut);
            items.into_iter().flatten().for_each(|container| remove(container, "", "image"));
        }
        for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
            remove(spec, "", field);
        }
        if mended {
            remove(spec, "", "terminationGracePeriodSeconds");
        }
        if gated {
            remove(spec, "", "nodeSelector");
            remove(spec, "/affinity", "nodeAffinity");
        }
    }
    if !same(Some(&new), Some(&before)) {
        errors.push(FieldError::forbidden(&spec, ALLOWED));
    }
    errors
}

/// What a change of status may not do.
pub(super) fn status_changes(object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let nominated = text(object, "/status/nominatedNodeName");
    if !nominated.is_empty() {
        let path = Path::new("status.nominatedNodeName");
        let why = names::dns_subdomain(nominated);
        errors.extend(why.into_iter().map(|why| FieldError::invalid(&path, nominated, why)));
    }
    let quality = |object: &Value| object.pointer("/status/qosClass").cloned();
    if !same(quality(object).as_ref(), quality(old).as_ref()) {
        let shown = quality(object).unwrap_or_default();
        errors.push(FieldError::invalid(&Path::new("status.qosClass"), shown, "field is immutable"));
    }
    errors
}

/// The error, and whether Kubernetes looks no further.
fn deadline(object: &Value, old: &Value, path: &Path) -> Option<(FieldError, bool)> {
    let read = |object: &Value| object.pointer("/spec/activeDeadlineSeconds").and_then(Value::as_i64);
    match (read(object), read(old)) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            Some((FieldError::invalid(path, new, names::between(0, i64::from(i32::MAX))), true))
        }
        (Some(new), Some(before)) if before < new => {
            Some((FieldError::invalid(path, new, "must be less than or equal to previous value"), true))
        }
        (None, Some(_)) => {
            let why = "must not update from a positive integer to nil value";
            Some((FieldError::invalid(path, Value::Null, why), false))
        }
        _ => None,
    }
}

fn toleration_changes(object: &Value, old: &Value, path: &Path) -> Vec<FieldError> {
    let bare = |toleration: &Value| {
        let mut bare = toleration.clone();
        remove(&mut bare, "", "tolerationSeconds");
        bare
    };
    let new = items(object, "/spec/tolerations").iter().map(bare).collect::<Vec<_>>();
    for before in items(old, "/spec/tolerations") {
        if !new.iter().any(|toleration| same(Some(toleration), Some(&bare(before)))) {
            let why = "existing toleration can not be modified except its tolerationSeconds";
            return vec![FieldError::forbidden(path, why)];
        }
    }
    tolerations(object, path)
}

fn gate_changes(object: &Value, old: &Value, path: &Path) -> Vec<FieldError> {
    let before = items(old, "/spec/schedulingGates");
    let added = items(object, "/spec/schedulingGates").iter().enumerate().filter(|(_, gate)| !before.contains(gate));
    added
        .map(|(at, gate)| {
            let why = format!("only deletion is allowed, but found new scheduling gate '{}'", text(gate, "/name"));
            FieldError::forbidden(&path.index(at).child("name"), why)
        })
        .collect()
}
