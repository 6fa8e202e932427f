//! Whole objects inside custom resources: they need an apiVersion, a kind and valid metadata.

use serde_json::{Map, Value};

use crate::field::{FieldError, Path};
use crate::names;
use crate::schema::decode;
use crate::schema::node::Schema;

pub(super) fn validate(schema: &Schema, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    children(schema, value, &Path::root(), &mut errors);
    errors
}

fn walk(schema: &Schema, value: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    if let (true, Value::Object(map)) = (schema.embedded_resource, value) {
        resource(map, path, errors);
    }
    children(schema, value, path, errors);
}

fn children(schema: &Schema, value: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                if let Some(link) = schema.properties.get(key) {
                    walk(&link.get(), child, &path.child(key), errors);
                } else if let Some(link) = &schema.additional {
                    walk(&link.get(), child, &path.key(key), errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(link) = &schema.items {
                let node = link.get();
                for (at, item) in items.iter().enumerate() {
                    walk(&node, item, &path.index(at), errors);
                }
            }
        }
        _ => {}
    }
}

/// What is wrong with an object's type and metadata.
pub(crate) fn resource(map: &Map<String, Value>, path: &Path, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        if !map.contains_key(name) {
            errors.push(FieldError::required(&path.child(name), ""));
        }
    }
    match map.get("apiVersion") {
        Some(Value::String(text)) if text.is_empty() => {
            errors.push(FieldError::invalid(&path.child("apiVersion"), "", "must not be empty"));
        }
        Some(Value::String(text)) if text.matches('/').count() > 1 => {
            let detail = format!("unexpected GroupVersion string: {text}");
            errors.push(FieldError::invalid(&path.child("apiVersion"), text.as_str(), detail));
        }
        Some(Value::String(_)) | None => {}
        Some(other) => errors.push(FieldError::invalid(&path.child("apiVersion"), other.clone(), "must be a string")),
    }
    match map.get("kind") {
        Some(Value::String(text)) if text.is_empty() => {
            errors.push(FieldError::invalid(&path.child("kind"), "", "must not be empty"));
        }
        Some(Value::String(text)) => {
            let wrong = names::dns1035_label(&text.to_lowercase());
            if !wrong.is_empty() {
                let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
                errors.push(FieldError::invalid(&path.child("kind"), text.as_str(), detail));
            }
        }
        None => {}
        Some(other) => errors.push(FieldError::invalid(&path.child("kind"), other.clone(), "must be a string")),
    }
    if let Some(metadata) = map.get("metadata") {
        meta(metadata, &path.child("metadata"), errors);
    }
}

fn meta(metadata: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    if let Some(why) = decode::object_meta_error(metadata) {
        errors.push(FieldError::invalid(path, metadata.clone(), why));
        return;
    }
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default();
    for why in names::path_segment(text("generateName"), true) {
        errors.push(FieldError::invalid(&path.child("generateName"), text("generateName"), why));
    }
    for why in names::path_segment(text("name"), false) {
        errors.push(FieldError::invalid(&path.child("name"), text("name"), why));
    }
    if !text("namespace").is_empty() {
        for why in names::dns_label(text("namespace")) {
            errors.push(FieldError::invalid(&path.child("namespace"), text("namespace"), why));
        }
    }
    for (key, value) in metadata.get("labels").and_then(Value::as_object).into_iter().flatten() {
        for why in names::qualified_name(key) {
            errors.push(FieldError::invalid(&path.child("labels"), key.as_str(), why));
        }
        for why in names::label_value(value.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(&path.child("labels"), value.clone(), why));
        }
    }
    for key in metadata.get("annotations").and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key) {
        for why in names::qualified_name(&key.to_lowercase()) {
            errors.push(FieldError::invalid(&path.child("annotations"), key.as_str(), why));
        }
    }
}
