use proptest::prelude::*;
use serde_json::{Value, json};

use super::apply;

#[test]
fn patches_merge() {
    let check = |document: Value, patch: Value, expected: Value| {
        assert_eq!(apply(&document, &patch, true).unwrap(), expected, "{document} and {patch}");
    };
    check(json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"}));
    check(json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"}));
    check(json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"}));
    check(json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"}));
    check(json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]}));
    check(json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}}));
    check(json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]}));
    check(json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1}));
    check(json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}}));
    check(json!({}), json!({"a": [{"b": null}, null]}), json!({"a": [{}, null]}));
}

#[test]
fn what_is_no_patch_is_refused() {
    let check = |patch: Value, checked: bool, code: u16, message: &str| {
        let failure = apply(&json!({}), &patch, checked).unwrap_err();
        assert_eq!((failure.code, failure.message.as_str()), (code, message));
    };
    let go = "error decoding patch: json: cannot unmarshal";
    check(json!([]), true, 400, &format!("{go} array into Go value of type map[string]interface {{}}"));
    check(json!("x"), true, 400, &format!("{go} string into Go value of type map[string]interface {{}}"));
    check(json!(null), true, 400, "Invalid JSON Patch");
    check(json!(null), false, 400, "Invalid JSON Patch");
    check(json!("x"), false, 400, "Invalid JSON Patch");
    let long = " \"\" is invalid: patch: Invalid value: \"[1]\": couldn't get version/kind; json parse error: json: \
                cannot unmarshal array into Go value of type struct { APIVersion string \
                \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
    check(json!([1]), false, 422, long);
}

#[test]
fn what_a_patch_breaks_is_shown() {
    let failure = crate::patch::undecodable_strategic(
        &json!({"metadata": {"finalizers": "x"}}),
        "cannot restore slice from string",
    );
    let message =
        " \"\" is invalid: patch: Invalid value: \"map[metadata:map[finalizers:x]]\": cannot restore slice from string";
    assert_eq!((failure.code, failure.message.as_str()), (422, message));
    let details = failure.to_status()["details"].clone();
    assert_eq!(details.as_object().unwrap().keys().collect::<Vec<_>>(), ["causes"]);
}

fn object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), (0..3).prop_map(Value::from)];
    let value = leaf.prop_recursive(3, 16, 3, |inner| {
        prop::collection::btree_map("[a-c]", inner, 0..3).prop_map(|map| Value::Object(map.into_iter().collect()))
    });
    prop::collection::btree_map("[a-c]", value, 0..4).prop_map(|map| Value::Object(map.into_iter().collect()))
}

proptest! {
    #[test]
    fn merging_twice_is_merging_once(document in object(), patch in object()) {
        let once = apply(&document, &patch, true).unwrap();
        prop_assert_eq!(apply(&once, &patch, true).unwrap(), once);
    }
}
