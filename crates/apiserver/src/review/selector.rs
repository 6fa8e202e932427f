//! The selectors in the resource attributes of an access review.

use serde_json::Value;

use super::{part, strings, text};
use crate::field::{FieldError, Path};
use crate::selector::values_error;

/// What is wrong with the selectors of resource attributes.
pub(super) fn selector_errors(attributes: &Value) -> Vec<FieldError> {
    let path = Path::new("spec.resourceAttributes");
    let mut errors = Vec::new();
    for name in ["fieldSelector", "labelSelector"] {
        if let Some(selector) = part(attributes, name) {
            errors.extend(one(selector, &path.child(name), name == "fieldSelector"));
        }
    }
    errors
}

fn one(selector: &Value, path: &Path, fields: bool) -> Vec<FieldError> {
    let raw = text(selector, "rawSelector");
    let requirements = selector.get("requirements").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut errors = Vec::new();
    if !raw.is_empty() && !requirements.is_empty() {
        let why = "may not specified at the same time as requirements";
        errors.push(FieldError::invalid(&path.child("rawSelector"), raw, why));
    }
    if raw.is_empty() && requirements.is_empty() {
        let why = format!("when {path} is specified, requirements or rawSelector is required");
        errors.push(FieldError::required(&path.child("requirements"), why));
    }
    for (at, requirement) in requirements.iter().enumerate() {
        errors.extend(requirement_errors(requirement, &path.child("requirements").index(at), fields));
    }
    errors
}

/// Operators that this version does not know are let through: the selector then narrows nothing.
fn requirement_errors(requirement: &Value, path: &Path, fields: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if fields && text(requirement, "key").is_empty() {
        errors.push(FieldError::required(&path.child("key"), "must be specified"));
    }
    let values = strings(requirement.get("values"));
    errors.extend(values_error(text(requirement, "operator"), !values.is_empty(), path));
    errors
}
