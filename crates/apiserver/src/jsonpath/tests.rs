use proptest::prelude::*;
use serde_json::json;

use super::*;

fn sample() -> Value {
    json!({
        "metadata": {"labels": {"a.b/c": "dotted"}},
        "spec": {"replicas": 3, "list": [1, 2, 3, 4], "names": ["x", "y"]},
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "count": 2},
            {"type": "Syn(ced)", "status": "False", "count": 5},
        ]},
    })
}

#[test]
fn finds() {
    for (path, expected) in [
        (".spec.replicas", json!([3])),
        ("{.spec.replicas}", json!([3])),
        ("$.spec['replicas']", json!([3])),
        (r".metadata.labels.a\.b/c", json!(["dotted"])),
        (r".metadata.labels['a\.b/c']", json!(["dotted"])),
        (".spec.list[0]", json!([1])),
        (".spec.list[-1]", json!([4])),
        (".spec.list[-1:]", json!([4])),
        (".spec.list[1:3]", json!([2, 3])),
        (".spec.list[::2]", json!([1, 3])),
        (".spec.list[*]", json!([1, 2, 3, 4])),
        (".spec.list[0,2]", json!([1, 3])),
        (".spec['replicas','list'][0]", json!(null)),
        (".status.conditions[?(@.type==\"Ready\")].status", json!(["True"])),
        (".status.conditions[?(@.type=='Syn(ced)')].status", json!(["False"])),
        (".status.conditions[?(@.count>2)].type", json!(["Syn(ced)"])),
        (".status.conditions[?(@.count<=2)].type", json!(["Ready"])),
        (".status.conditions[?(@.count!=2)].type", json!(["Syn(ced)"])),
        (".status.conditions[?(@.none)].type", json!([])),
        (".status.conditions[?(@.count)].count", json!([2, 5])),
        (".status.conditions[*].type", json!(["Ready", "Syn(ced)"])),
        ("..type", json!(["Ready", "Syn(ced)"])),
        (".none.at.all", json!([])),
        (".spec.names[5]", json!(null)),
        (".spec[0]", json!(null)),
        (".spec[?(@.x)]", json!(null)),
    ] {
        let parsed = JsonPath::parse(path).unwrap();
        let value = sample();
        let found = parsed.find(&value).map_or(Value::Null, |found| found.into_iter().cloned().collect());
        assert_eq!(found, expected, "{path}");
    }
}

#[test]
fn errors() {
    for path in [".a[", ".a[x]", "[?(@.a", "[?(@.a)", ".a[1:2:3:4]", "'abc", "foo", "....a", "#", "[?(@.a=~1)]"] {
        assert!(JsonPath::parse(path).is_err(), "{path}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in r#"[\.\[\]\*\?\(\)@\$'"\\a-c0-3,:<>=!\-\{\} é]{0,40}"#, any in ".{0,30}") {
        let value = sample();
        for text in [text, any] {
            if let Ok(path) = JsonPath::parse(&text) {
                let _ = path.find(&value);
            }
        }
    }

    #[test]
    fn nested_filters_are_bounded(depth in 0_usize..200) {
        let text = format!("{}@.a{}", "[?(".repeat(depth), ")]".repeat(depth));
        let _ = JsonPath::parse(&text);
    }
}
