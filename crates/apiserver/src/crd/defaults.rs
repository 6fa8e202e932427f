//! Defaults must themselves be valid.

use serde_json::Value;

use crate::field::{FieldError, Path};
use crate::schema::custom::META_FIELDS;
use crate::schema::node::Schema;
use crate::schema::validate::openapi;
use crate::schema::{cel, prune};

/// What is wrong with the defaults below a node.
pub(super) fn validate(schema: &Schema, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, path, &mut errors);
    errors
}

fn walk(schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    if let Some(value) = &schema.default {
        one(schema, value, &path.child("default"), errors);
    }
    if let Some(items) = &schema.items {
        walk(&items.get(), &path.child("items"), errors);
    }
    for (name, link) in &schema.properties {
        if !(schema.embedded_resource && META_FIELDS.contains(&name.as_str())) {
            walk(&link.get(), &path.child("properties").key(name), errors);
        }
    }
}

fn one(schema: &Schema, value: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let mut pruned = value.clone();
    if !prune(schema, &mut pruned).is_empty() {
        errors.push(FieldError::invalid(path, value.clone(), "must not have unknown fields"));
    }
    let wrong = openapi(schema, value, None, path.as_str());
    if !wrong.is_empty() {
        errors.extend(wrong);
        return;
    }
    let wrong = cel::validate_at(schema, value, Some(value), path);
    if wrong.is_empty() {
        errors.extend(cel::validate_at(schema, value, None, path));
    } else {
        errors.extend(wrong);
    }
}
