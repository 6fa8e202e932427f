use proptest::prelude::*;
use serde_json::json;

use super::*;

/// What Consul 1.22 answers, without its beginning; empty: it is accepted.
#[test]
fn complaints_are_consuls() {
    let cases = [
        ("Foo == 1", r#"Selector "Foo" is not valid"#),
        ("ServiceName == web", ""),
        ("ServiceName ==", r#"1:15 (14): no match found, expected: "-", "0", "\"", "`", [ \t\r\n], [1-9] or [a-zA-Z]"#),
        (
            "ServiceName = web",
            r#"1:13 (12): no match found, expected: "!=", "==", "contains", "in", "is", "matches", "not" or [ \t\r\n]"#,
        ),
        (r#"ServiceMeta.env == "prod" and "v1" in ServiceTags"#, ""),
        (r#"ServiceMeta.env.x == "prod""#, r#"Selector "ServiceMeta.env.x" is not valid"#),
        ("ServiceTags == web", r#"Invalid match operator "Equal" for selector "ServiceTags""#),
        (
            "ServicePort == abc",
            r#"Failed to coerce value "abc" for selector "ServicePort": strconv.ParseInt: parsing "abc": invalid syntax"#,
        ),
        ("ServicePort == 0x50", r#"1:17 (16): rule "number": Invalid number literal"#),
        (
            "ServicePort == 1.5",
            r#"Failed to coerce value "1.5" for selector "ServicePort": strconv.ParseInt: parsing "1.5": invalid syntax"#,
        ),
        (
            "ServiceEnableTagOverride == maybe",
            r#"Failed to coerce value "maybe" for selector "ServiceEnableTagOverride": strconv.ParseBool: parsing "maybe": invalid syntax"#,
        ),
        (r#"ServiceName == "unterminated"#, r#"1:29 (28): rule "string": Unterminated string literal"#),
        ("(ServiceName == web", r#"1:20 (19): rule "grouping": Unmatched parentheses"#),
        ("(ServiceName == web) and (Foo == 1", r#"1:35 (34): rule "grouping": Unmatched parentheses"#),
        (r#"ServiceMeta["a b"] == x"#, ""),
        ("ServiceMeta[a] == x", r#"1:13 (12): rule "index": Invalid index"#),
        (r#"ServiceMeta["a" == x"#, r#"1:17 (16): rule "index": Unclosed index expression"#),
        ("ServiceName == 5x", r#"1:17 (16): rule "number": Invalid number literal"#),
        (r#""a" in "#, r#"1:8 (7): rule "match": Invalid selector"#),
        (r#""a" in 5"#, r#"1:8 (7): rule "match": Invalid selector"#),
        ("ServiceName is empty", r#"Invalid match operator "Is Empty" for selector "ServiceName""#),
        ("ServiceTags is not empty", ""),
        ("not not ServiceTags is empty", ""),
        ("ServiceName == web or", r"1:22 (21): no match found, expected: [ \t\r\n]"),
        (
            "ServiceName == web xor ServiceName == foo",
            r#"1:20 (19): no match found, expected: "and", "or", [ \t\r\n] or EOF"#,
        ),
        ("ServiceName == web)", r#"1:19 (18): no match found, expected: ".", "[", [ \t\r\n], [a-zA-Z0-9_] or EOF"#),
        ("ServiceWeights == 1", r#"Invalid match operator "Equal" for selector "ServiceWeights""#),
        ("ServiceWeights.Passing == 1", ""),
        ("ServiceName == -5", ""),
        (r"ServiceName == `back\tquote`", ""),
        (r#"ServiceName == "a\tb\x""#, r#"1:16 (15): rule "string": invalid syntax"#),
        (r#"ServiceName == "a\x41""#, ""),
        ("CreateIndex == 1", r#"Selector "CreateIndex" is not valid"#),
        ("ServiceTaggedAddresses.lan.Port == 1", ""),
        ("web == ServiceName", r#"Selector "web" is not valid"#),
        (
            r#"any ServiceTags as t { t == "x" }"#,
            r#"1:5 (4): no match found, expected: "!=", "==", "contains", "in", "is", "matches", "not" or [ \t\r\n]"#,
        ),
        (r#""/ServiceName" == "x""#, r#"1:16 (15): no match found, expected: "in", "not" or [ \t\r\n]"#),
        ("ServiceName.0 == x", "1:13 (12): no match found, expected: [a-zA-Z]"),
        ("and", r#"1:4 (3): no match found, expected: "!=", ".", "==", "[", [ \t\r\n] or [a-zA-Z0-9_]"#),
        ("not", r#"1:4 (3): no match found, expected: "!=", ".", "==", "[", [ \t\r\n] or [a-zA-Z0-9_]"#),
        (
            "ServiceName == äö",
            r#"1:16 (15): no match found, expected: "-", "0", "\"", "`", [ \t\r\n], [1-9] or [a-zA-Z]"#,
        ),
    ];
    for (text, complaint) in cases {
        let said = Filter::parse(text, Subject::CatalogService).err().unwrap_or_default();
        let said = said.strip_prefix("Failed to create boolean expression evaluator: ").unwrap_or(&said);
        assert_eq!(said, complaint, "{text}");
    }
}

#[test]
fn rows_are_chosen() {
    let row = json!({
        "Node": {"Node": "n1", "Meta": {"rack": "r1"}, "TaggedAddresses": null},
        "Service": {"Service": "web", "Port": 80, "Tags": ["v1", "blue"], "Meta": {}, "EnableTagOverride": true,
            "TaggedAddresses": {"lan": {"Address": "10.0.0.1", "Port": 8080}}},
        "Checks": [{"Status": "passing", "CheckID": "a"}, {"Status": "critical", "CheckID": "b"}],
    });
    let cases = [
        ("Service.Service == web", true),
        ("Service.Service == \"web\" and Service.Port == 80", true),
        ("Service.Port != 80", false),
        ("Service.Port == -1 or Service.EnableTagOverride == true", true),
        ("v1 in Service.Tags", true),
        ("Service.Tags contains `v2`", false),
        ("\"v2\" not in Service.Tags", true),
        ("Service.Service contains eb", true),
        ("Service.Service matches \"^w.b$\"", true),
        ("Service.Service not matches \"^w.b$\"", false),
        ("rack in Node.Meta", true),
        ("Node.Meta.rack == r1", true),
        ("Node.Meta[\"rack\"] != r1", false),
        ("Node.Meta.zone == x", false),
        ("Node.Meta.zone != x", true),
        ("Node.Meta.zone matches x", true),
        ("Node.TaggedAddresses is empty", true),
        ("Service.Meta is not empty", false),
        ("Service.TaggedAddresses.lan.Port == 8080", true),
        ("Checks.Status == critical", true),
        ("Checks.Status == warning", false),
        ("Checks.Status != passing", true),
        ("not Checks.Status == critical", false),
        ("Service.Kind == \"\"", true),
        ("not (Service.Service == web or Service.Port == 1) or Service.Port == 80", true),
        ("Service.Service == web and Service.Port == 1 or Service.Port == 80", true),
        ("  ( Service.Service == web )  ", true),
    ];
    for (text, wanted) in cases {
        let filter = Filter::parse(text, Subject::Health).unwrap();
        assert_eq!(filter.matches(&row), wanted, "{text}");
    }
}

#[test]
fn what_is_too_long_or_too_deep_is_refused() {
    let deep = format!("{}Node == a{}", "(".repeat(2000), ")".repeat(2000));
    assert!(Filter::parse(&deep, Subject::Nodes).unwrap_err().contains("nested"));
    let long = format!("Node == {}", "a".repeat(LENGTH_MAX));
    assert!(Filter::parse(&long, Subject::Nodes).unwrap_err().contains("longer"));
    let wide = vec!["Node == a"; 90].join(" and ");
    assert!(Filter::parse(&wide, Subject::Nodes).is_ok());
    assert!(Filter::parse("Node matches \"a{1000}{1000}\"", Subject::Nodes).is_err());
}

fn expression() -> impl Strategy<Value = (String, bool)> {
    let leaf = (0u16..4, 0u16..4, any::<bool>()).prop_map(|(left, right, negated)| {
        let sign = if negated { "!=" } else { "==" };
        (format!("Service.Meta[\"k{left}\"] {sign} v{right}"), (left == right) != negated)
    });
    leaf.prop_recursive(5, 40, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|(text, holds)| (format!("not ({text})"), !holds)),
            (inner.clone(), inner.clone()).prop_map(|((a, x), (b, y))| (format!("({a}) and ({b})"), x && y)),
            (inner.clone(), inner).prop_map(|((a, x), (b, y))| (format!("({a} ) or\t( {b})"), x || y)),
        ]
    })
}

proptest! {
    #[test]
    fn a_composed_expression_means_what_its_parts_mean((text, holds) in expression()) {
        let row = json!({"Service": {"Meta": {"k0": "v0", "k1": "v1", "k2": "v2", "k3": "v3"}}});
        let filter = Filter::parse(&text, Subject::Health).unwrap();
        prop_assert_eq!(filter.matches(&row), holds);
    }

    #[test]
    fn no_text_is_too_strange(text in "\\PC{0,60}") {
        let _ = Filter::parse(&text, Subject::Health);
    }

    #[test]
    fn nor_are_its_own_words_in_any_order(
        words in proptest::collection::vec(
            prop_oneof![
                Just("("), Just(")"), Just("not "), Just(" and "), Just(" or "), Just("=="), Just("Node"), Just(".Meta"),
                Just("[\"a\"]"), Just(" in "), Just(" is empty"), Just("\""), Just("`"), Just("5"), Just(" matches "),
            ],
            0..30,
        ),
    ) {
        let text = words.concat();
        if let Ok(filter) = Filter::parse(&text, Subject::Nodes) {
            filter.matches(&json!({"Meta": {"a": "b"}}));
            filter.matches(&json!(null));
        }
    }
}
