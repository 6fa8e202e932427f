//! Schemas for tests, read from OpenAPI-like JSON.

use std::sync::Arc;

use serde_json::Value;

use crate::schema::{Link, ListType, MapType, Schema, Type};

/// Reads a schema without references.
pub(crate) fn schema(json: &Value) -> Arc<Schema> {
    let text = |name: &str| json.get(name).and_then(Value::as_str).map(str::to_owned);
    let flag = |name: &str| json.get(name).and_then(Value::as_bool).unwrap_or_default();
    let strings = |name: &str| {
        let list = json.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let child = |name: &str| json.get(name).map(|json| Link::Here(schema(json)));
    let fields = json.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    Arc::new(Schema {
        kind: match text("type").as_deref() {
            Some("object") => Some(Type::Object),
            Some("array") => Some(Type::Array),
            Some("string") => Some(Type::String),
            Some("integer") => Some(Type::Integer),
            Some("number") => Some(Type::Number),
            Some("boolean") => Some(Type::Boolean),
            _ => None,
        },
        int_or_string: flag("x-kubernetes-int-or-string"),
        preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
        properties: fields.iter().map(|(name, json)| (name.clone(), Link::Here(schema(json)))).collect(),
        additional: child("additionalProperties"),
        items: child("items"),
        default: json.get("default").cloned(),
        list_type: match text("x-kubernetes-list-type").as_deref() {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(strings("x-kubernetes-list-map-keys")),
            _ => ListType::Atomic,
        },
        map_type: match text("x-kubernetes-map-type").as_deref() {
            Some("atomic") => MapType::Atomic,
            _ => MapType::Granular,
        },
        patch_merge_key: text("x-kubernetes-patch-merge-key"),
        patch_merge: text("x-kubernetes-patch-strategy").is_some_and(|strategy| strategy.contains("merge")),
        patch_retain_keys: text("x-kubernetes-patch-strategy").is_some_and(|strategy| strategy.contains("retainKeys")),
        required: strings("required"),
        format: text("format"),
        ..Schema::default()
    })
}
