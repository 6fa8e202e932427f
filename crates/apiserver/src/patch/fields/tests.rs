use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Element, FieldSet};

fn set(json: &Value) -> FieldSet {
    FieldSet::from_json(json).unwrap()
}

#[test]
fn sets_are_written_as_kubernetes_writes_them() {
    for json in [
        json!({}),
        json!({"f:a": {}}),
        json!({"f:a": {".": {}, "f:b": {}}}),
        json!({"f:list": {"k:{\"name\":\"x\",\"port\":80}": {".": {}, "f:name": {}}, "v:\"a\\u003cb\"": {}, "v:3": {}, "i:2": {}}}),
    ] {
        assert_eq!(set(&json).to_json(), json);
    }
    assert_eq!(set(&json!({"x:unknown": {}, "f:a": {"z:": {}}})).to_json(), json!({"f:a": {}}));
    assert_eq!(set(&json!({"k:{\"b\":1,\"a\":2}": {}})).to_json(), json!({"k:{\"a\":2,\"b\":1}": {}}));
}

#[test]
fn what_is_no_set_is_refused() {
    for json in
        [json!([]), json!({"f": {}}), json!({"fx": {}}), json!({"f:a": 1}), json!({"i:x": {}}), json!({"v:": {}})]
    {
        assert!(FieldSet::from_json(&json).is_err(), "{json}");
    }
}

#[test]
fn paths_read_as_in_conflicts() {
    let json =
        json!({"f:b": {".": {}, "f:c": {}}, "f:a": {"k:{\"n\":\"x\",\"p\":1}": {"f:i": {}}, "v:\"q\"": {}, "i:3": {}}});
    assert_eq!(set(&json).to_string(), ".b\n.a[=\"q\"]\n.a[3]\n.a[n=\"x\",p=1].i\n.b.c");
}

#[test]
fn numbers_are_equal_by_value() {
    let (int, float) = (Element::Value(json!(1)), Element::Value(json!(1.0)));
    assert_eq!(int, float);
    assert!(Element::Value(json!(9)) < Element::Value(json!(10)));
}

fn any_set() -> impl Strategy<Value = FieldSet> {
    let element = prop_oneof![
        "[a-c]".prop_map(Element::Field),
        (0..3i64).prop_map(Element::Index),
        "[a-b]".prop_map(|text| Element::Value(text.into())),
        (0..2i64).prop_map(|at| Element::key(vec![("k".into(), at.into())])),
    ];
    prop::collection::vec(prop::collection::vec(element, 1..4), 0..8).prop_map(|paths| {
        let mut set = FieldSet::new();
        for path in &paths {
            set.insert(path);
        }
        set
    })
}

/// The same paths, whatever empty sets are left on the way.
fn same(a: &FieldSet, b: &FieldSet) -> bool {
    a.paths() == b.paths()
}

proptest! {
    #[test]
    fn sets_survive_json(a in any_set()) {
        prop_assert!(same(&FieldSet::from_json(&a.to_json()).unwrap(), &a));
    }

    #[test]
    fn set_operations_agree(a in any_set(), b in any_set()) {
        let (both, only_a, all) = (a.intersection(&b), a.difference(&b), a.union(&b));
        prop_assert!(same(&both.union(&only_a), &a));
        prop_assert!(both.intersection(&only_a).is_empty());
        prop_assert!(same(&all.difference(&b), &only_a));
        prop_assert!(a.paths().iter().all(|path| all.has(path)));
        prop_assert!(a.recursive_difference(&b).difference(&only_a).is_empty());
    }
}
