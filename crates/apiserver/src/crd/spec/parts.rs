//! The parts of a version beside its schema: scale, printer columns and selectable fields.

use serde_json::Value;

use crate::crd::view::text;
use crate::field::{FieldError, Path};
use crate::jsonpath::{field_path, simple_errors};
use crate::schema::{Type, custom};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const SELECTABLE_MAX: usize = 8;

pub(super) fn scale(subresources: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(scale) = subresources.get("scale").filter(|scale| !scale.is_null()) else { return errors };
    let mut check = |key: &str, needed: bool, roots: &[&str], why: &str| {
        let path = path.child(&format!("scale.{key}"));
        let value = text(scale, key).unwrap_or_default();
        if value.is_empty() {
            if needed {
                errors.push(FieldError::required(&path, ""));
            }
            return;
        }
        let simple = simple_errors(value, &path);
        if !simple.is_empty() {
            errors.extend(simple);
        } else if !roots.iter().any(|root| value.starts_with(root)) {
            errors.push(FieldError::invalid(&path, value, why));
        }
    };
    check("specReplicasPath", true, &[".spec."], "should be a json path under .spec");
    check("statusReplicasPath", true, &[".status."], "should be a json path under .status");
    let either = "should be a json path under either .spec or .status";
    check("labelSelectorPath", false, &[".spec.", ".status."], either);
    errors
}

pub(super) fn columns(list: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (at, column) in list.as_array().into_iter().flatten().enumerate() {
        let path = path.index(at);
        let of = |key: &str| text(column, key).unwrap_or_default();
        if of("name").is_empty() {
            errors.push(FieldError::required(&path.child("name"), ""));
        }
        let types = format!("must be one of {}", COLUMN_TYPES.join(","));
        match of("type") {
            "" => errors.push(FieldError::required(&path.child("type"), types)),
            known if COLUMN_TYPES.contains(&known) => {}
            other => errors.push(FieldError::invalid(&path.child("type"), other, types)),
        }
        let format = of("format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(FieldError::invalid(&path.child("format"), format, detail));
        }
        match of("jsonPath") {
            "" => errors.push(FieldError::required(&path.child("JSONPath"), "")),
            given => errors.extend(simple_errors(given, &path.child("JSONPath"))),
        }
    }
    errors
}

pub(super) fn selectable(list: &Value, schema: Option<&Value>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(schema) = schema else {
        let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
        return vec![FieldError::invalid(path, "", detail)];
    };
    let tree = custom(schema);
    let mut seen = Vec::new();
    for (at, field) in list.as_array().into_iter().flatten().enumerate() {
        let path = path.index(at).child("jsonPath");
        let given = text(field, "jsonPath").unwrap_or_default();
        if given.is_empty() {
            errors.push(FieldError::required(&path, ""));
            continue;
        }
        match field_path(given, &tree, false) {
            Err(why) => errors.push(FieldError::invalid(&path, given, format!("is an invalid path: {why}"))),
            Ok((leads, node)) => {
                if leads.as_str() == "metadata" || leads.as_str().starts_with("metadata.") {
                    errors.push(FieldError::invalid(&path, given, "must not point to fields in metadata"));
                }
                if !matches!(node.kind, Some(Type::String | Type::Boolean | Type::Integer)) {
                    let detail = "must point to a field of type string, boolean or integer. Enum string fields and \
                                  strings with formats are allowed.";
                    errors.push(FieldError::invalid(&path, given, detail));
                }
                if seen.contains(&leads) {
                    errors.push(FieldError::duplicate(&path, given));
                } else {
                    seen.push(leads);
                }
            }
        }
    }
    if seen.len() > SELECTABLE_MAX {
        let count = i64::try_from(seen.len()).unwrap_or(i64::MAX);
        errors.push(FieldError::too_many(path, count, 8));
    }
    errors
}
