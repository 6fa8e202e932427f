//! `PersistentVolumeClaim`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::{each_mut, fill, fill_text, map, map_mut, present, remove, restore, same, text, texts};
use super::columns::{AGE, NAME, age, column, name, wide};
use super::network_policy::selector_errors;
use super::pod::resources::{canonicalise_lists, canonicalise_map};
use super::tidy::tidy;
use super::{Column, Strategy};
use crate::field::{FieldError, Path};
use crate::quantity::Quantity;
use crate::{metadata, names};

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(super) struct Claim;

impl Strategy for Claim {
    fn default(&self, object: &mut Value) {
        tidy(object);
        if let Some(spec) = map_mut(object, "spec") {
            fill_text(spec, "volumeMode", "Filesystem");
            fill(spec, "resources", json!({}));
        }
        canonicalise_lists(object.pointer_mut("/spec/resources"));
        if let Some(status) = map_mut(object, "status") {
            fill_text(status, "phase", "Pending");
        }
        for condition in each_mut(object, "/status/conditions") {
            fill(condition, "lastProbeTime", Value::Null);
            fill(condition, "lastTransitionTime", Value::Null);
        }
        canonicalise_map(object.pointer_mut("/status/capacity"));
        canonicalise_map(object.pointer_mut("/status/allocatedResources"));
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"phase": "Pending"});
        align_sources(object);
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        restore(object, old, "status");
        align_sources(object);
    }

    fn prepare_status_update(&self, object: &mut Value, old: &Value) {
        restore(object, old, "spec");
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let Some(spec) = object.get("spec") else { return Vec::new() };
        spec_errors(spec, &Path::new("spec"))
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(object);
        let class = |object: &Value| metadata::annotation(object, CLASS_ANNOTATION).unwrap_or_default().to_owned();
        if class(object) != class(old) {
            let path = Path::new("metadata.annotations").key(CLASS_ANNOTATION);
            errors.push(FieldError::invalid(&path, class(object), "field is immutable"));
        }
        let (mut new, mut before) = (object["spec"].clone(), old["spec"].clone());
        if text(&before, "/volumeName").is_empty() {
            remove(&mut new, "", "volumeName");
            remove(&mut before, "", "volumeName");
        }
        if present(&before, "/storageClassName").is_none() {
            remove(&mut new, "", "storageClassName");
        }
        if text(object, "/status/phase") == "Bound" {
            for spec in [&mut new, &mut before] {
                remove(spec, "/resources/requests", "storage");
                remove(spec, "", "volumeAttributesClassName");
            }
        }
        if !same(Some(&new), Some(&before)) {
            let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for \
                       bound claims";
            errors.push(FieldError::forbidden(&Path::new("spec"), why));
        }
        errors.extend(shrink_error(object, old));
        if !same(object.pointer("/spec/volumeMode"), old.pointer("/spec/volumeMode")) {
            let mode = object.pointer("/spec/volumeMode").cloned().unwrap_or_default();
            errors.push(FieldError::invalid(&Path::new("volumeMode"), mode, "field is immutable"));
        }
        errors
    }

    fn validate_status_update(&self, object: &Value, _old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for (name, amount) in map(object, "/status/capacity").into_iter().flatten() {
            if let Some(amount) = Quantity::from_value(amount).ok().filter(Quantity::is_negative) {
                let path = Path::new("status.capacity").key(name);
                errors.push(FieldError::invalid(&path, amount.to_whole(), "must be a valid resource quantity"));
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
                column("Status", "Phase of the claim."),
                column("Volume", "The volume bound to it."),
                column("Capacity", "Size of the volume."),
                column("Access Modes", "How the volume may be mounted."),
                column("StorageClass", "StorageClass of the pvc"),
                column("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
                AGE,
                wide("VolumeMode", "File system or block device."),
            ]
        }
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let phase = match metadata::deletion_timestamp(object) {
            Some(_) => "Terminating",
            None => text(object, "/status/phase"),
        };
        let volume = text(object, "/spec/volumeName");
        let (capacity, modes) = if volume.is_empty() {
            (String::new(), String::new())
        } else {
            let capacity = object.pointer("/status/capacity/storage").and_then(|q| Quantity::from_value(q).ok());
            (capacity.map_or_else(|| "0".to_owned(), |quantity| quantity.to_string()), access_modes(object))
        };
        let class = metadata::annotation(object, CLASS_ANNOTATION).unwrap_or(text(object, "/spec/storageClassName"));
        let or_unset = |pointer: &str| present(object, pointer).and_then(Value::as_str).unwrap_or("<unset>").to_owned();
        vec![
            name(object),
            phase.into(),
            volume.into(),
            capacity.into(),
            modes.into(),
            class.into(),
            or_unset("/spec/volumeAttributesClassName").into(),
            age(object, now),
            or_unset("/spec/volumeMode").into(),
        ]
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("name", metadata::name(object).to_owned())]
    }
}

fn access_modes(object: &Value) -> String {
    let modes = texts(object, "/status/accessModes");
    [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")]
        .iter()
        .filter(|(mode, _)| modes.contains(mode))
        .map(|(_, short)| *short)
        .collect::<Vec<_>>()
        .join(",")
}

/// Keeps `dataSource` and `dataSourceRef` equal where only one is given.
fn align_sources(object: &mut Value) {
    let Some(spec) = map_mut(object, "spec") else { return };
    let source = spec.get("dataSource").filter(|value| !value.is_null()).cloned();
    let reference = spec.get("dataSourceRef").filter(|value| !value.is_null()).cloned();
    let known = |source: &Value| {
        matches!(
            (text(source, "/apiGroup"), text(source, "/kind")),
            ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
        )
    };
    match (source, reference) {
        // Kubernetes has always ignored such sources.
        (Some(source), None) if !known(&source) => {
            spec.remove("dataSource");
        }
        (Some(source), None) => {
            spec.insert("dataSourceRef".to_owned(), source);
        }
        (None, Some(reference)) if text(&reference, "/namespace").is_empty() => {
            spec.insert("dataSource".to_owned(), reference);
        }
        _ => {}
    }
    for field in ["dataSource", "dataSourceRef"] {
        if let Some(source) = spec.get_mut(field).and_then(Value::as_object_mut) {
            fill(source, "apiGroup", Value::Null);
        }
    }
}

/// What is wrong with the spec of a claim.
pub(super) fn spec_errors(spec: &Value, at: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let modes = texts(spec, "/accessModes");
    let path = at.child("accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required(&path, "at least 1 access mode is required"));
    }
    errors.extend(selector_errors(present(spec, "/selector"), &at.child("selector")));
    for mode in modes.iter().filter(|mode| !MODES.contains(mode)) {
        errors.push(FieldError::not_supported(&path, *mode, &MODES));
    }
    let single = modes.contains(&"ReadWriteOncePod");
    if single && modes.iter().any(|mode| *mode != "ReadWriteOncePod" && MODES.contains(mode)) {
        errors.push(FieldError::forbidden(&path, "may not use ReadWriteOncePod with other access modes"));
    }
    let path = at.child("resources").key("storage");
    match spec.pointer("/resources/requests/storage").map(Quantity::from_value) {
        Some(Ok(storage)) if storage.is_zero() || storage.is_negative() => {
            errors.push(FieldError::invalid(&path, storage.to_string(), "must be greater than zero"));
        }
        Some(_) => {}
        None => errors.push(FieldError::required(&path, "")),
    }
    for field in ["storageClassName", "volumeAttributesClassName"] {
        let class = text(spec, &format!("/{field}"));
        if !class.is_empty() {
            let why = names::dns_subdomain(class);
            errors.extend(why.into_iter().map(|why| FieldError::invalid(&at.child(field), class, why)));
        }
    }
    let mode = text(spec, "/volumeMode");
    if present(spec, "/volumeMode").is_some() && !matches!(mode, "Block" | "Filesystem") {
        errors.push(FieldError::not_supported(&at.child("volumeMode"), mode, &["Block", "Filesystem"]));
    }
    for field in ["dataSource", "dataSourceRef"] {
        if let Some(source) = present(spec, &format!("/{field}")) {
            errors.extend(source_errors(source, &at.child(field)));
        }
    }
    errors
}

fn source_errors(source: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["name", "kind"] {
        if text(source, &format!("/{field}")).is_empty() {
            errors.push(FieldError::required(&path.child(field), ""));
        }
    }
    let (group, kind) = (text(source, "/apiGroup"), text(source, "/kind"));
    if group.is_empty() {
        if kind != "PersistentVolumeClaim" {
            let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errors.push(FieldError::invalid(path, kind, why));
        }
    } else {
        let why = names::dns_subdomain(group);
        errors.extend(why.into_iter().map(|why| FieldError::invalid(&path.child("apiGroup"), group, why)));
    }
    errors
}

fn shrink_error(object: &Value, old: &Value) -> Option<FieldError> {
    let storage = |object: &Value, pointer: &str| object.pointer(pointer).and_then(|q| Quantity::from_value(q).ok());
    let new = storage(object, "/spec/resources/requests/storage")?;
    let before = storage(old, "/spec/resources/requests/storage")?;
    if new >= before {
        return None;
    }
    let zero = Quantity::from_value(&Value::Null).ok()?;
    let capacity = storage(old, "/status/capacity/storage").unwrap_or(zero);
    let path = Path::new("spec.resources.requests.storage");
    (new <= capacity).then(|| FieldError::forbidden(&path, "field can not be less than status.capacity"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_printed_in_order() {
        let object = json!({"status": {"accessModes": ["ReadWriteMany", "ReadWriteOnce"]}});
        assert_eq!(access_modes(&object), "RWO,RWX");
    }
}
