use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{annotations, deletion_timestamp, finalizers, generate_name, generation, labels, name, namespace};
use super::{owner_references, resource_version};
use crate::field::{FieldError, Path};
use crate::names;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
const IMMUTABLE: &str = "field is immutable";

/// What is wrong with a new object's metadata. Names have been generated; `name_errors` is the kind's own name rule.
pub(crate) fn validate_create(
    object: &Value,
    namespaced: bool,
    name_errors: impl Fn(&str, bool) -> Vec<String>,
) -> Vec<FieldError> {
    let at = Path::new("metadata");
    let mut errors = Vec::new();
    let prefix = generate_name(object);
    if !prefix.is_empty() {
        let path = at.child("generateName");
        errors.extend(name_errors(prefix, true).into_iter().map(|text| FieldError::invalid(&path, prefix, text)));
    }
    let path = at.child("name");
    match name(object) {
        "" => errors.push(FieldError::required(&path, "name or generateName is required")),
        name => errors.extend(name_errors(name, false).into_iter().map(|text| FieldError::invalid(&path, name, text))),
    }
    errors.extend(namespace_errors(namespace(object), namespaced, &at.child("namespace")));
    if generation(object) < 0 {
        let text = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&at.child("generation"), generation(object), text));
    }
    errors.extend(shared(object, &at));
    errors.extend(validate_finalizers(object, &at.child("finalizers")));
    errors.extend(managed_fields(object, &at.child("managedFields")));
    if has_core_rules(object) {
        for (index, finalizer) in finalizers(object).into_iter().enumerate() {
            errors.extend(unqualified_finalizer(finalizer, &at.child("finalizers").index(index)));
        }
    }
    errors
}

/// Whether the kind is one of those whose finalizers Kubernetes wants to be known to it or qualified.
fn has_core_rules(object: &Value) -> bool {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    match text("apiVersion") {
        "v1" => text("kind") != "Event",
        version => matches!(version, "rbac.authorization.k8s.io/v1" | "networking.k8s.io/v1" | "events.k8s.io/v1"),
    }
}

/// What is wrong with a finalizer that nobody has put under a domain of theirs.
pub(crate) fn unqualified_finalizer(finalizer: &str, path: &Path) -> Option<FieldError> {
    let known = finalizer.contains('/') || matches!(finalizer, "kubernetes" | ORPHAN | FOREGROUND);
    let why = "name is neither a standard finalizer name nor is it fully qualified";
    (!known).then(|| FieldError::invalid(path, finalizer, why))
}

/// What is wrong with a change of metadata.
pub(crate) fn validate_update(object: &Value, old: &Value) -> Vec<FieldError> {
    let at = Path::new("metadata");
    let mut errors = Vec::new();
    if deletion_timestamp(old).is_some() {
        errors.extend(no_new_finalizers(object, old, &at.child("finalizers")));
    }
    if resource_version(object).is_empty() {
        errors.push(FieldError::invalid(&at.child("resourceVersion"), "", "must be specified for an update"));
    }
    if generation(object) < generation(old) {
        errors.push(FieldError::invalid(&at.child("generation"), generation(object), "must not be decremented"));
    }
    for field in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        errors.extend(immutable(object, old, field, &at.child(field)));
    }
    errors.extend(shared(object, &at));
    errors.extend(managed_fields(object, &at.child("managedFields")));
    errors
}

fn namespace_errors(namespace: &str, namespaced: bool, path: &Path) -> Vec<FieldError> {
    match (namespaced, namespace) {
        (true, "") => vec![FieldError::required(path, "")],
        (true, _) => {
            names::dns_label(namespace).into_iter().map(|text| FieldError::invalid(path, namespace, text)).collect()
        }
        (false, "") => Vec::new(),
        (false, _) => vec![FieldError::forbidden(path, "not allowed on this type")],
    }
}

fn shared(object: &Value, at: &Path) -> Vec<FieldError> {
    let mut errors = validate_labels(labels(object), &at.child("labels"));
    errors.extend(annotation_errors(annotations(object), &at.child("annotations")));
    errors.extend(owner_errors(owner_references(object), &at.child("ownerReferences")));
    errors
}

/// What is wrong with a map of labels.
pub(crate) fn validate_labels(labels: Option<&Map<String, Value>>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels.into_iter().flatten() {
        errors.extend(names::qualified_name(key).into_iter().map(|text| FieldError::invalid(path, key.as_str(), text)));
        let value = value.as_str().unwrap_or_default();
        errors.extend(names::label_value(value).into_iter().map(|text| FieldError::invalid(path, value, text)));
    }
    errors
}

fn annotation_errors(annotations: Option<&Map<String, Value>>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in annotations.into_iter().flatten() {
        let lower = key.to_lowercase();
        errors.extend(names::qualified_name(&lower).into_iter().map(|t| FieldError::invalid(path, key.as_str(), t)));
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if size > names::ANNOTATIONS_MAX {
        errors.push(FieldError::too_long(path, i64::try_from(names::ANNOTATIONS_MAX).unwrap_or(i64::MAX)));
    }
    errors
}

fn owner_errors(owners: &[Value], path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    for owner in owners {
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        let version = text("apiVersion").rsplit('/').next().unwrap_or_default();
        if version.is_empty() || text("apiVersion").matches('/').count() > 1 {
            errors.push(FieldError::invalid(
                &path.child("apiVersion"),
                text("apiVersion"),
                "version must not be empty",
            ));
        }
        for field in ["kind", "name", "uid"] {
            if text(field).is_empty() {
                errors.push(FieldError::invalid(&path.child(field), "", "must not be empty"));
            }
        }
        if (text("apiVersion"), text("kind")) == ("v1", "Event") {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(path, owner.clone(), why));
        }
        if owner["controller"] == true {
            let current = format!("{}/{}", text("kind"), text("name"));
            match &controller {
                Some(first) => errors.push(FieldError::invalid(
                    path,
                    owners.to_vec(),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} \
                         and {current}"
                    ),
                )),
                None => controller = Some(current),
            }
        }
    }
    errors
}

/// What is wrong with the finalizers of an object, or with a namespace's in its spec.
fn validate_finalizers(object: &Value, path: &Path) -> Vec<FieldError> {
    let list = finalizers(object);
    let mut errors = Vec::new();
    for finalizer in &list {
        let texts = names::qualified_name(finalizer);
        errors.extend(texts.into_iter().map(|text| FieldError::invalid(path, *finalizer, text)));
    }
    if list.contains(&ORPHAN) && list.contains(&FOREGROUND) {
        let text = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        errors.push(FieldError::invalid(path, list, text));
    }
    errors
}

fn no_new_finalizers(object: &Value, old: &Value, path: &Path) -> Option<FieldError> {
    let old = finalizers(old);
    let added = finalizers(object).into_iter().filter(|name| !old.contains(name)).collect::<BTreeSet<_>>();
    if added.is_empty() {
        return None;
    }
    let list = added.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    Some(FieldError::forbidden(
        path,
        format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"
        ),
    ))
}

fn immutable(object: &Value, old: &Value, field: &str, path: &Path) -> Option<FieldError> {
    let read = |object: &Value| match object.get("metadata").and_then(|meta| meta.get(field)) {
        None | Some(Value::Null) => Value::Null,
        Some(Value::String(text)) if text.is_empty() => Value::Null,
        Some(value) => value.clone(),
    };
    let (new, old) = (read(object), read(old));
    if new == old {
        return None;
    }
    let shown = if new.is_null() && old.is_string() && !field.ends_with("Timestamp") { Value::from("") } else { new };
    Some(FieldError::invalid(path, shown, IMMUTABLE))
}

fn managed_fields(object: &Value, path: &Path) -> Vec<FieldError> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut errors = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let path = path.index(at);
        let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        if !matches!(text("operation"), "Apply" | "Update") {
            let why = "must be `Apply` or `Update`";
            errors.push(FieldError::invalid(&path.child("operation"), text("operation"), why));
        }
        if !matches!(text("fieldsType"), "" | "FieldsV1") {
            let why = "must be `FieldsV1`";
            errors.push(FieldError::invalid(&path.child("fieldsType"), text("fieldsType"), why));
        }
        errors.extend(validate_manager(text("manager"), &path.child("manager")));
    }
    errors
}

/// What is wrong with the name of a field manager.
fn validate_manager(manager: &str, path: &Path) -> Vec<FieldError> {
    const LIMIT: usize = 128;
    let mut errors = Vec::new();
    if manager.len() > LIMIT {
        errors.push(FieldError::too_long(path, 128));
    }
    for (at, letter) in manager.char_indices().filter(|(_, letter)| letter.is_control()) {
        let why = format!("invalid character U+{:04X} (at position {at})", u32::from(letter));
        errors.push(FieldError::invalid(path, manager, why));
    }
    errors
}
