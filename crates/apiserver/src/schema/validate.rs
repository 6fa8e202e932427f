//! Validation of custom resources, with the messages of kube-apiserver.

mod embedded;
mod junctors;
mod lists;
mod scalars;

use serde_json::{Map, Value};

use super::cel;
use super::custom::META_FIELDS;
use super::formats;
use super::node::{ListType, Schema, Type};
use super::rules::Rules;
use crate::field::{FieldError, Path, Problem};

pub(crate) use lists::correlate;

/// What is wrong with a custom resource. On an update (`old` given), what was wrong before and has not changed is let be.
pub(crate) fn validate(schema: &Schema, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = openapi(schema, value, old, "");
    errors.extend(embedded::validate(schema, value));
    errors.extend(repeated(schema, value, old));
    rules(schema, value, old, errors)
}

/// Items that repeat where none may; if some already did, that is let be.
fn repeated(schema: &Schema, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let found = lists::validate(schema, value);
    let before = found.is_empty() || old.is_none_or(|old| lists::validate(schema, old).is_empty());
    if before { found } else { Vec::new() }
}

/// What is wrong with the status of a custom resource, where only the status is being written.
pub(crate) fn validate_status(schema: &Schema, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let (Some(status), Some(link)) = (value.get("status"), schema.properties.get("status")) {
        errors = openapi(&link.get(), status, old.and_then(|old| old.get("status")), "status");
    }
    errors.extend(repeated(schema, value, old));
    rules(schema, value, old, errors)
}

/// Only the keywords of `OpenAPI`, below `base`; used for defaults too.
pub(crate) fn openapi(schema: &Schema, value: &Value, old: Option<&Value>, base: &str) -> Vec<FieldError> {
    let found = node(schema, value, old, "");
    found.errors.into_iter().map(|flaw| flaw.into_field_error(base)).collect()
}

/// Expression rules run only on an object whose shape they can rely on.
fn rules(schema: &Schema, value: &Value, old: Option<&Value>, mut errors: Vec<FieldError>) -> Vec<FieldError> {
    let blocking = errors.iter().any(|error| {
        matches!(
            error.problem,
            Problem::NotSupported(_)
                | Problem::Required
                | Problem::TooLong(_)
                | Problem::TooMany(..)
                | Problem::TypeInvalid(_)
        )
    });
    if !cel::has_rules(schema) {
        return errors;
    }
    if blocking {
        let detail = "some validation rules were not checked because the object was invalid; correct the existing \
                      errors to complete validation";
        errors.push(FieldError::invalid(&Path::new("<nil>"), Value::Null, detail));
    } else {
        errors.extend(cel::validate(schema, value, old));
    }
    errors
}

/// The outcome of checking one node: its errors and how many checks passed, by which the best alternative is chosen.
#[derive(Default)]
struct Found {
    errors: Vec<Flaw>,
    passed: usize,
}

/// One error before it is put at its final path.
struct Flaw {
    /// Path below the validated value; `None` for errors Kubernetes reports without one.
    path: Option<String>,
    /// What makes it the same as another: errors are reported once.
    text: String,
    problem: Problem,
    supported: Vec<String>,
}

impl Found {
    fn add(&mut self, flaw: Flaw) {
        if !self.errors.iter().any(|known| known.text == flaw.text) {
            self.errors.push(flaw);
        }
    }

    fn merge(&mut self, other: Found) {
        self.passed += other.passed;
        for flaw in other.errors {
            self.add(flaw);
        }
    }

    fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }
}

impl Flaw {
    fn new(path: &str, problem: Problem, text: String) -> Self {
        Self { path: Some(path.to_owned()), text, problem, supported: Vec::new() }
    }

    fn invalid(path: &str, value: impl Into<Value>, rest: &str) -> Self {
        Self::new(path, Problem::Invalid(value.into()), format!("{path} in body {rest}"))
    }

    fn composite(text: String) -> Self {
        Self { path: None, text, problem: Problem::Invalid("".into()), supported: Vec::new() }
    }

    fn into_field_error(self, base: &str) -> FieldError {
        let mut path = Path::new(base);
        if let Some(below) = self.path.as_deref().map(|path| path.trim_start_matches('.')).filter(|p| !p.is_empty()) {
            path = path.child(below);
        }
        if path.as_str().is_empty() {
            path = Path::new("<nil>");
        }
        match self.problem {
            Problem::Required => FieldError::required(&path, ""),
            Problem::TooLong(limit) => FieldError::too_long(&path, limit),
            Problem::TooMany(actual, limit) => FieldError::too_many(&path, actual, limit),
            Problem::NotSupported(value) => {
                let supported = self.supported.iter().map(String::as_str).collect::<Vec<_>>();
                FieldError::not_supported(&path, value, &supported)
            }
            problem => FieldError { field: path.as_str().to_owned(), problem, detail: self.text },
        }
    }
}

fn node(schema: &Schema, value: &Value, old: Option<&Value>, path: &str) -> Found {
    let found = checks(schema, value, old, path);
    if !found.is_valid() && old == Some(value) {
        return Found { errors: Vec::new(), passed: found.passed };
    }
    found
}

fn checks(schema: &Schema, value: &Value, old: Option<&Value>, path: &str) -> Found {
    let mut found = Found::default();
    let typed = schema.kind.is_some() || schema.int_or_string || format_of(schema).is_some();
    if value.is_null() {
        found.merge(scalars::type_check(schema, value, path));
        found.merge(scalars::enumeration(schema, value, path));
        return found;
    }
    if typed {
        found.merge(scalars::type_check(schema, value, path));
        found.passed += 1;
    }
    let rules = schema.rules.as_deref();
    found.merge(junctors::check(rules, value, old, path));
    found.passed += 1;
    match value {
        Value::String(text) => {
            found.merge(scalars::string(rules, text, path));
            found.passed += 1;
            if let Some(format) = format_of(schema) {
                found.merge(scalars::format(format, text, path));
                found.passed += 1;
            }
        }
        Value::Number(number) => {
            found.merge(scalars::number(rules, number, path));
            found.passed += 1;
        }
        Value::Array(items) => {
            found.merge(array(schema, rules, items, old, path));
            found.passed += 1;
        }
        _ => {}
    }
    found.merge(scalars::enumeration(schema, value, path));
    found.passed += 1;
    if let Value::Object(map) = value {
        found.merge(object(schema, rules, map, old, path));
        found.passed += 1;
    }
    found.passed += 1;
    found
}

fn format_of(schema: &Schema) -> Option<&str> {
    schema.format.as_deref().filter(|format| formats::is_known(format))
}

fn array(schema: &Schema, rules: Option<&Rules>, items: &[Value], old: Option<&Value>, path: &str) -> Found {
    let mut found = Found::default();
    let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(link) = &schema.items {
        let item_schema = link.get();
        let before = old.and_then(Value::as_array);
        let correlated = match (&schema.list_type, before) {
            (ListType::Map(keys), Some(before)) => Some((keys, before)),
            _ => None,
        };
        for (at, item) in items.iter().enumerate() {
            let old_item = correlated.and_then(|(keys, before)| correlate(&item_schema, keys, item, before));
            found.merge(node(&item_schema, item, old_item, &format!("{path}[{at}]")));
        }
    }
    if let Some(rules) = rules {
        if let Some(min) = rules.min_items.filter(|min| size < *min) {
            found.add(Flaw::invalid(path, size, &format!("should have at least {min} items")));
        }
        if let Some(max) = rules.max_items.filter(|max| size > *max) {
            let text = format!("{path} in body should have at most {max} items");
            found.add(Flaw::new(path, Problem::TooMany(size, max), text));
        }
        if rules.unique_items && lists::has_duplicates(items) {
            found.add(Flaw::invalid(path, "", "shouldn't contain duplicates"));
        }
    }
    found.passed += 1;
    found
}

fn object(schema: &Schema, rules: Option<&Rules>, map: &Map<String, Value>, old: Option<&Value>, path: &str) -> Found {
    let mut found = Found::default();
    let size = i64::try_from(map.len()).unwrap_or(i64::MAX);
    if let Some(rules) = rules {
        if let Some(min) = rules.min_properties.filter(|min| size < *min) {
            found.add(Flaw::invalid(path, size, &format!("should have at least {min} properties")));
        }
        if let Some(max) = rules.max_properties.filter(|max| size > *max) {
            let text = format!("{path} in body should have at most {max} properties");
            found.add(Flaw::new(path, Problem::TooMany(size, max), text));
        }
    }
    let closed = rules.is_some_and(|rules| rules.closed);
    for (key, child) in map {
        let below = || if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let old_child = old.and_then(|old| old.get(key));
        if schema.embedded_resource && META_FIELDS.contains(&key.as_str()) {
            if let Some(declared) = rules.and_then(|rules| rules.declared.get(key)) {
                let old_child = if path.is_empty() && key != "metadata" { None } else { old_child };
                found.merge(node(declared, child, old_child, &below()));
            }
        } else if let Some(link) = schema.properties.get(key) {
            found.merge(node(&link.get(), child, old_child, &below()));
        } else if closed {
            let text = format!("{path}.{key} in body is a forbidden property");
            found.add(Flaw::new(path, Problem::Invalid(key.as_str().into()), text));
        } else if let Some(link) = &schema.additional {
            found.merge(node(&link.get(), child, old_child, &format!("{path}.{key}")));
        }
    }
    for name in schema.required.iter().filter(|name| !map.contains_key(name.as_str())) {
        let at = format!("{path}.{name}");
        found.add(Flaw::new(&at, Problem::Required, format!("{at} in body is required")));
    }
    found
}

/// The name of a type in `OpenAPI`.
pub(crate) fn type_name(kind: Type) -> &'static str {
    match kind {
        Type::Object => "object",
        Type::Array => "array",
        Type::String => "string",
        Type::Integer => "integer",
        Type::Number => "number",
        Type::Boolean => "boolean",
    }
}
