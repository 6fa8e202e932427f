//! Reading and checking `metadata`, which every object has.

use serde_json::{Map, Value};

pub(crate) use validate::{unqualified_finalizer, validate_create, validate_labels, validate_update};

mod validate;

/// `metadata.FIELD` as text; empty where it is absent or no text.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("metadata").and_then(|meta| meta.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// The object's name.
pub(crate) fn name(object: &Value) -> &str {
    text(object, "name")
}

/// The object's namespace; empty for cluster-wide objects.
pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// The prefix from which a name is made.
pub(crate) fn generate_name(object: &Value) -> &str {
    text(object, "generateName")
}

/// The object's uid.
pub(crate) fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// The revision the object was read at.
pub(crate) fn resource_version(object: &Value) -> &str {
    text(object, "resourceVersion")
}

/// When the object was made.
pub(crate) fn creation_timestamp(object: &Value) -> &str {
    text(object, "creationTimestamp")
}

/// When deletion was asked for, if it was.
pub(crate) fn deletion_timestamp(object: &Value) -> Option<&str> {
    Some(text(object, "deletionTimestamp")).filter(|text| !text.is_empty())
}

/// How many times the desired state changed; zero where the kind does not count.
pub(crate) fn generation(object: &Value) -> i64 {
    object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default()
}

/// The labels, if there are any.
pub(crate) fn labels(object: &Value) -> Option<&Map<String, Value>> {
    object.pointer("/metadata/labels").and_then(Value::as_object)
}

/// The annotations, if there are any.
pub(crate) fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object.pointer("/metadata/annotations").and_then(Value::as_object)
}

/// One annotation.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    annotations(object)?.get(key)?.as_str()
}

/// Who must let go before the object is removed.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    items(object, "finalizers").iter().filter_map(Value::as_str).collect()
}

/// The references to owners, as they are.
pub(crate) fn owner_references(object: &Value) -> &[Value] {
    items(object, "ownerReferences")
}

/// `metadata` as a map to change, made where it is absent. `None` if the object or its metadata is no map.
pub(crate) fn metadata_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.as_object_mut()?.entry("metadata").or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}

fn items<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object.get("metadata").and_then(|meta| meta.get(field)).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests;
