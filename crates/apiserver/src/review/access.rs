//! May someone do something? May I? What may I do?

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::selector::selector_errors;
use super::{part, strings, text};
use crate::authz::{Action, Rule, RuleBook, User};
use crate::failure::{Failure, Result};
use crate::field::{FieldError, Path};

const GROUP: &str = "authorization.k8s.io";

/// Whether the user may do what the body asks: a `SelfSubjectAccessReview`.
pub(crate) fn self_subject_access_review(book: &RuleBook, user: &User, body: &Value) -> Result<Value> {
    let mut errors = attribute_errors(body);
    errors.extend(selector_errors(attributes(body)));
    errors.extend(metadata_error(body, false));
    refuse(&errors)?;
    Ok(answered("SelfSubjectAccessReview", body, &decision(book, user, body)))
}

/// Whether someone may do what the body asks: a `SubjectAccessReview`.
pub(crate) fn subject_access_review(book: &RuleBook, body: &Value) -> Result<Value> {
    let mut errors = subject_errors(body);
    errors.extend(metadata_error(body, false));
    refuse(&errors)?;
    Ok(answered("SubjectAccessReview", body, &decision(book, &subject(body), body)))
}

/// The same for one namespace, that of the path: a `LocalSubjectAccessReview`.
pub(crate) fn local_subject_access_review(book: &RuleBook, namespace: &str, body: &Value) -> Result<Value> {
    let own = body.get("metadata").map_or("", |metadata| text(metadata, "namespace"));
    if !own.is_empty() && own != namespace {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let mut errors = subject_errors(body);
    errors.extend(metadata_error(body, true));
    let spec = Path::new("spec");
    if let Some(attributes) = spec_part(body, "resourceAttributes") {
        let asked = text(attributes, "namespace");
        if asked != namespace {
            let path = Path::new("spec.resourceAttributes.namespace");
            errors.push(FieldError::invalid(&path, asked, "must match metadata.namespace"));
        }
    }
    if let Some(attributes) = spec_part(body, "nonResourceAttributes") {
        let path = spec.child("nonResourceAttributes");
        errors.push(FieldError::invalid(&path, go_attributes(attributes), "disallowed on this kind of request"));
    }
    refuse(&errors)?;
    let mut answer = answered("LocalSubjectAccessReview", body, &decision(book, &subject(body), body));
    if let Some(metadata) = answer.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("namespace".into(), namespace.into());
    }
    Ok(answer)
}

/// All the user may do in a namespace: a `SelfSubjectRulesReview`.
pub(crate) fn self_subject_rules_review(book: &RuleBook, user: &User, body: &Value) -> Result<Value> {
    let namespace = body.get("spec").map_or("", |spec| text(spec, "namespace"));
    if namespace.is_empty() {
        return Err(Failure::bad_request("no namespace on request"));
    }
    let found = book.rules_for(user, namespace);
    let without = |rule: &Rule, drop: &[&str]| {
        let mut value = rule.to_value();
        if let Some(map) = value.as_object_mut() {
            map.retain(|key, _| !drop.contains(&key.as_str()));
        }
        value
    };
    let resources = found.rules.iter().filter(|rule| !rule.resources.is_empty());
    let paths = found.rules.iter().filter(|rule| !rule.non_resource_urls.is_empty());
    let mut status = json!({
        "resourceRules": resources.map(|rule| without(rule, &["nonResourceURLs"])).collect::<Value>(),
        "nonResourceRules": paths
            .map(|rule| without(rule, &["apiGroups", "resources", "resourceNames"]))
            .collect::<Value>(),
        "incomplete": false,
    });
    if !found.errors.is_empty() {
        status["evaluationError"] = crate::authz::joined(found.errors).into();
    }
    Ok(json!({
        "kind": "SelfSubjectRulesReview",
        "apiVersion": format!("{GROUP}/v1"),
        "metadata": {},
        "spec": {},
        "status": status,
    }))
}

fn decision(book: &RuleBook, user: &User, body: &Value) -> Value {
    let decision = book.decide(user, &action(body));
    let mut status = json!({ "allowed": decision.allowed });
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    status
}

fn answered(kind: &str, body: &Value, status: &Value) -> Value {
    let kept = |key: &str| part(body, key).filter(|part| part.is_object()).cloned().unwrap_or_else(|| json!({}));
    json!({
        "kind": kind,
        "apiVersion": format!("{GROUP}/v1"),
        "metadata": kept("metadata"),
        "spec": kept("spec"),
        "status": status,
    })
}

/// The kind is missing from the message because Kubernetes leaves it out as well.
fn refuse(errors: &[FieldError]) -> Result<()> {
    if errors.is_empty() { Ok(()) } else { Err(Failure::invalid(GROUP, "", "", errors)) }
}

fn spec_part<'a>(body: &'a Value, key: &str) -> Option<&'a Value> {
    part(body.get("spec")?, key)
}

fn attributes(body: &Value) -> &Value {
    spec_part(body, "resourceAttributes").unwrap_or(&Value::Null)
}

fn attribute_errors(body: &Value) -> Vec<FieldError> {
    let spec = Path::new("spec");
    match (spec_part(body, "resourceAttributes"), spec_part(body, "nonResourceAttributes")) {
        (Some(_), Some(paths)) => {
            let why = "cannot be specified in combination with resourceAttributes";
            vec![FieldError::invalid(&spec.child("nonResourceAttributes"), go_attributes(paths), why)]
        }
        (None, None) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            vec![FieldError::invalid(&spec.child("resourceAttributes"), Value::Null, why)]
        }
        _ => Vec::new(),
    }
}

fn subject_errors(body: &Value) -> Vec<FieldError> {
    let mut errors = attribute_errors(body);
    let subject = subject(body);
    if subject.name.is_empty() && subject.groups.is_empty() {
        errors.push(FieldError::invalid(
            &Path::new("spec.user"),
            "",
            "at least one of user or group must be specified",
        ));
    }
    errors.extend(selector_errors(attributes(body)));
    errors
}

fn metadata_error(body: &Value, may_have_namespace: bool) -> Option<FieldError> {
    let metadata = body.get("metadata")?.as_object()?;
    let ignored = |key: &str| key == "managedFields" || (may_have_namespace && key == "namespace");
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    if metadata.iter().all(|(key, value)| ignored(key) || empty(value)) {
        return None;
    }
    let shown = metadata.iter().filter(|(key, _)| *key != "managedFields");
    let shown = shown.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>();
    let why = if may_have_namespace { "must be empty except for namespace" } else { "must be empty" };
    Some(FieldError::invalid(&Path::new("metadata"), Value::Object(shown), why))
}

/// As an error shows them: by the names of Go's fields.
fn go_attributes(attributes: &Value) -> Value {
    json!({ "Path": text(attributes, "path"), "Verb": text(attributes, "verb") })
}

fn subject(body: &Value) -> User {
    let spec = body.get("spec").unwrap_or(&Value::Null);
    let extra = spec.get("extra").and_then(Value::as_object);
    User {
        name: text(spec, "user").to_owned(),
        uid: text(spec, "uid").to_owned(),
        groups: strings(spec.get("groups")),
        extra: extra
            .into_iter()
            .flatten()
            .map(|(key, list)| (key.clone(), strings(Some(list))))
            .collect::<BTreeMap<_, _>>(),
    }
}

fn action(body: &Value) -> Action {
    if let Some(paths) = spec_part(body, "nonResourceAttributes") {
        let (verb, path) = (text(paths, "verb").to_owned(), text(paths, "path").to_owned());
        return Action { verb, path: Some(path), ..Action::default() };
    }
    let asked = attributes(body);
    let field = |key: &str| text(asked, key).to_owned();
    Action {
        verb: field("verb"),
        group: field("group"),
        version: field("version"),
        resource: field("resource"),
        subresource: field("subresource"),
        namespace: field("namespace"),
        name: field("name"),
        path: None,
    }
}
