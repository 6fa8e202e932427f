//! `ConfigMap`.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::access::{flag, map, same};
use super::columns::{AGE, NAME, age, column, name};
use super::tidy::tidy;
use super::{Column, Strategy};
use crate::field::{FieldError, Path};
use crate::names;

/// Largest sum of the sizes of all values of a `ConfigMap` or Secret.
pub(super) const SIZE_MAX: usize = 1024 * 1024;
/// Why a field of an immutable `ConfigMap` or Secret may not change.
pub(super) const IMMUTABLE: &str = "field is immutable when `immutable` is set";

pub(super) struct ConfigMap;

impl Strategy for ConfigMap {
    fn default(&self, object: &mut Value) {
        tidy(object);
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut size = 0;
        let binary = map(object, "/binaryData");
        for (key, value) in map(object, "/data").into_iter().flatten() {
            let path = Path::new("data").key(key);
            errors.extend(names::config_key(key).into_iter().map(|why| FieldError::invalid(&path, key.as_str(), why)));
            if binary.is_some_and(|binary| binary.contains_key(key)) {
                errors.push(FieldError::invalid(&path, key.as_str(), "duplicate of key present in binaryData"));
            }
            size += value.as_str().unwrap_or_default().len();
        }
        for (key, value) in binary.into_iter().flatten() {
            let path = Path::new("binaryData").key(key);
            errors.extend(names::config_key(key).into_iter().map(|why| FieldError::invalid(&path, key.as_str(), why)));
            size += decoded_len(value.as_str().unwrap_or_default());
        }
        if size > SIZE_MAX {
            errors.push(FieldError::too_long(&Path::new("[]"), 1024 * 1024));
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = frozen(object, old, &["data", "binaryData"]);
        errors.extend(self.validate(object));
        errors
    }

    fn name_errors(&self, name: &str, prefix: bool) -> Vec<String> {
        names::subdomain_name(name, prefix)
    }

    fn columns(&self) -> &'static [Column] {
        const { &[NAME, column("Data", "How many entries there are."), AGE] }
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let entries = map(object, "/data").map_or(0, Map::len);
        let binary = map(object, "/binaryData").map_or(0, Map::len);
        vec![name(object), (entries + binary).into(), age(object, now)]
    }
}

/// What a change to an object marked `immutable` may not do.
pub(super) fn frozen(object: &Value, old: &Value, fields: &[&str]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if flag(old, "/immutable") {
        if !flag(object, "/immutable") {
            errors.push(FieldError::forbidden(&Path::new("immutable"), IMMUTABLE));
        }
        for field in fields {
            if !same(object.get(field), old.get(field)) {
                errors.push(FieldError::forbidden(&Path::new(field), IMMUTABLE));
            }
        }
    }
    errors
}

/// How many bytes a base64 text stands for.
pub(super) fn decoded_len(base64: &str) -> usize {
    let padding = base64.bytes().rev().take_while(|byte| *byte == b'=').count();
    (base64.len() / 4 * 3).saturating_sub(padding)
}
