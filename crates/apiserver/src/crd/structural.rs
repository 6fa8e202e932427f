//! What makes a schema structural: every field has a type outside of `allOf`, `anyOf`, `oneOf` and `not`.

use serde_json::{Value, json};

use super::view::{flag, text};
use crate::field::{FieldError, Path};
use crate::schema::rules;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Every way a schema fails to be structural, sorted.
pub(super) fn validate(schema: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    invariants(schema, Level::Root, path, &mut errors);
    completeness(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

fn has_properties(schema: &Value) -> bool {
    properties(schema).next().is_some()
}

fn invariants(schema: &Value, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type").unwrap_or_default();
    let items = schema.get("items").filter(|items| items.is_object());
    if kind == "array" && items.is_none() {
        errors.push(FieldError::required(&path.child("items"), "must be specified"));
    }
    if let Some(items) = items {
        invariants(items, Level::Item, &path.child("items"), errors);
    }
    for (name, child) in properties(schema) {
        invariants(child, Level::Field, &path.child("properties").key(name), errors);
    }
    if let Some(additional) = schema.get("additionalProperties").filter(|value| !value.is_null()) {
        let at = path.child("additionalProperties");
        if level == Level::Root {
            errors.push(FieldError::forbidden(&at, "must not be used at the root"));
        }
        if additional.is_object() {
            invariants(additional, Level::Field, &at, errors);
        }
    }
    extensions(schema, path, errors);
    let pattern = int_or_string_pattern(schema);
    value_validation(schema, pattern == Some(Exempt::AnyOf), pattern == Some(Exempt::AllOf), path, errors);
    types(schema, kind, level, path, errors);
    metadata(schema, level, path, errors);
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    if embedded && !flag(schema, "x-kubernetes-preserve-unknown-fields") && !has_properties(schema) {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(&path.child("properties"), detail));
    }
}

fn extensions(schema: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    if !flag(schema, "x-kubernetes-int-or-string") {
        return;
    }
    for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if flag(schema, name) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(&path.child(name), true, detail));
        }
    }
}

fn types(schema: &Value, kind: &str, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    let at = path.child("type");
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let untyped = flag(schema, "x-kubernetes-int-or-string") || flag(schema, "x-kubernetes-preserve-unknown-fields");
    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if kind.is_empty() {
            FieldError::required(&at, detail)
        } else {
            FieldError::invalid(&at, kind, detail)
        });
    } else if kind.is_empty() && !untyped {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&at, detail));
    }
    if embedded && schema.get("additionalProperties").is_some_and(|value| !value.is_null()) {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(&path.child("additionalProperties"), detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(&at, kind, "must be object at the root"));
    }
}

/// `metadata` may only restrict the name; `apiVersion` and `kind` are strings.
fn metadata(schema: &Value, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    let whole = level == Level::Root || flag(schema, "x-kubernetes-embedded-resource");
    let child = |name: &str| schema.get("properties").and_then(|all| all.get(name));
    for name in ["kind", "apiVersion"] {
        if let Some(node) = child(name).filter(|_| whole) {
            let kind = text(node, "type").unwrap_or_default();
            if kind != "string" {
                let at = path.child("properties").key(name).child("type");
                errors.push(FieldError::invalid(&at, kind, "must be string"));
            }
        }
    }
    let Some(node) = child("metadata") else { return };
    let at = path.child("properties").key("metadata");
    let kind = text(node, "type").unwrap_or_default();
    if whole && kind != "object" {
        errors.push(FieldError::invalid(&at.child("type"), kind, "must be object"));
    }
    if level == Level::Root && !only_names(node) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(&at, detail));
    }
}

fn only_names(node: &Value) -> bool {
    let names = properties(node).all(|(name, _)| name == "name" || name == "generateName");
    let rest = node.as_object().into_iter().flatten().all(|(key, value)| {
        matches!(key.as_str(), "type" | "properties" | "default") || *value == Value::Bool(false) || value.is_null()
    });
    names && rest
}

#[derive(PartialEq, Eq)]
enum Exempt {
    AnyOf,
    AllOf,
}

/// The two ways int-or-string may be spelled out with types inside `anyOf`.
fn int_or_string_pattern(schema: &Value) -> Option<Exempt> {
    let both = json!([{"type": "integer"}, {"type": "string"}]);
    if schema.get("anyOf") == Some(&both) {
        return Some(Exempt::AnyOf);
    }
    let first = schema.get("allOf").and_then(|all| all.get(0)).and_then(|first| first.get("anyOf"));
    (first == Some(&both)).then_some(Exempt::AllOf)
}

fn value_validation(schema: &Value, skip_any: bool, skip_first: bool, path: &Path, errors: &mut Vec<FieldError>) {
    let list = |key: &str| schema.get(key).and_then(Value::as_array).into_iter().flatten().enumerate();
    if !skip_any {
        for (at, child) in list("anyOf") {
            nested(child, false, &path.child("anyOf").index(at), errors);
        }
    }
    for (at, child) in list("allOf") {
        nested(child, skip_first && at == 0, &path.child("allOf").index(at), errors);
    }
    for (at, child) in list("oneOf") {
        nested(child, false, &path.child("oneOf").index(at), errors);
    }
    if let Some(not) = schema.get("not").filter(|not| not.is_object()) {
        nested(not, false, &path.child("not"), errors);
    }
    if let Some(pattern) = text(schema, "pattern").filter(|pattern| !pattern.is_empty())
        && let Err(why) = rules::compile(pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid(&path.child("pattern"), pattern, detail));
    }
}

fn nested(schema: &Value, skip_any: bool, path: &Path, errors: &mut Vec<FieldError>) {
    value_validation(schema, skip_any, false, path, errors);
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        nested(items, false, &path.child("items"), errors);
    }
    for (name, child) in properties(schema) {
        nested(child, false, &path.child("properties").key(name), errors);
    }
    let mut forbid = |name: &str, set: bool, what: &str| {
        if set {
            errors.push(FieldError::forbidden(&path.child(name), format!("must be {what} to be structural")));
        }
    };
    let is_text = |key: &str| text(schema, key).is_some_and(|value| !value.is_empty());
    let is_set = |key: &str| schema.get(key).is_some_and(|value| !value.is_null());
    let is_list = |key: &str| schema.get(key).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    forbid("type", is_text("type"), "empty");
    forbid("additionalProperties", is_set("additionalProperties"), "undefined");
    forbid("default", is_set("default"), "undefined");
    forbid("title", is_text("title"), "empty");
    forbid("description", is_text("description"), "empty");
    forbid("nullable", flag(schema, "nullable"), "false");
    for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"]
    {
        forbid(name, flag(schema, name), "false");
    }
    forbid("x-kubernetes-list-map-keys", is_list("x-kubernetes-list-map-keys"), "empty");
    forbid("x-kubernetes-list-type", is_set("x-kubernetes-list-type"), "undefined");
    forbid("x-kubernetes-map-type", is_set("x-kubernetes-map-type"), "undefined");
    forbid("x-kubernetes-validations", is_list("x-kubernetes-validations"), "empty");
    if properties(schema).any(|(name, _)| name == "metadata") {
        let detail = "must not be specified in a nested context";
        errors.push(FieldError::forbidden(&path.child("properties").key("metadata"), detail));
    }
}

/// What `allOf` and its kin say of a field at the root must be about a field the root declares.
fn completeness(value: &Value, spine: Option<&Value>, at: &Path, from: &Path, errors: &mut Vec<FieldError>) {
    for key in ["allOf", "anyOf", "oneOf"] {
        for (index, child) in value.get(key).and_then(Value::as_array).into_iter().flatten().enumerate() {
            nested_completeness(child, spine, at, &from.child(key).index(index), errors);
        }
    }
    if let Some(not) = value.get("not").filter(|not| not.is_object()) {
        nested_completeness(not, spine, at, &from.child("not"), errors);
    }
}

fn nested_completeness(value: &Value, spine: Option<&Value>, at: &Path, from: &Path, errors: &mut Vec<FieldError>) {
    let Some(spine) = spine else {
        errors.push(FieldError::required(at, format!("because it is defined in {from}")));
        return;
    };
    completeness(value, Some(spine), at, from, errors);
    if let Some(items) = value.get("items").filter(|items| items.is_object()) {
        let below = spine.get("items").filter(|items| items.is_object());
        nested_completeness(items, below, &at.child("items"), &from.child("items"), errors);
    }
    for (name, child) in properties(value) {
        let below = spine.get("properties").and_then(|all| all.get(name));
        let path = |path: &Path| path.child("properties").key(name);
        nested_completeness(child, below, &path(at), &path(from), errors);
    }
}
