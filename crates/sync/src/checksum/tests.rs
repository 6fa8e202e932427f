use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::mapping::same;

/// What Go made of the same input; `tests/vectors/checksums.go.txt` says how.
const VECTORS: &str = include_str!("../../tests/vectors/checksums.json");

#[derive(Deserialize)]
struct Vectors {
    printed: Vec<Printed>,
    specs: Vec<Spec>,
    lists: Vec<List>,
}

#[derive(Deserialize)]
struct Printed {
    input: String,
    go: String,
}

#[derive(Deserialize)]
struct Spec {
    kind: String,
    object: String,
    checksum: String,
}

#[derive(Deserialize)]
struct List {
    items: Vec<String>,
    checksum: String,
}

fn vectors() -> Vectors {
    serde_json::from_str(VECTORS).unwrap()
}

#[test]
fn json_is_printed_as_go_prints_it() {
    for vector in vectors().printed {
        let value: Value = serde_json::from_str(&vector.input).unwrap();
        let expected = String::from_utf8(STANDARD.decode(&vector.go).unwrap()).unwrap();
        assert_eq!(String::from_utf8(go_json(&value)).unwrap(), expected, "input {}", vector.input);
    }
}

#[test]
fn specs_have_the_checksums_go_gives_them() {
    for vector in vectors().specs {
        let object: Value = serde_json::from_str(&vector.object).unwrap();
        let checksum = spec_checksum(Kind::of_name(&vector.kind).unwrap(), &object);
        let text = checksum.map(|checksum| STANDARD.encode(checksum)).unwrap_or_default();
        assert_eq!(text, vector.checksum, "object {}", vector.object);
    }
}

#[test]
fn lists_have_the_checksums_go_gives_them() {
    for vector in vectors().lists {
        let items = vector.items.iter().map(|line| {
            let mut parts = line.splitn(3, '/');
            let mut next = || parts.next().unwrap();
            Item { kind: next(), name: next(), uid: next() }
        });
        let text = list_checksum(items).map(|checksum| STANDARD.encode(checksum)).unwrap_or_default();
        assert_eq!(text, vector.checksum, "items {:?}", vector.items);
    }
}

#[test]
fn a_negative_zero_is_what_an_api_server_makes_of_it() {
    let value: Value = serde_json::from_str("[-0, -0.0, 0.0]").unwrap();
    assert_eq!(go_json(&value), b"[0,0,0]");
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("JSON has no such number", |float| Number::from_f64(float).map(Value::Number)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_printed_reads_back_as_the_same(value in values()) {
        let json = go_json(&value);
        let back: Value = serde_json::from_slice(&json).unwrap();
        prop_assert!(same(&value, &back), "{value} became {back}");
        prop_assert_eq!(go_json(&back), json);
    }
}
