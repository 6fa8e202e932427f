use serde_json::json;

use super::*;
use crate::field::FieldError;
use crate::names;

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn check_create(meta: &Value, namespaced: bool, expected: &[&str]) {
    let object = json!({ "metadata": meta });
    assert_eq!(texts(&validate_create(&object, namespaced, names::subdomain_name)), expected, "{object}");
}

fn check_update(new: &Value, old: &Value, expected: &[&str]) {
    let (new, old) = (json!({ "metadata": new }), json!({ "metadata": old }));
    assert_eq!(texts(&validate_update(&new, &old)), expected, "{new}");
}

#[test]
fn new_objects() {
    check_create(&json!({"name": "a", "namespace": "b"}), true, &[]);
    check_create(&json!({"name": "a"}), false, &[]);
    check_create(
        &json!({}),
        true,
        &["metadata.name: Required value: name or generateName is required", "metadata.namespace: Required value"],
    );
    check_create(
        &json!({"name": "a", "namespace": "x"}),
        false,
        &["metadata.namespace: Forbidden: not allowed on this type"],
    );
    check_create(
        &json!({"name": "a", "generation": -1}),
        false,
        &["metadata.generation: Invalid value: -1: must be greater than or equal to 0"],
    );
    check_create(
        &json!({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}),
        false,
        &["metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and \
           foregroundDeletion cannot be both set"],
    );
    check_create(
        &json!({"name": "a", "annotations": {"k": "x".repeat(262_144)}}),
        false,
        &["metadata.annotations: Too long: may not be more than 262144 bytes"],
    );
}

#[test]
fn owners() {
    let owner = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "1", "controller": true});
    check_create(&json!({"name": "a", "ownerReferences": [owner("b")]}), false, &[]);
    let object = json!({"metadata": {"name": "a", "ownerReferences": [owner("b"), owner("c")]}});
    let errors = texts(&validate_create(&object, false, names::subdomain_name));
    assert_eq!(errors.len(), 1);
    assert!(errors[0].ends_with(
        "Only one reference can have Controller set to true. Found \"true\" in references for Pod/b and Pod/c"
    ));
    check_create(
        &json!({"name": "a", "ownerReferences": [{}]}),
        false,
        &[
            "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
            "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
        ],
    );
}

#[test]
fn changes() {
    let old = json!({"name": "a", "uid": "1", "resourceVersion": "5", "generation": 2});
    check_update(&old, &old, &[]);
    check_update(
        &json!({"name": "b", "uid": "2"}),
        &old,
        &[
            "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
            "metadata.generation: Invalid value: 0: must not be decremented",
            "metadata.name: Invalid value: \"b\": field is immutable",
            "metadata.uid: Invalid value: \"2\": field is immutable",
        ],
    );
    let going = json!({"name": "a", "resourceVersion": "5", "finalizers": ["x.io/a"], "deletionTimestamp": "t"});
    let mut added = going.clone();
    added["finalizers"] = json!(["x.io/a", "x.io/b"]);
    check_update(
        &added,
        &going,
        &["metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new \
           finalizers []string{\"x.io/b\"}"],
    );
    let mut revived = going.clone();
    revived["deletionTimestamp"] = Value::Null;
    check_update(&revived, &going, &["metadata.deletionTimestamp: Invalid value: null: field is immutable"]);
}

#[test]
fn odd_shapes_do_not_panic() {
    for object in [json!(null), json!({"metadata": []}), json!({"metadata": {"labels": 3, "finalizers": {"a": 1}}})] {
        let _ = (name(&object), labels(&object), finalizers(&object), owner_references(&object));
        let _ = validate_create(&object, true, names::subdomain_name);
        let _ = validate_update(&object, &object);
    }
}
