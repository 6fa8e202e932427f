use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Map, json};

use super::{Kind, Value, kinds, pod, service};
use crate::field::FieldError;
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
    let start = [": {", ": [{"].iter().filter_map(|start| message.find(start)).min();
    match (start, message.rfind('}')) {
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
        let mut names = expected.and_then(|pod| pod["spec"]["volumes"].as_array()).into_iter().flatten();
        let token = names.find_map(|volume| volume["name"].as_str()?.strip_prefix("kube-api-access-"));
        pod::admission::service_account(&mut object, &json!({}), token.unwrap_or("x"));
    }
    kind.strategy.prepare_create(&mut object);
    if kind.strategy.has_generation() {
        object["metadata"]["generation"] = 1.into();
    }
    if let Err(errors) = assign(&mut object, None, expected) {
        return (object, errors);
    }
    let strategy = kind.strategy;
    let mut errors =
        metadata::validate_create(&object, kind.namespaced, |name, prefix| strategy.name_errors(name, prefix));
    errors.extend(strategy.validate(&object));
    (object, errors)
}

/// Gives a service addresses and ports, those that Kubernetes gave where it gave some.
fn assign(object: &mut Value, old: Option<&Value>, expected: Option<&Value>) -> Result<(), Vec<FieldError>> {
    if object["kind"] != "Service" {
        return Ok(());
    }
    let range = "10.98.0.0/24".parse().unwrap();
    let pool = service::assign::Pool { range, addresses: &BTreeSet::new(), ports: &BTreeSet::new(), start: 3 };
    match service::assign::assign(object, old, &pool) {
        Err(service::assign::Error::Invalid(errors)) => return Err(errors),
        other => assert_eq!(other, Ok(())),
    }
    let Some(expected) = expected else { return Ok(()) };
    for pointer in ["/spec/clusterIP", "/spec/clusterIPs", "/spec/ports/0/nodePort", "/spec/healthCheckNodePort"] {
        if let (Some(ours), Some(theirs)) = (object.pointer_mut(pointer), expected.pointer(pointer)) {
            *ours = theirs.clone();
        }
    }
    Ok(())
}

fn change(old: &Value, patch: &Value) -> (Value, Vec<FieldError>) {
    let old = &expected_of(old);
    let kind = kind_of(old);
    let mut object = old.clone();
    object = crate::patch::merge::apply(&object, patch, true).unwrap();
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
        if let Err(errors) = assign(&mut object, Some(&stamped), None) {
            return (object, errors);
        }
        errors = metadata::validate_update(&object, &stamped);
        errors.extend(kind.strategy.validate_update(&object, &stamped));
    }
    for field in ["resourceVersion", "generation"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    (object, errors)
}

/// Names of fields that many rules look at, so that random objects reach them.
const FIELDS: [&str; 40] = [
    "metadata",
    "spec",
    "status",
    "name",
    "namespace",
    "labels",
    "annotations",
    "data",
    "stringData",
    "type",
    "ports",
    "port",
    "targetPort",
    "protocol",
    "selector",
    "clusterIP",
    "clusterIPs",
    "ipFamilies",
    "containers",
    "initContainers",
    "env",
    "valueFrom",
    "fieldRef",
    "volumes",
    "volumeMounts",
    "resources",
    "limits",
    "requests",
    "storage",
    "livenessProbe",
    "httpGet",
    "tolerations",
    "conditions",
    "containerStatuses",
    "state",
    "terminated",
    "subjects",
    "rules",
    "roleRef",
    "series",
];

fn any_json() -> impl proptest::strategy::Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-zA-Z0-9:/._-]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 5, |inner| {
        let key = prop::sample::select(FIELDS.to_vec());
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..6).prop_map(|entries| {
                Value::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn no_object_panics(spec in any_json(), status in any_json(), meta in any_json(), other in any_json()) {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut map = Map::new();
        for (key, value) in [("spec", &spec), ("status", &status), ("metadata", &meta), ("data", &other)] {
            map.insert(key.to_owned(), value.clone());
        }
        for key in ["rules", "subjects", "roleRef", "series"] {
            map.insert(key.to_owned(), other.clone());
        }
        let original = Value::Object(map);
        for kind in kinds() {
            let mut object = original.clone();
            kind.strategy.default(&mut object);
            let old = object.clone();
            pod::admission::service_account(&mut object, &other, "x");
            kind.strategy.prepare_create(&mut object);
            let _ = kind.strategy.validate(&object);
            kind.strategy.prepare_update(&mut object, &original);
            kind.strategy.prepare_status_update(&mut object, &original);
            let _ = kind.strategy.validate_update(&object, &old);
            let _ = kind.strategy.validate_status_update(&object, &original);
            let _ = (kind.strategy.cells(&object, now), kind.strategy.selectable(&object));
            let _ = kind.strategy.row_conditions(&object);
        }
    }

    #[test]
    fn defaulting_twice_changes_nothing_more(spec in any_json(), status in any_json()) {
        for kind in kinds() {
            let mut once = json!({"metadata": {"name": "a"}, "spec": spec, "status": status});
            kind.strategy.default(&mut once);
            let mut twice = once.clone();
            kind.strategy.default(&mut twice);
            prop_assert_eq!(&twice, &once, "{}", kind.kind);
        }
    }
}
