use serde_json::json;

use super::*;
use crate::metadata;

/// What kube-apiserver 1.34 answered to requests: a new object or a change, and what it stored or what was wrong.
const ANSWERS: &str = include_str!("tests/kubernetes-1.34.jsonl");

#[test]
fn every_kind_has_as_many_cells_as_columns() {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    for kind in kinds() {
        for object in [json!({}), Value::Null, json!({"metadata": {"name": "a"}})] {
            let cells = kind.strategy.cells(&object, now);
            assert_eq!(cells.len(), kind.strategy.columns().len(), "{}", kind.kind);
        }
    }
}

#[test]
fn answers_equal_those_of_kubernetes() {
    let mut failures = Vec::new();
    for line in ANSWERS.lines() {
        let case = serde_json::from_str::<Value>(line).unwrap();
        let (stored, errors) = match case.get("create") {
            Some(object) => create(object, case.get("stored")),
            None => change(&case["old"], &case["patch"]),
        };
        let input = case.get("create").unwrap_or(&case["patch"]);
        match case.get("causes") {
            Some(causes) => {
                let mut expected: Vec<(String, String)> = serde_json::from_value(causes.clone()).unwrap();
                let mut found = errors.iter().map(FieldError::cause).map(|c| (c.field, c.message)).collect::<Vec<_>>();
                expected.iter_mut().chain(&mut found).for_each(|(_, message)| *message = shape(message));
                expected.sort();
                found.sort();
                if found != expected {
                    failures.push(format!("{input}\n  found    {found:?}\n  expected {expected:?}"));
                }
            }
            None if !errors.is_empty() => failures.push(format!("{input}\n  refused: {errors:?}")),
            None if stored != expected_of(&case["stored"]) => {
                failures.push(format!("{input}\n  found    {stored}\n  expected {}", case["stored"]));
            }
            None => {}
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}

/// A message without the listed differences: Go structures as values, and the difference of two specs.
fn shape(message: &str) -> String {
    let message = message.lines().next().unwrap_or_default();
    match (message.find(": {"), message.rfind('}')) {
        (Some(start), Some(end)) if start < end => format!("{}: {{{}", &message[..start], &message[end..]),
        _ => message.to_owned(),
    }
}

/// What was stored without the listed differences: the finalizer a claim gets, and the time a pod was gated.
fn expected_of(stored: &Value) -> Value {
    let mut stored = stored.clone();
    if stored["kind"] == "PersistentVolumeClaim" {
        stored["metadata"].as_object_mut().unwrap().remove("finalizers");
    }
    if let Some(time) = stored.pointer_mut("/status/conditions/0/lastTransitionTime") {
        *time = Value::Null;
    }
    stored
}

fn kind_of(object: &Value) -> &'static Kind {
    let version = object["apiVersion"].as_str().unwrap();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    kinds().iter().find(|kind| kind.group == group && object["kind"] == kind.kind).unwrap()
}

fn create(object: &Value, expected: Option<&Value>) -> (Value, Vec<FieldError>) {
    let kind = kind_of(object);
    let mut object = object.clone();
    kind.strategy.default(&mut object);
    if kind.kind == "Pod" {
        let names = expected.and_then(|pod| pod["spec"]["volumes"].as_array()).into_iter().flatten();
        let token = names.filter_map(|volume| volume["name"].as_str()?.strip_prefix("kube-api-access-")).next();
        pod::admission::service_account(&mut object, &json!({}), token.unwrap_or("x"));
    }
    kind.strategy.prepare_create(&mut object);
    if kind.strategy.has_generation() {
        object["metadata"]["generation"] = 1.into();
    }
    let strategy = kind.strategy;
    let mut errors =
        metadata::validate_create(&object, kind.namespaced, |name, prefix| strategy.name_errors(name, prefix));
    errors.extend(strategy.validate(&object));
    (object, errors)
}

fn change(old: &Value, patch: &Value) -> (Value, Vec<FieldError>) {
    let old = &expected_of(old);
    let kind = kind_of(old);
    let mut object = old.clone();
    json_patch::merge(&mut object, patch);
    kind.strategy.default(&mut object);
    let mut stamped = old.clone();
    for object in [&mut object, &mut stamped] {
        object["metadata"]["resourceVersion"] = "1".into();
    }
    let mut errors;
    if patch.get("status").is_some() {
        kind.strategy.prepare_status_update(&mut object, &stamped);
        errors = metadata::validate_update(&object, &stamped);
        errors.extend(kind.strategy.validate_status_update(&object, &stamped));
    } else {
        kind.strategy.prepare_update(&mut object, &stamped);
        errors = metadata::validate_update(&object, &stamped);
        errors.extend(kind.strategy.validate_update(&object, &stamped));
    }
    for field in ["resourceVersion", "generation"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    (object, errors)
}
