//! Lists that are sets or maps: no two items may be the same.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::field::{FieldError, Path};
use crate::schema::custom::META_FIELDS;
use crate::schema::node::{ListType, Schema};

pub(super) fn validate(schema: &Schema, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, value, &Path::root(), &mut errors);
    errors
}

fn walk(schema: &Schema, value: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                if schema.embedded_resource && META_FIELDS.contains(&key.as_str()) {
                    continue;
                }
                if let Some(link) = schema.properties.get(key) {
                    walk(&link.get(), child, &path.child(key), errors);
                } else if let Some(link) = &schema.additional {
                    walk(&link.get(), child, &path.key(key), errors);
                }
            }
        }
        Value::Array(items) => {
            match &schema.list_type {
                ListType::Atomic => {}
                ListType::Set => duplicates(items.iter().cloned(), path, errors),
                ListType::Map(keys) => map_items(keys, items, path, errors),
            }
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

fn map_items(keys: &[String], items: &[Value], path: &Path, errors: &mut Vec<FieldError>) {
    let stranger = items.iter().position(|item| !item.is_null() && !item.is_object());
    if let Some(at) = stranger {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(&path.index(at), items[at].clone(), detail));
        return;
    }
    duplicates(items.iter().map(|item| Value::Object(key_of(keys, item))), path, errors);
}

fn key_of(keys: &[String], item: &Value) -> Map<String, Value> {
    keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone()))).collect()
}

/// The second of equal items is reported, the third and later ones are not.
fn duplicates(items: impl Iterator<Item = Value>, path: &Path, errors: &mut Vec<FieldError>) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (at, item) in items.enumerate() {
        let times = seen.entry(item.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            errors.push(FieldError::duplicate(&path.index(at), item));
        }
    }
}

pub(super) fn has_duplicates(items: &[Value]) -> bool {
    let mut seen = std::collections::HashSet::new();
    items.iter().any(|item| !seen.insert(item.to_string()))
}

/// The item of `before` that has the same keys as `item`; absent keys count as their default.
pub(crate) fn correlate<'a>(schema: &Schema, keys: &[String], item: &Value, before: &'a [Value]) -> Option<&'a Value> {
    let keyed = |item: &Value| -> Option<Vec<Value>> {
        let map = item.as_object()?;
        keys.iter()
            .map(|key| {
                let fallback = || schema.properties.get(key).and_then(|link| link.get().default.clone());
                map.get(key).cloned().or_else(fallback).filter(|value| !value.is_null())
            })
            .collect()
    };
    let wanted = keyed(item)?;
    before.iter().find(|old| keyed(old).as_ref() == Some(&wanted))
}
