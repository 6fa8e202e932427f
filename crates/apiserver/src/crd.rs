//! Custom resource definitions: defaults, validation, names and the compiled form the server works with.

mod conversion;
mod defaults;
mod kind;
mod names;
mod openapi;
mod rendered;
mod spec;
mod structural;
mod view;

use serde_json::{Value, json};

use crate::field::{FieldError, Path};
use crate::names as rules;
use crate::schema::formats;

pub(crate) use kind::{CustomKind, Scale, Version};
pub(crate) use names::{Names, accept, establish, terminate};

#[cfg(test)]
mod tests;

/// Fills in what an absent field of a definition means.
pub(crate) fn default(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_empty = |value: Option<&Value>| value.and_then(Value::as_str).is_none_or(str::is_empty);
        if is_empty(names.get("singular")) && !kind.is_empty() {
            names.insert("singular".into(), kind.to_lowercase().into());
        }
        if is_empty(names.get("listKind")) && !kind.is_empty() {
            names.insert("listKind".into(), format!("{kind}List").into());
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".into(), json!({"strategy": "None"}));
    }
    let service = spec.get_mut("conversion").and_then(|value| value.pointer_mut("/webhook/clientConfig/service"));
    if let Some(service) = service.and_then(Value::as_object_mut) {
        service.entry("port").or_insert_with(|| 443.into());
    }
    let stored = crd.pointer("/status/storedVersions").and_then(Value::as_array).is_none_or(Vec::is_empty);
    if let (true, Some(name), Some(_)) = (stored, storage_version(crd), crd.get("status")) {
        crd["status"]["storedVersions"] = json!([name]);
    }
}

/// The name of the version objects are stored in.
pub(crate) fn storage_version(crd: &Value) -> Option<String> {
    let versions = crd.pointer("/spec/versions")?.as_array()?;
    let storage = versions.iter().find(|version| version.get("storage").and_then(Value::as_bool) == Some(true))?;
    storage.get("name")?.as_str().map(str::to_owned)
}

/// A new definition's status is the server's: only the storage version is recorded.
pub(crate) fn prepare_create(crd: &mut Value) {
    let stored = storage_version(crd);
    let Some(object) = crd.as_object_mut() else { return };
    let mut status = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": null});
    if let Some(name) = stored {
        status["storedVersions"] = json!([name]);
    }
    object.insert("status".into(), status);
}

/// An update of the definition keeps the old status and adds a new storage version to it.
pub(crate) fn prepare_update(crd: &mut Value, old: &Value) {
    let stored = storage_version(crd);
    let Some(object) = crd.as_object_mut() else { return };
    match old.get("status") {
        Some(status) => object.insert("status".into(), status.clone()),
        None => object.remove("status"),
    };
    let Some(name) = stored else { return };
    let status = object.entry("status").or_insert_with(|| json!({}));
    if !status.is_object() {
        *status = json!({});
    }
    let list = status.get("storedVersions").and_then(Value::as_array).cloned().unwrap_or_default();
    if !list.iter().any(|known| known.as_str() == Some(name.as_str())) {
        status["storedVersions"] = list.into_iter().chain([Value::String(name)]).collect();
    }
}

/// What is wrong with a definition's name.
pub(crate) fn name_errors(crd: &Value, name: &str) -> Vec<String> {
    let mut errors = rules::dns_subdomain(name);
    let text = |at: &str| crd.pointer(at).and_then(Value::as_str).unwrap_or_default();
    if name != format!("{}.{}", text("/spec/names/plural"), text("/spec/group")) {
        errors.push("must be spec.names.plural+\".\"+spec.group".to_owned());
    }
    errors
}

/// What is wrong with a new definition, its metadata aside; its name is checked by [`name_errors`].
pub(crate) fn validate(crd: &Value) -> Vec<FieldError> {
    let mut errors = spec::validate(crd, None);
    errors.extend(status_errors(crd));
    errors.extend(spec::stored_versions(crd));
    errors.extend(spec::approval(crd, None));
    errors.extend(spec::preserve_unknown_fields(crd, None));
    errors
}

/// What is wrong with a change of a definition, metadata aside.
pub(crate) fn validate_update(crd: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = spec::validate(crd, Some(old));
    errors.extend(spec::immutable(crd, old));
    errors.extend(status_errors(crd));
    errors.extend(spec::stored_versions(crd));
    errors.extend(spec::approval(crd, Some(old)));
    errors.extend(spec::preserve_unknown_fields(crd, Some(old)));
    errors
}

/// What is wrong with a change of a definition's status.
pub(crate) fn validate_status_update(crd: &Value) -> Vec<FieldError> {
    status_errors(crd)
}

fn status_errors(crd: &Value) -> Vec<FieldError> {
    let names = crd.pointer("/status/acceptedNames").unwrap_or(&Value::Null);
    spec::names(names, &Path::new("status").child("acceptedNames"))
}

/// What a client should be told about a definition that was taken: formats nobody checks.
pub(crate) fn warnings(crd: &Value, old: Option<&Value>) -> Vec<String> {
    let known = old.map(unknown_formats).unwrap_or_default();
    let fresh = unknown_formats(crd).into_iter().filter(|format| !known.contains(format));
    fresh.map(|format| format!("unrecognized format {format:?}")).collect()
}

fn unknown_formats(crd: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let view = view::View::new(crd);
    for schema in view.schemas() {
        collect_formats(schema, &mut found);
    }
    found
}

fn collect_formats(schema: &Value, found: &mut Vec<String>) {
    if let (Some("string"), Some(format)) = (view::text(schema, "type"), view::text(schema, "format"))
        && !format.is_empty()
        && !formats::is_known(format)
    {
        found.push(format.to_owned());
    }
    view::for_each_child(schema, &mut |child| collect_formats(child, found));
}
