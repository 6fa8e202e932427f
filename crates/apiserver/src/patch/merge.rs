//! JSON merge patch (RFC 7386).

use serde_json::{Map, Value};

use crate::failure::{Failure, Result};
use crate::go;

/// Applies a patch. `checked` is whether field validation is `Warn` or `Strict`, where errors are worded differently.
pub(crate) fn apply(document: &Value, patch: &Value, checked: bool) -> Result<Value> {
    let invalid = || Failure::bad_request("Invalid JSON Patch");
    match patch {
        Value::Object(patch) => {
            let mut fields = document.as_object().cloned().unwrap_or_default();
            merge_fields(&mut fields, patch);
            Ok(Value::Object(fields))
        }
        Value::Null => Err(invalid()),
        other if checked => Err(Failure::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go::json_type(other)
        ))),
        list @ Value::Array(_) => Err(super::undecodable(
            &without_nulls(list),
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct \
             { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }",
        )),
        _ => Err(invalid()),
    }
}

fn merge_fields(fields: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(name);
            continue;
        }
        match (fields.get_mut(name), value) {
            (Some(Value::Object(inner)), Value::Object(patch)) => merge_fields(inner, patch),
            // Only where something is replaced by a value of another kind do nulls inside that value stay.
            (Some(Value::Object(_)), other) => {
                fields.insert(name.clone(), other.clone());
            }
            (_, other) => {
                fields.insert(name.clone(), without_nulls(other));
            }
        }
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
