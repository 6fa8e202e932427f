//! Strategic merge patch: merges that know which lists are keyed, for built-in kinds.

mod list;
mod order;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::failure::{Failure, Result};
use crate::go;
use crate::schema::Schema;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";

type Fields = Map<String, Value>;
type Node = Option<Arc<Schema>>;

/// Applies a patch to an object of a built-in kind.
pub(crate) fn apply(schema: &Arc<Schema>, document: &Value, patch: &Value) -> Result<Value> {
    let patch = match patch {
        Value::Object(patch) => patch.clone(),
        Value::Null => Fields::new(),
        other => {
            return Err(Failure::bad_request(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                go::json_type(other)
            )));
        }
    };
    let original = document.as_object().cloned().unwrap_or_default();
    merge_map(original, patch, &Some(Arc::clone(schema))).map(Value::Object)
}

/// An error that Kubernetes does not give a status of its own.
fn unclear(message: impl Into<String>) -> Failure {
    Failure::new(500, "", message)
}

fn no_merge_key(item: &Value, key: &str) -> Failure {
    unclear(format!("map: {} does not contain declared merge key: {key}", go::plain(item)))
}

fn bad_type(expected: &str, actual: &Value) -> Failure {
    // Go has no name for the type of nothing.
    let actual = if actual.is_null() { "%!s(<nil>)" } else { go::type_name(actual) };
    unclear(format!("expected a {expected}, but received a {actual}"))
}

fn unknown_directive(directive: &Value, patch: &Fields) -> Failure {
    let map = go::plain(&Value::Object(patch.clone()));
    unclear(format!("unknown patch type: {} in map: {map}", go::plain(directive)))
}

fn field_of(schema: &Node, name: &str) -> Node {
    schema.as_ref().and_then(|schema| schema.field(name))
}

fn merge_map(mut original: Fields, mut patch: Fields, schema: &Node) -> Result<Fields> {
    match patch.get(DIRECTIVE) {
        Some(Value::String(directive)) if directive == "replace" => {
            patch.remove(DIRECTIVE);
            return Ok(patch);
        }
        Some(Value::String(directive)) if directive == "delete" => return Ok(Fields::new()),
        Some(other) => return Err(unknown_directive(other, &patch)),
        None => {}
    }
    retain_keys(&mut original, &mut patch)?;
    order::merge_ordered_lists(&mut original, &mut patch, schema)?;
    for (name, value) in patch {
        let deletes = name.starts_with(DELETE_FROM_LIST);
        let name = if deletes { after_slash(&name, DELETE_FROM_LIST)?.to_owned() } else { name };
        merge_field(&mut original, name, value, deletes, schema)?;
    }
    Ok(original)
}

/// The field that a directive such as `$setElementOrder/ports` is about.
fn after_slash<'a>(name: &'a str, directive: &str) -> Result<&'a str> {
    match name.split_once('/') {
        Some((prefix, field)) if prefix == directive => Ok(field),
        _ if directive == DELETE_FROM_LIST => Err(Failure::bad_request("invalid patch format of primitive list")),
        _ => Err(Failure::bad_request("invalid patch format of setElementOrder list")),
    }
}

fn merge_field(original: &mut Fields, name: String, value: Value, deletes: bool, schema: &Node) -> Result<()> {
    if value.is_null() {
        original.remove(&name);
        return Ok(());
    }
    let Some(current) = original.get(&name) else {
        if !deletes {
            set_new(original, name, value);
        }
        return Ok(());
    };
    let node = field_of(schema, &name);
    let merged = match (current, value) {
        (Value::Object(current), Value::Object(patch)) => Value::Object(merge_map(current.clone(), patch, &node)?),
        (Value::Array(current), Value::Array(patch)) => {
            Value::Array(list::merge_field(current.clone(), patch, &node, deletes)?)
        }
        (_, _) if deletes => return Ok(()),
        (_, value) => {
            set_new(original, name, value);
            return Ok(());
        }
    };
    original.insert(name, merged);
    Ok(())
}

fn set_new(original: &mut Fields, name: String, mut value: Value) {
    discard_nulls(&mut value);
    match without_directives(value) {
        Some(value) => original.insert(name, value),
        None => original.remove(&name),
    };
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// Objects with a `$patch` of their own go away where there is nothing to patch.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => {
            let kept = fields.into_iter().filter_map(|(name, value)| Some((name, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(items.into_iter().filter_map(without_directives).collect()),
        other => Some(other),
    }
}

/// `$retainKeys` names every field that stays, including those the patch sets.
fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<()> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let invalid = || Failure::bad_request("invalid patch format of retainKeys");
    let keys = keys.as_array().ok_or_else(invalid)?;
    let named = |name: &String| keys.iter().any(|key| key.as_str() == Some(name));
    for (name, value) in patch.iter() {
        let directive = name.starts_with(DELETE_FROM_LIST) || name.starts_with(SET_ELEMENT_ORDER);
        if !value.is_null() && !directive && !named(name) {
            return Err(invalid());
        }
    }
    original.retain(|name, _| named(name));
    Ok(())
}

/// What tells list items apart, as text: equal for equal values, and 1 equals 1.0.
fn identity(item: &Value, key: Option<&str>) -> String {
    let value = match key {
        Some(key) => item.get(key).unwrap_or(&Value::Null),
        None => item,
    };
    match value {
        Value::Number(number) if number.is_f64() => number
            .as_f64()
            .filter(|float| float.fract() == 0.0)
            .map_or(number.to_string(), |float| format!("{float:.0}")),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
