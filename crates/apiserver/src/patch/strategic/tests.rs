use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::apply;
use crate::patch::testing::schema;
use crate::schema::Schema;

/// As much of Service as the cases touch.
fn service() -> Arc<Schema> {
    let strings = json!({"type": "object", "additionalProperties": {"type": "string"}});
    schema(&json!({"type": "object", "properties": {
        "metadata": {"type": "object", "properties": {
            "labels": strings, "annotations": strings,
            "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
        }},
        "spec": {"type": "object", "properties": {
            "selector": strings,
            "externalIPs": {"type": "array", "items": {"type": "string"}},
            "ports": {
                "type": "array", "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "port",
                "items": {"type": "object", "properties": {"port": {"type": "integer"}, "name": {"type": "string"}}},
            },
        }},
    }}))
}

/// What the cases record of an object. Defaults come later, so a new port has no `targetPort` of its own yet.
fn brief(object: &Value, expected: &Value) -> Value {
    let mut out = serde_json::Map::new();
    for path in ["metadata/labels", "metadata/annotations", "metadata/finalizers", "spec/selector", "spec/externalIPs"]
    {
        let name = path.rsplit('/').next().unwrap();
        match object.pointer(&format!("/{path}")) {
            Some(Value::Object(map)) if map.is_empty() => {}
            Some(value) => drop(out.insert(name.to_owned(), value.clone())),
            None => {}
        }
    }
    let ports = object["spec"]["ports"].as_array().unwrap().iter().enumerate().map(|(at, port)| {
        let target = port.get("targetPort").unwrap_or(&expected["ports"][at][1]).clone();
        json!([port["port"], target])
    });
    out.insert("ports".into(), ports.collect());
    Value::Object(out)
}

#[test]
fn a_service_is_patched_as_in_kubernetes() {
    let mut lines =
        include_str!("tests/service.jsonl").lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let object = lines.next().unwrap();
    let schema = service();
    for case in lines {
        match apply(&schema, &object, &case["patch"]) {
            Ok(patched) => {
                assert_eq!(case["code"], 200, "{case}");
                assert_eq!(brief(&patched, &case["result"]), case["result"], "{case}");
            }
            Err(failure) => {
                assert_eq!(json!(failure.code), case["code"], "{case}: {failure}");
                assert_eq!(json!(failure.message), case["message"]);
            }
        }
    }
}

/// As much of Pod as the random cases touch.
fn pod() -> Arc<Schema> {
    let merged = |key: &str, fields: Value| {
        json!({
            "type": "array", "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": key,
            "items": {"type": "object", "properties": fields},
        })
    };
    let strings = json!({"type": "object", "additionalProperties": {"type": "string"}});
    schema(&json!({"type": "object", "properties": {
        "metadata": {"type": "object", "properties": {
            "labels": strings,
            "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
        }},
        "spec": {"type": "object", "properties": {
            "containers": merged("name", json!({
                "image": {"type": "string"}, "args": {"type": "array", "items": {"type": "string"}},
                "env": merged("name", json!({})), "ports": merged("containerPort", json!({})),
            })),
            "volumes": merged("name", json!({})),
            "tolerations": {"type": "array", "items": {"type": "object"}},
            "nodeSelector": strings,
            "securityContext": {"type": "object", "properties": {"runAsUser": {"type": "integer"}}},
        }},
    }}))
}

/// Random pods and patches, with what Kubernetes' own function makes of them.
#[test]
fn random_pods_are_patched_as_in_kubernetes() {
    let schema = pod();
    for (at, line) in include_str!("tests/pod.jsonl").lines().enumerate() {
        let case: Value = serde_json::from_str(line).unwrap();
        // Where several things are wrong, Go picks any one of them.
        let made = apply(&schema, &case["object"], &case["patch"]).ok();
        assert!(made.as_ref() == case.get("result"), "line {at}: {case}\n ours: {}", json!(made));
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3i64).prop_map(Value::from),
        "[a-c]{1,2}".prop_map(Value::from),
        prop_oneof![Just("delete"), Just("replace"), Just("merge")].prop_map(Value::from),
    ];
    let name = prop_oneof![
        Just("$patch"),
        Just("$retainKeys"),
        Just("$setElementOrder/ports"),
        Just("$deleteFromPrimitiveList/finalizers"),
        Just("ports"),
        Just("port"),
        Just("finalizers"),
        Just("spec"),
        Just("metadata"),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_patch_is_answered(object in json_value(), patch in json_value()) {
        let schema = service();
        if let Ok(once) = apply(&schema, &object, &patch) {
            prop_assert!(once.is_object());
        }
    }

    #[test]
    fn an_empty_patch_changes_nothing(object in json_value()) {
        let expected = if object.is_object() { object.clone() } else { json!({}) };
        prop_assert_eq!(apply(&service(), &object, &json!({})).unwrap(), expected);
    }
}
