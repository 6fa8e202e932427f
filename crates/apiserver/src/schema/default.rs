//! Filling in what an absent field means.

use serde_json::Value;

use super::custom::META_FIELDS;
use super::node::Schema;

/// Puts defaults where a field is absent, or null where null is no value.
pub(crate) fn default(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, link) in &schema.properties {
                if schema.embedded_resource && META_FIELDS.contains(&name.as_str()) {
                    continue;
                }
                let node = link.get();
                let Some(fallback) = &node.default else { continue };
                if map.get(name).is_none_or(|now| is_forbidden_null(&node, now)) {
                    map.insert(name.clone(), fallback.clone());
                }
            }
            for (name, child) in map.iter_mut() {
                if schema.embedded_resource && META_FIELDS.contains(&name.as_str()) {
                    continue;
                }
                if let Some(link) = schema.properties.get(name) {
                    default(&link.get(), child);
                } else if let Some(link) = &schema.additional {
                    entry(&link.get(), child);
                }
            }
        }
        Value::Array(items) => {
            if let Some(link) = &schema.items {
                let node = link.get();
                for item in items.iter_mut() {
                    entry(&node, item);
                }
            }
        }
        _ => {}
    }
}

fn entry(node: &Schema, value: &mut Value) {
    if is_forbidden_null(node, value) {
        *value = node.default.clone().unwrap_or_default();
    }
    default(node, value);
}

fn is_forbidden_null(node: &Schema, value: &Value) -> bool {
    value.is_null() && !node.nullable
}
