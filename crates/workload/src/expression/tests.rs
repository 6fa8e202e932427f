use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn scope() -> Scope {
    [
        ("inputs.parameters.n", "3"),
        ("inputs.parameters", "[hidden]"),
        ("inputs.parameters.list", "[{\"id\": 1, \"k\": \"a\"}, {\"id\": 2, \"k\": \"b\"}]"),
        ("steps.my-step.status", "Succeeded"),
        ("workflow.name", "wf"),
    ]
    .into_iter()
    .collect()
}

#[test]
fn language() {
    for (expression, expected) in [
        ("1 + 2 * 3", json!(7)),
        ("asInt(inputs.parameters.n) * 2", json!(6)),
        ("asFloat('1.5') + 1", json!(2.5)),
        ("inputs.parameters.n == '3' ? 'yes' : 'no'", json!("yes")),
        ("steps['my-step'].status == 'Succeeded'", json!(true)),
        ("workflow.missing ?? 'default'", json!("default")),
        ("workflow?.missing?.more ?? 1", json!(1)),
        ("filter([1, 2, 3], # > 1)", json!([2, 3])),
        ("map(1..asInt(inputs.parameters.n), # * 2)", json!([2, 4, 6])),
        ("sum(1..2 + 1)", json!(6)),
        ("len(fromJSON(inputs.parameters.list))", json!(2)),
        ("toJson({'b': 1, 'a': [true]})", json!("{\"a\":[true],\"b\":1}")),
        ("toJSON({'a': 1})", json!("{\n  \"a\": 1\n}")),
        ("jsonpath(inputs.parameters.list, '$[0].id')", json!(1)),
        ("jsonpath(inputs.parameters.list, '$[*].k')", json!(["a", "b"])),
        ("jsonpath(inputs.parameters.list, '$[?(@.id > 1)].k')", json!(["b"])),
        ("jsonpath('{\"a\":{\"b\":[1,2]}}', '$..b')", json!([[1, 2]])),
        ("'abc' matches '^a' and 'abc' contains 'b'", json!(true)),
        ("let x = 2; x * x", json!(4)),
        ("'Failed' in ['Failed', 'Error']", json!(true)),
        ("workflow.name | upper()", json!("WF")),
        ("{'a': 1}.a", json!(1)),
        ("3 / 2", json!(1.5)),
        ("nil", Value::Null),
    ] {
        assert_eq!(evaluate(expression, &scope()), Ok(expected), "{expression}");
    }
}

#[test]
fn sprig() {
    for (expression, expected) in [
        ("sprig.trim('  a ')", json!("a")),
        ("sprig.upper(workflow.name)", json!("WF")),
        ("sprig.replace('f', 'x', workflow.name)", json!("wx")),
        ("sprig.int('42') + 1", json!(43)),
        ("sprig.add(1, 2, 3)", json!(6)),
        ("sprig.max(1, 5, 3) - sprig.min(4, 2)", json!(3)),
        ("sprig.b64dec(sprig.b64enc('hey'))", json!("hey")),
        ("sprig.quote('a')", json!("\"a\"")),
        ("sprig.default('d', '')", json!("d")),
        ("sprig.ternary('a', 'b', false)", json!("b")),
        ("sprig.splitList(',', 'a,b')", json!(["a", "b"])),
        ("sprig.split('.', 'a.b')._1", json!("b")),
        ("sprig.join('-', ['a', 'b', 1])", json!("a-b-1")),
        ("sprig.trunc(3, 'abcdef')", json!("abc")),
        ("sprig.trunc(-2, 'abcdef')", json!("ef")),
        ("sprig.substr(1, 3, 'abcdef')", json!("bc")),
        ("sprig.regexMatch('^a', 'abc')", json!(true)),
        ("sprig.snakecase('FirstName here')", json!("first_name_here")),
        ("sprig.kebabcase('FirstName')", json!("first-name")),
        ("sprig.camelcase('first_name')", json!("FirstName")),
        ("sprig.title('hello world')", json!("Hello World")),
        ("sprig.sha256sum('a')", json!("ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb")),
        ("sprig.fromJson('{\"a\": [1]}').a[0]", json!(1)),
        ("sprig.toJson(sprig.dict('k', 'v'))", json!("{\"k\":\"v\"}")),
        ("sprig.until(3)", json!([0, 1, 2])),
        ("sprig.untilStep(6, 0, -2)", json!([6, 4, 2])),
        ("sprig.has(2, sprig.list(1, 2))", json!(true)),
        ("sprig.uniq([1, 1, 2])", json!([1, 2])),
        ("sprig.indent(2, 'a\\nb')", json!("  a\n  b")),
        ("sprig.hasPrefix('w', workflow.name)", json!(true)),
        ("sprig.dig('a', 'b', 'none', {'a': {'b': 'x'}})", json!("x")),
        ("sprig.div(7, 2)", json!(3)),
        ("sprig.round(1.2345, 2)", json!(1.23)),
        ("sprig.date('2006-01-02T15:04:05', date('2024-05-06T07:08:09Z'))", json!("2024-05-06T07:08:09")),
        ("sprig.printf('%s-%d', 'a', 1)", json!("a-1")),
        ("'sprig.trim(x)'", json!("sprig.trim(x)")),
    ] {
        assert_eq!(evaluate(expression, &scope()), Ok(expected), "{expression}");
    }
}

#[test]
fn failures() {
    for expression in [
        "unknown",
        "workflow.missing.more",
        "1 +",
        "sprig.nothing(1)",
        "sprig.div(1, 0)",
        "fromJSON('{')",
        "jsonpath('{}', '$.a')",
        "1..99999999999",
        "repeat('a', 99999999999)",
        "sprig.until(99999999999)",
        "'a",
        "asInt('x')",
        "",
    ] {
        assert!(evaluate(expression, &scope()).is_err(), "{expression}: {:?}", evaluate(expression, &scope()));
    }
    assert!(holds("1", &scope()).is_err());
    for deep in ["(".repeat(100_000), "[".repeat(5000), "!".repeat(5000), "1 ? ".repeat(5000), "-".repeat(50_000)] {
        assert!(evaluate(&deep, &scope()).is_err());
    }
}

#[test]
fn needed_variables() {
    for (expression, expected) in [
        ("inputs.parameters.n + steps['my-step'].status", vec!["inputs.parameters.n", "steps.my-step.status"]),
        ("item.a ?? 1", vec![]),
        ("foo?.bar", vec!["foo"]),
        ("let x = y; x + 1", vec!["y"]),
        ("map(list, # + n)", vec!["list", "n"]),
        ("{a: b}", vec!["b"]),
        ("'a.b' + sprig.trim(c.d)", vec!["c.d"]),
        ("retries == 1 and not lastRetry.status in ['a']", vec!["retries", "lastRetry.status"]),
    ] {
        assert_eq!(super::variables(expression).unwrap(), expected, "{expression}");
    }
}

proptest! {
    #[test]
    fn never_panics(expression in "\\PC{0,50}") {
        let _ = evaluate(&expression, &scope());
        let _ = super::variables(&expression);
    }

    #[test]
    fn never_panics_on_what_looks_like_one(
        expression in "([a-z0-9'(){}\\[\\].,?:!#|+*/<>=% -]|inputs|sprig\\.|\\.\\.|==|&&|map|filter|nil){0,30}"
    ) {
        let _ = evaluate(&expression, &scope());
        let _ = super::variables(&expression);
    }

    #[test]
    fn texts_come_back(text in "[^'\\\\\\r\\n]{0,40}") {
        prop_assert_eq!(evaluate(&format!("'{text}'"), &scope()), Ok(json!(text)));
    }

    #[test]
    fn json_comes_back(numbers in proptest::collection::vec(-1000i64..1000, 0..8), key in "[a-z]{1,5}") {
        let document = json!({key.clone(): numbers});
        let scope: Scope = [("inputs.parameters.j", document.to_string())].into_iter().collect();
        prop_assert_eq!(evaluate("toJson(fromJSON(inputs.parameters.j))", &scope), Ok(json!(document.to_string())));
    }
}
