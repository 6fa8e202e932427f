//! What sets and keyed lists ask of their items.

use serde_json::Value;

use crate::crd::view::{flag, strings, text};
use crate::field::{FieldError, Path};

/// Whether the type is the one an extension needs.
pub(super) fn wants_type(kind: &str, wanted: &str, by: &str, path: &Path, errors: &mut Vec<FieldError>) -> bool {
    let detail = format!("must be {wanted} if {by} is specified");
    match kind {
        "" => errors.push(FieldError::required(&path.child("type"), detail)),
        given if given != wanted => errors.push(FieldError::invalid(&path.child("type"), given, detail)),
        _ => return true,
    }
    false
}

/// Items of a set are compared whole, so they must be replaced whole.
pub(super) fn set_items(raw: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let Some(items) = raw.get("items").filter(|items| items.is_object()) else { return };
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let list_type = items.get("x-kubernetes-list-type").cloned().unwrap_or_default();
    match text(items, "type").unwrap_or_default() {
        "array" if text(items, "x-kubernetes-list-type").is_some_and(|given| given != "atomic") => {
            let at = path.child("items").child("x-kubernetes-list-type");
            errors.push(FieldError::invalid(&at, list_type, detail));
        }
        "object" if text(items, "x-kubernetes-map-type") != Some("atomic") => {
            let at = path.child("items").child("x-kubernetes-map-type");
            errors.push(FieldError::invalid(&at, list_type, detail));
        }
        _ => {}
    }
}

pub(super) fn list_keys(raw: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let keys = strings(raw, "x-kubernetes-list-map-keys");
    let list_type = text(raw, "x-kubernetes-list-type");
    if !keys.is_empty() && list_type != Some("map") {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        let at = path.child("x-kubernetes-list-type");
        errors.push(match list_type {
            None => FieldError::required(&at, detail),
            Some(given) => FieldError::invalid(&at, given, detail),
        });
    }
    let items = raw.get("items").filter(|items| items.is_object());
    if list_type == Some("map") {
        let at = path.child("x-kubernetes-list-map-keys");
        if keys.is_empty() {
            errors.push(FieldError::required(&at, "must not be empty if x-kubernetes-list-type is map"));
        }
        match items {
            None => {
                let detail = "must have a schema if x-kubernetes-list-type is map";
                errors.push(FieldError::required(&path.child("items"), detail));
            }
            Some(items) if text(items, "type") != Some("object") => {
                let detail = "must be object if parent array's x-kubernetes-list-type is map";
                let given = text(items, "type").unwrap_or_default();
                errors.push(FieldError::invalid(&path.child("items").child("type"), given, detail));
            }
            Some(items) => keys_of_items(&keys, items, &at, path, errors),
        }
    }
    if let (Some(items), Some("set" | "map")) = (items, list_type) {
        keyed_items(raw, items, &keys, path, errors);
    }
}

fn keys_of_items(keys: &[&str], items: &Value, at: &Path, path: &Path, errors: &mut Vec<FieldError>) {
    let shown = || Value::from(keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>());
    for (index, key) in keys.iter().enumerate() {
        match items.get("properties").and_then(|all| all.get(*key)) {
            Some(field) if matches!(text(field, "type"), Some("array" | "object")) => {
                let at = path.child("items").child("properties").key(key).child("type");
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(&at, text(items, "type").unwrap_or_default(), detail));
            }
            Some(_) => {}
            None => errors.push(FieldError::invalid(at, shown(), "entries must all be names of item properties")),
        }
        if keys[..index].contains(key) {
            errors.push(FieldError::invalid(at, shown(), "must not contain duplicate entries"));
        }
    }
}

fn keyed_items(raw: &Value, items: &Value, keys: &[&str], path: &Path, errors: &mut Vec<FieldError>) {
    let list_type = text(raw, "x-kubernetes-list-type").unwrap_or_default();
    if flag(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(&path.child("items").child("nullable"), detail));
    }
    if list_type != "map" {
        return;
    }
    let required = strings(items, "required");
    for key in keys {
        let Some(field) = items.get("properties").and_then(|all| all.get(*key)) else { continue };
        let at = path.child("items").child("properties").key(key);
        if !required.contains(key) && field.get("default").is_none_or(Value::is_null) {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                          property";
            errors.push(FieldError::required(&at.child("default"), detail));
        }
        if flag(field, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(&at.child("nullable"), detail));
        }
    }
}
