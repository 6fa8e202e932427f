use serde_json::{Value, json};

use super::{Shape, compare, field_set, merge, reconcile, remove};
use crate::patch::fields::FieldSet;
use crate::patch::testing::schema;

fn shape(json: &Value) -> Shape {
    Shape::root(&schema(&json!({"type": "object", "properties": json})), false)
}

fn list_map() -> Value {
    json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
        "items": {"type": "object", "properties": {"n": {"type": "string"}, "v": {"type": "integer"}}}})
}

#[test]
fn merged_lists_keep_both_orders() {
    let shape = shape(&json!({"l": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}}));
    let check = |live: Value, config: Value, expected: Value| {
        let merged = merge::merge(&shape, &json!({"l": live}), &json!({"l": config})).unwrap();
        assert_eq!(merged["l"], expected);
    };
    check(json!(["a", "b", "c"]), json!(["c", "a"]), json!(["b", "c", "a"]));
    check(json!(["a", "b", "c", "d"]), json!(["d"]), json!(["a", "b", "c", "d"]));
    check(json!(["a", "d"]), json!(["b", "c"]), json!(["a", "d", "b", "c"]));
    check(json!(["a", "c"]), json!(["b", "c"]), json!(["a", "b", "c"]));
    check(json!(["a", "a", "b"]), json!(["a"]), json!(["a", "b"]));
}

#[test]
fn duplicates_that_are_stored_are_one_value() {
    let shape = shape(&json!({"l": list_map()}));
    let twice = json!({"l": [{"n": "a", "v": 1}, {"n": "a", "v": 2}]});
    let once = json!({"l": [{"n": "a", "v": 1}]});
    let set = |json: Value| FieldSet::from_json(&json).unwrap();
    assert_eq!(field_set::field_set(&shape, &twice), set(json!({"f:l": {"k:{\"n\":\"a\"}": {}}})));
    let change = compare::compare(&shape, &twice, &once).unwrap();
    assert_eq!(change.removed, set(json!({"f:l": {"k:{\"n\":\"a\"}": {}}})));
    assert_eq!(change.added, set(json!({"f:l": {"k:{\"n\":\"a\"}": {".": {}, "f:n": {}, "f:v": {}}}})));
}

#[test]
fn removing_everything_leaves_null() {
    let shape = shape(&json!({"l": list_map(), "s": {"type": "string"}}));
    let object = json!({"l": [{"n": "a", "v": 1}, {"n": "b"}], "s": "x"});
    let check = |gone: Value, expected: Value| {
        assert_eq!(remove::remove(&shape, &object, &FieldSet::from_json(&gone).unwrap()), expected);
    };
    check(json!({"f:l": {"k:{\"n\":\"a\"}": {}}}), json!({"l": [{"n": "b"}], "s": "x"}));
    check(json!({"f:l": {"k:{\"n\":\"a\"}": {}, "k:{\"n\":\"b\"}": {}}}), json!({"l": null, "s": "x"}));
    check(json!({"f:l": {"k:{\"n\":\"a\"}": {"f:v": {}}}}), json!({"l": [{"n": "a"}, {"n": "b"}], "s": "x"}));
}

#[test]
fn owners_of_parts_own_what_became_one_value() {
    let whole = json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"x": {"type": "string"}}});
    let shape = shape(&json!({"w": whole, "l": {"type": "array", "items": {"type": "string"}}}));
    let set = |json: Value| FieldSet::from_json(&json).unwrap();
    let before = set(json!({"f:w": {"f:x": {}}, "f:l": {"v:\"a\"": {}}}));
    assert_eq!(reconcile::reconcile(&shape, &before), set(json!({"f:w": {}, "f:l": {}})));
}
