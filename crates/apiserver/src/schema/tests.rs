//! What kube-apiserver 1.34 answered for the same resource and the same definition.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

fn widget() -> Arc<Schema> {
    let crd: Value = serde_json::from_str(include_str!("testdata/widget.json")).unwrap();
    custom(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
}

fn object(spec: &Value) -> Value {
    json!({"apiVersion": "schema.test.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec})
}

fn admit(spec: &Value) -> (Value, Vec<String>) {
    let schema = widget();
    let mut object = object(spec);
    prune(&schema, &mut object);
    default(&schema, &mut object);
    let errors = validate(&schema, &object, None).iter().map(ToString::to_string).collect();
    (object, errors)
}

#[test]
fn errors_are_worded_as_kubernetes_words_them() {
    let check = |spec: Value, expected: &[&str]| {
        let (_, mut errors) = admit(&spec);
        let mut expected = expected.to_vec();
        errors.sort();
        expected.sort_unstable();
        assert_eq!(errors, expected, "{spec}");
    };
    let with = |key: &str, value: Value| json!({"need": "x", key: value});
    check(
        json!({"count": "a"}),
        &[
            r#"spec.count: Invalid value: "string": spec.count in body must be of type integer: "string""#,
            "spec.need: Required value",
        ],
    );
    check(
        with("count", json!(0)),
        &["spec.count: Invalid value: 0: spec.count in body should be greater than or equal to 1"],
    );
    check(
        with("count", json!(11)),
        &["spec.count: Invalid value: 11: spec.count in body should be less than or equal to 10"],
    );
    check(with("count", json!(1.0)), &[]);
    check(
        with("ratio", json!(0.5)),
        &["spec.ratio: Invalid value: 0.5: spec.ratio in body should be greater than 0.5"],
    );
    check(
        with("ratio", json!(2)),
        &["spec.ratio: Invalid value: 2: spec.ratio in body should be less than or equal to 1"],
    );
    check(with("even", json!(3)), &["spec.even: Invalid value: 3: spec.even in body should be a multiple of 2"]);
    check(
        with("even", json!(2.5)),
        &[
            r#"spec.even: Invalid value: "number": spec.even in body must be of type integer: "number""#,
            "spec.even: Invalid value: 2.5: spec.even in body should be a multiple of 2",
        ],
    );
    check(
        with("word", json!("a")),
        &[r#"spec.word: Invalid value: "a": spec.word in body should be at least 2 chars long"#],
    );
    check(with("word", json!("aaaaaa")), &["spec.word: Too long: may not be more than 4 bytes"]);
    check(
        with("word", json!("AAA")),
        &[r#"spec.word: Invalid value: "AAA": spec.word in body should match '^[a-z]*$'"#],
    );
    check(
        with("when", json!("abc")),
        &[r#"spec.when: Invalid value: "abc": spec.when in body must be of type date-time: "abc""#],
    );
    check(
        with("color", json!("green")),
        &[r#"spec.color: Unsupported value: "green": supported values: "red", "blue""#],
    );
    check(with("num", json!(3)), &[r#"spec.num: Unsupported value: 3: supported values: "1", "2""#]);
    check(
        with("flag", json!("a")),
        &[r#"spec.flag: Invalid value: "string": spec.flag in body must be of type boolean: "string""#],
    );
    check(json!(5), &[r#"spec: Invalid value: "integer": spec in body must be of type object: "integer""#]);
}

#[test]
fn lists_maps_and_alternatives() {
    let check = |key: &str, value: Value, expected: &[&str]| {
        let (_, errors) = admit(&json!({"need": "x", key: value}));
        assert_eq!(errors, expected, "{key}={value}");
    };
    check("list", json!([]), &["spec.list: Invalid value: 0: spec.list in body should have at least 1 items"]);
    check("list", json!(["a", "b", "c"]), &["spec.list: Too many: 3: must have at most 2 items"]);
    check(
        "list",
        json!([1]),
        &[r#"spec.list[0]: Invalid value: "integer": spec.list[0] in body must be of type string: "integer""#],
    );
    check("set", json!(["a", "b", "a", "a"]), &[r#"spec.set[2]: Duplicate value: "a""#]);
    check("maplist", json!([{"a": "1"}, {"a": "1"}]), &[r#"spec.maplist[1]: Duplicate value: {"a":"1","b":"x"}"#]);
    check("onekey", json!([{"name": "1"}, {"name": "1"}]), &[r#"spec.onekey[1]: Duplicate value: {"name":"1"}"#]);
    check("map", json!({}), &["spec.map: Invalid value: 0: spec.map in body should have at least 1 properties"]);
    check("map", json!({"a": 1, "b": 2, "c": 3}), &["spec.map: Too many: 3: must have at most 2 items"]);
    check(
        "map",
        json!({"a": "1"}),
        &[r#"spec.map.a: Invalid value: "string": spec.map.a in body must be of type integer: "string""#],
    );
    check(
        "ios",
        json!(true),
        &[r#"spec.ios: Invalid value: "boolean": spec.ios in body must be of type integer,string: "boolean""#],
    );
    check("need", json!(null), &["spec.need: Required value"]);
    check(
        "any",
        json!({}),
        &[
            r#"<nil>: Invalid value: "": "spec.any" must validate one and only one schema (oneOf). Found none valid"#,
            "spec.any.a: Required value",
        ],
    );
    check(
        "any",
        json!({"a": "1", "b": "1"}),
        &[
            r#"<nil>: Invalid value: "": "spec.any" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
        ],
    );
    check(
        "anyof",
        json!("b"),
        &[
            r#"<nil>: Invalid value: "": "spec.anyof" must validate at least one schema (anyOf)"#,
            r#"spec.anyof: Invalid value: "b": spec.anyof in body should match '^a'"#,
        ],
    );
    check(
        "allof",
        json!("b"),
        &[
            r#"spec.allof: Invalid value: "b": spec.allof in body should match '^a'"#,
            r#"spec.allof: Invalid value: "b": spec.allof in body should be at least 3 chars long"#,
            r#"<nil>: Invalid value: "": "spec.allof" must validate all the schemas (allOf). None validated"#,
        ],
    );
    check("not", json!("a"), &[r#"<nil>: Invalid value: "": "spec.not" must not validate the schema (not)"#]);
    check("emb", json!({}), &["spec.emb.apiVersion: Required value", "spec.emb.kind: Required value"]);
}

#[test]
fn defaults_and_nulls() {
    let (object, errors) = admit(&json!({"need": "x", "nul": null, "flag": null, "def": null}));
    assert_eq!(object["spec"], json!({"need": "x", "nul": null, "def": "d", "defobj": {"x": 3}}));
    assert_eq!(errors, Vec::<String>::new());
}

#[test]
fn unknown_fields_are_removed_and_named() {
    let mut value = object(&json!({
        "need": "x", "zz": 1, "maplist": [{"a": "1", "q": 2}],
        "free": {"u": 1, "known": {"x": 1, "y": 2}},
        "emb": {"apiVersion": "v1", "kind": "A", "more": {"b": 1}, "metadata": {"name": "ab", "foo": 1}},
    }));
    value["metadata"]["foo"] = json!(1);
    value["top"] = json!({"a": [1]});
    let unknown = prune(&widget(), &mut value);
    assert_eq!(
        unknown,
        ["metadata.foo", "spec.emb.metadata.foo", "spec.free.known.y", "spec.maplist[0].q", "spec.zz", "top"]
    );
    assert_eq!(value["spec"]["free"], json!({"u": 1, "known": {"x": 1}}));
    assert_eq!(value["spec"]["emb"]["more"], json!({"b": 1}));
    assert_eq!(prune(&widget(), &mut value), Vec::<String>::new());
}

#[test]
fn what_was_wrong_before_and_is_unchanged_is_let_be() {
    let schema = widget();
    let old = object(&json!({"need": "x", "count": 0, "onekey": [{"name": "a", "x": 1}]}));
    let same = object(&json!({"need": "y", "count": 0}));
    assert_eq!(validate(&schema, &same, Some(&old)), []);
    let changed = object(&json!({"need": "y", "count": 11}));
    assert_eq!(validate(&schema, &changed, Some(&old)).len(), 1);
    let twice = object(&json!({"need": "x", "set": ["a", "a"]}));
    assert_eq!(validate(&schema, &twice, Some(&old)).len(), 1);
    let thrice = object(&json!({"need": "x", "set": ["a", "a", "b", "b"]}));
    assert_eq!(validate(&schema, &thrice, Some(&twice)), []);
}

#[test]
fn status_errors_are_named_from_the_status() {
    let value = json!({"status": {"n": 6}});
    let errors = validate_status(&widget(), &value, None);
    assert_eq!(
        errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["status.n: Invalid value: 6: n in body should be less than or equal to 5"]
    );
}

#[test]
fn metadata_of_the_wrong_shape_is_a_bad_request() {
    let check = |value: Value, expected: &str| {
        assert_eq!(custom_error(&widget(), &value).unwrap_or_default(), expected);
    };
    check(
        json!({"metadata": {"labels": 5}}),
        "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type map[string]string",
    );
    check(
        json!({"spec": {"emb": {"metadata": {"name": 5}}}}),
        "spec.emb.metadata: Invalid value: {\"name\":5}: json: cannot unmarshal number into Go struct field \
         ObjectMeta.name of type string",
    );
}

#[test]
fn built_in_kinds_know_how_they_merge() {
    let pod = builtin("io.k8s.api.core.v1.Pod").unwrap();
    let spec = pod.field("spec").unwrap();
    let containers = spec.field("containers").unwrap();
    assert_eq!(containers.list_type, ListType::Map(vec!["name".into()]));
    assert_eq!(containers.patch_merge_key.as_deref(), Some("name"));
    assert!(containers.patch_merge);
    let ports = containers.items.as_ref().unwrap().get().field("ports").unwrap();
    assert_eq!(ports.list_type, ListType::Map(vec!["containerPort".into(), "protocol".into()]));
    let protocol = ports.items.as_ref().unwrap().get().field("protocol").unwrap();
    assert_eq!(protocol.default, Some(json!("TCP")));
    assert!(spec.field("volumes").unwrap().patch_retain_keys);
    assert_eq!(spec.field("nodeSelector").unwrap().map_type, MapType::Atomic);
    for name in builtin::names() {
        assert!(builtin(name).is_some(), "{name}");
    }
}

#[test]
fn a_schema_inside_a_definition_contains_itself() {
    let crd = builtin("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition").unwrap();
    let raw = r#"{"kind": "CustomResourceDefinition", "metadata": {"managedFields": [{"fieldsV1": {"f:a": {}}}]},
        "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {
            "type": "object", "nope": 1, "properties": {"a": {"type": "array", "default": {"x": 1}, "no": 2,
            "items": {"type": "object", "no": 3, "additionalProperties": {"type": "string", "no": 4, "items": {"no": 5, "type": "string"}}}}}}}}]}}"#;
    let mut value: Value = serde_json::from_str(raw).unwrap();
    let unknown = prune(&crd, &mut value);
    assert_eq!(
        unknown,
        ["spec.versions[0].schema.openAPIV3Schema.nope", "spec.versions[0].schema.openAPIV3Schema.properties.a.no"]
    );
    let a = &value["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["a"];
    assert_eq!(
        *a,
        json!({"type": "array", "default": {"x": 1},
            "items": {"type": "object", "additionalProperties": {"type": "string", "items": {"type": "string"}}}})
    );
    assert_eq!(value["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:a": {}}));
}

/// Arbitrary JSON whose field names are often those of the test definition.
pub(crate) fn json() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let names = [
        "spec",
        "status",
        "metadata",
        "name",
        "labels",
        "need",
        "count",
        "ratio",
        "even",
        "word",
        "when",
        "color",
        "num",
        "flag",
        "list",
        "set",
        "maplist",
        "onekey",
        "map",
        "ios",
        "nul",
        "def",
        "defobj",
        "any",
        "free",
        "emb",
        "a",
        "b",
        "n",
        "s",
        "l",
        "t",
        "dur",
        "o",
        "q",
        "k",
        "apiVersion",
        "kind",
        "zz",
    ];
    let key = proptest::sample::select(names.to_vec()).prop_map(str::to_owned);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-3..12_i64).prop_map(Value::from),
        "[a-z]{0,6}".prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(json!("2024-01-01T00:00:00Z")),
    ];
    leaf.prop_recursive(6, 64, 8, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map(key.clone(), inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

mod random {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn pruning_and_defaulting_again_change_nothing(value in json()) {
            let schema = widget();
            let mut once = value;
            prune(&schema, &mut once);
            default(&schema, &mut once);
            let mut twice = once.clone();
            prop_assert_eq!(prune(&schema, &mut twice), Vec::<String>::new());
            default(&schema, &mut twice);
            prop_assert_eq!(once, twice);
        }

        #[test]
        fn validation_never_panics(value in json(), old in json()) {
            let schema = widget();
            let _ = validate(&schema, &value, Some(&old));
            let _ = validate_status(&schema, &value, None);
            let pod = builtin("io.k8s.api.core.v1.Pod").unwrap();
            let _ = decode_error(&pod, &value);
            let _ = custom_error(&schema, &value);
        }

        #[test]
        fn any_json_is_taken_for_a_schema_without_panic(raw in json(), value in json()) {
            let schema = custom(&raw);
            let mut value = value;
            prune(&schema, &mut value);
            default(&schema, &mut value);
            let _ = validate(&schema, &value, None);
        }
    }
}

#[test]
fn deep_nesting_is_walked_safely() {
    let mut value = json!(1);
    for _ in 0..120 {
        value = json!({"free": [value]});
    }
    let mut object = object(&value);
    let schema = widget();
    prune(&schema, &mut object);
    default(&schema, &mut object);
    let _ = validate(&schema, &object, None);
}

#[test]
fn whole_numbers_are_divided_by_whole_factors() {
    let schema = custom(&json!({"type": "object", "properties": {"f": {"type": "number", "multipleOf": 0.5}}}));
    let check = |value: Value, expected: &[&str]| {
        let errors = validate(&schema, &json!({ "f": value }), None);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{value}");
    };
    check(json!(1), &["f: Invalid value: 0: factor MultipleOf declared for f must be positive: 0"]);
    check(json!(0.7), &["f: Invalid value: 0.7: f in body should be a multiple of 0.5"]);
    check(json!(1.5), &[]);
}
