use proptest::prelude::*;
use serde_json::{Value, json};

use super::{OPERATIONS_MAX, apply, unknown_fields};

fn document() -> Value {
    json!({"metadata": {"name": "j", "labels": {"a": "b"}}, "data": {"k": "v"}, "list": ["x", "y"]})
}

/// The rejection that tells nothing.
const REJECTED: &str = "the server rejected our request due to an error in our request";

#[test]
fn patches_apply_as_in_kubernetes() {
    let check = |patch: Value, pointer: &str, expected: Value| {
        let patched = apply(&document(), &patch, true).unwrap_or_else(|failure| panic!("{patch}: {failure}"));
        assert_eq!(patched.pointer(pointer).cloned().unwrap_or_default(), expected, "{patch}");
    };
    check(json!(null), "", document());
    check(json!([]), "", document());
    check(json!([{"op": "add", "path": "/data/x"}]), "/data", json!({"k": "v", "x": null}));
    check(json!([{"op": "replace", "path": "/data/k"}]), "/data", json!({"k": null}));
    check(json!([{"op": "replace", "path": "/data/zz", "value": "1"}]), "/data", json!({"k": "v", "zz": "1"}));
    check(json!([{"op": "test", "path": "/data/q", "value": null}]), "", document());
    check(json!([{"op": "test", "path": "/data/k", "value": "v"}]), "", document());
    check(json!([{"op": "copy", "from": "/data/q", "path": "/data/w"}]), "/data/w", json!(null));
    check(json!([{"op": "copy", "from": "/data/k", "path": "/data/w"}]), "/data", json!({"k": "v", "w": "v"}));
    check(json!([{"op": "move", "from": "/data/k", "path": "/data/w"}]), "/data", json!({"w": "v"}));
    check(json!([{"op": "replace", "path": "/list/-1", "value": "z"}]), "/list", json!(["x", "z"]));
    check(json!([{"op": "add", "path": "/list/-", "value": "z"}]), "/list", json!(["x", "y", "z"]));
    check(json!([{"op": "add", "path": "/list/0", "value": "z"}]), "/list", json!(["z", "x", "y"]));
    check(json!([{"op": "remove", "path": "/list/0"}]), "/list", json!(["y"]));
    check(json!([{"op": "add", "path": "data/x", "value": "1"}]), "/x", json!("1"));
    check(json!([{"op": "add", "path": "/data/a~1b~0c", "value": "1"}]), "/data/a~1b~0c", json!("1"));
    check(json!([{"op": "replace", "path": "", "value": {}}]), "", json!({}));
}

#[test]
fn what_does_not_apply_is_refused_as_in_kubernetes() {
    let check = |patch: Value, checked: bool, code: u16, message: &str| {
        let failure = apply(&document(), &patch, checked).expect_err(&patch.to_string());
        assert_eq!((failure.code, failure.message.as_str()), (code, message), "{patch}");
    };
    for operation in [
        json!({"path": "/data/x", "value": "1"}),
        json!({"op": "zap", "path": "/data/x", "value": "1"}),
        json!({"op": "add", "value": "1"}),
        json!({"op": "test", "path": "/data/k"}),
        json!({"op": "test", "path": "/data/k", "value": "1"}),
        json!({"op": "test", "path": "/data/q", "value": "1"}),
        json!({"op": "test", "path": "/list/7", "value": "1"}),
        json!({"op": "remove", "path": "/data/zz"}),
        json!({"op": "remove", "path": "/zz/yy"}),
        json!({"op": "remove", "path": "/list/9"}),
        json!({"op": "remove", "path": ""}),
        json!({"op": "replace", "path": "/zz/yy", "value": "1"}),
        json!({"op": "replace", "path": "/list/x", "value": "1"}),
        json!({"op": "add", "path": "/zz/yy", "value": "1"}),
        json!({"op": "add", "path": "/list/9", "value": "1"}),
        json!({"op": "add", "path": "", "value": {}}),
        json!({"op": "add", "path": "/data/k/x", "value": "1"}),
        json!({"op": "copy", "from": "/zz/q", "path": "/data/w"}),
        json!({"op": "move", "from": "/data/q", "path": "/data/w"}),
        json!({"op": "move", "path": "/data/w"}),
        json!({"op": "move", "from": "/metadata", "path": "/metadata/x"}),
        json!(null),
    ] {
        check(json!([operation]), true, 422, REJECTED);
    }
    let go = "json: cannot unmarshal";
    check(
        json!({}),
        true,
        400,
        &format!("error decoding patch: {go} object into Go value of type []handlers.jsonPatchOp"),
    );
    check(json!({}), false, 400, &format!("{go} object into Go value of type jsonpatch.Patch"));
    check(
        json!("x"),
        true,
        400,
        &format!("error decoding patch: {go} string into Go value of type []handlers.jsonPatchOp"),
    );
    let many = vec![json!({"op": "test", "path": "/data/k", "value": "v"}); OPERATIONS_MAX + 1];
    let message = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    check(Value::from(many), true, 413, message);
}

#[test]
fn copies_cannot_grow_without_bound() {
    let check = |from: &str, path: &dyn Fn(usize) -> String, times: usize| {
        let copies = (0..times).map(|at| json!({"op": "copy", "from": from, "path": path(at)}));
        let failure = apply(&document(), &copies.collect(), true).unwrap_err();
        assert_eq!(failure.message, REJECTED);
    };
    check("/data", &|at| format!("/data/{at}"), 30);
    check("/data", &|_| "/data/x".to_owned(), 200);
}

#[test]
fn fields_no_operation_has_are_named() {
    let patch = json!([{"op": "add", "path": "/data/x", "value": "1", "foo": 1}]);
    assert_eq!(unknown_fields(&patch), ["json patch unknown field \"[0].foo\""]);
}

proptest! {
    #[test]
    fn any_operation_is_answered(op in "add|remove|replace|move|copy|test", path in "(/(data|k|list|-|-?[0-9]{1,3}|~[01]?)){0,3}", from in "(/(data|k|list|-1|0)){0,3}") {
        let patch = json!([{"op": op, "path": path, "from": from, "value": {"a": 1}}]);
        let _ = apply(&document(), &patch, true);
    }
}
