//! What kube-apiserver 1.34 made of the same rules and the same object.

use serde_json::{Value, json};

use super::*;
use crate::schema::custom;

/// The node the rules are on.
fn node() -> (Arc<Schema>, Value, Vec<Value>) {
    let data: Value = serde_json::from_str(include_str!("../testdata/rules.json")).unwrap();
    let schema = custom(&json!({"type": "object", "properties": {"spec": data["schema"]}}));
    (schema.field("spec").unwrap(), data["object"].clone(), data["cases"].as_array().unwrap().clone())
}

fn with_rule(node: &Schema, rule: &Value) -> Schema {
    let mut node = node.clone();
    let compiled = compile(rule, &node, false);
    let rules = node.rules.get_or_insert_default();
    rules.validations = vec![Arc::new(compiled)];
    node
}

#[test]
fn rules_are_judged_as_kubernetes_judges_them() {
    let (node, object, cases) = node();
    let mut wrong = Vec::new();
    for case in &cases {
        let text = |at: usize| case[at].as_str().unwrap();
        let schema = with_rule(&node, &json!({"rule": text(0)}));
        let rule = &schema.rules.as_ref().unwrap().validations[0];
        let found = match rule.error() {
            Some(why) => ("refused", why.to_owned()),
            // Too much to be taken, so nobody ever saw it run.
            None if text(1) == "costly" => continue,
            None => match validate(&schema, &object, None).as_slice() {
                [] => ("holds", String::new()),
                [error, ..] if error.detail.starts_with("failed rule") => ("fails", String::new()),
                [error, ..] => ("error", error.detail.clone()),
            },
        };
        // The wording of syntax errors, and of those that name a type made up on the spot, is not kept.
        let detail = case[2].as_str().unwrap_or(&found.1);
        if found != (text(1), detail.to_owned()) {
            wrong.push(format!("{}\n  ours:   {found:?}\n  theirs: {:?}", text(0), (text(1), detail)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is on the list of differences is refused when the definition is made.
#[test]
fn messages_written_out_are_refused() {
    let (node, ..) = node();
    for rule in ["google.protobuf.Duration{seconds: 1} == duration('1s')", "google.protobuf.Int64Value{value: 1} == 1"]
    {
        let why = compile(&json!({"rule": rule}), &node, false).error().unwrap_or_default().to_owned();
        assert!(why.contains("undeclared reference to 'google.protobuf."), "{rule}: {why}");
    }
}

/// By how much one rule on so many nodes is over its budget, as Kubernetes estimated it.
#[test]
fn costs_are_estimated_as_kubernetes_estimates_them() {
    const BUDGET: f64 = 10_000_000.0;
    let (node, _, cases) = node();
    let mut wrong = Vec::new();
    for case in &cases {
        let (Some(times), Some(expected)) = (case[3].as_u64(), case[4].as_str()) else { continue };
        let source = case[0].as_str().unwrap().replace("oldSelf", "self");
        let rule = compile(&json!({"rule": source}), &node, false);
        #[expect(clippy::cast_precision_loss, reason = "as it is shown")]
        let factor = rule.cost(Some(times)) as f64 / BUDGET;
        let found = match factor {
            ..1.5 => format!("{factor:.6}x"),
            ..=100.0 => format!("{factor:.1}x"),
            _ => "more than 100x".to_owned(),
        };
        if found != expected {
            wrong.push(format!("{source} ×{times}: {found}, theirs {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn refusals_name_reason_path_and_message() {
    let (node, object, _) = node();
    let check = |rule: Value, expected: &str| {
        let schema = with_rule(&node, &rule);
        let errors = validate_at(&schema, &object, None, &crate::field::Path::new("spec"));
        assert_eq!(errors.first().map(ToString::to_string).unwrap_or_default(), expected, "{rule}");
    };
    check(json!({"rule": "self.n > 3"}), "spec: Invalid value: \"object\": failed rule: self.n > 3");
    check(json!({"rule": "self.n > 3", "message": " too few "}), "spec: Invalid value: \"object\": too few");
    check(
        json!({"rule": "self.n > 3", "messageExpression": "'got ' + string(self.n)", "fieldPath": ".n"}),
        "spec.n: Invalid value: \"object\": got 3",
    );
    check(json!({"rule": "self.n > 3", "message": "m", "reason": "FieldValueForbidden"}), "spec: Forbidden: m");
    check(json!({"rule": "self.n > 3", "message": "m", "reason": "FieldValueRequired"}), "spec: Required value: m");
    check(json!({"rule": "self.n > 3", "reason": "FieldValueDuplicate"}), "spec: Duplicate value: \"object\"");
}

#[test]
fn transitions_compare_with_what_was() {
    let (node, object, _) = node();
    let check = |rule: Value, old: Option<&Value>, expected: usize| {
        let schema = with_rule(&node, &rule);
        assert_eq!(validate(&schema, &object, old).len(), expected, "{rule}");
    };
    let mut before = object.clone();
    before["n"] = json!(4);
    check(json!({"rule": "self.n >= oldSelf.n"}), None, 0);
    check(json!({"rule": "self.n >= oldSelf.n"}), Some(&before), 1);
    check(json!({"rule": "self.n >= oldSelf.n"}), Some(&object), 0);
    check(json!({"rule": "oldSelf.hasValue() || self.n > 5", "optionalOldSelf": true}), None, 1);
    check(json!({"rule": "oldSelf.hasValue() || self.n > 5", "optionalOldSelf": true}), Some(&before), 0);
    // Wrong before and unchanged is let be; changed is not.
    check(json!({"rule": "self.n > 5"}), Some(&object), 0);
    check(json!({"rule": "self.n > 5"}), Some(&before), 1);
}

#[test]
fn rules_reach_every_node_and_whole_objects_show_their_name() {
    let schema = custom(&json!({
        "type": "object",
        "x-kubernetes-validations": [{"rule": "self.metadata.name.size() < 3 && self.kind == 'K'"}],
        "properties": {"spec": {"type": "object", "additionalProperties": {"type": "array", "items": {
            "type": "integer", "x-kubernetes-validations": [{"rule": "self > 0", "message": "positive"}]}}}},
    }));
    let object = json!({"kind": "K", "metadata": {"name": "long"}, "spec": {"a b": [1, 0]}});
    let errors = validate(&schema, &object, None).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        errors,
        [
            "<nil>: Invalid value: \"object\": failed rule: self.metadata.name.size() < 3 && self.kind == 'K'",
            "spec[a b][1]: Invalid value: \"integer\": positive",
        ]
    );
}

#[test]
fn cost_is_bounded() {
    let (node, mut object, _) = node();
    object["nums"] = (0..1000).map(Value::from).collect();
    let rule = "self.nums.all(a, self.nums.all(b, self.nums.all(c, a + b + c >= 0)))";
    let errors = validate(&with_rule(&node, &json!({"rule": rule})), &object, None);
    assert_eq!(
        errors[0].detail,
        format!(
            "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call \
             cost exceeds limit for rule: {rule}"
        )
    );
    object["s"] = "a".repeat(50_000).into();
    let rule = "self.s.replace('a', self.s).size() > 0";
    assert!(!validate(&with_rule(&node, &json!({"rule": rule})), &object, None).is_empty());
}

#[test]
fn what_nests_too_deep_is_refused() {
    let (node, ..) = node();
    for rule in [
        "(".repeat(5000),
        format!("{}true{}", "(".repeat(500), ")".repeat(500)),
        format!("{}true", "!".repeat(5000)),
        format!("1{} > 0", " + 1".repeat(4000)),
        format!("self{} == 1", ".a".repeat(4000)),
        "true ? ".repeat(2000),
        format!("r'\\' {}", "(".repeat(5000)),
        "1in ".repeat(4000),
        "[".repeat(10_000),
        format!("1{} > 0", "+1".repeat(900)),
        format!("dyn(self){} == 1", "[0]".repeat(300)),
    ] {
        let rule = compile(&json!({"rule": rule}), &node, false);
        assert!(rule.error().is_some());
    }
}

#[test]
fn what_nests_as_deep_as_allowed_runs() {
    let (node, object, _) = node();
    for rule in [
        format!("1{} > 0", "+1".repeat(95)),
        format!("{}true", "!".repeat(990)),
        format!("{}1 > 0{}", "(".repeat(24), ")".repeat(24)),
        format!("{}true", "true ? false : ".repeat(40)),
        format!("true{}", " && true".repeat(400)),
        format!("dyn(self){} == 1", ".o".repeat(90)),
        format!("dyn(self){} == 1", "[0]".repeat(90)),
    ] {
        let schema = with_rule(&node, &json!({"rule": rule}));
        assert_eq!(schema.rules.as_ref().unwrap().validations[0].error(), None, "{rule}");
        let _ = validate(&schema, &object, None);
    }
}

mod random {
    use proptest::prelude::*;

    use super::*;

    static KNOWN: LazyLock<Vec<Schema>> = LazyLock::new(|| {
        let (node, _, cases) = node();
        cases.iter().map(|case| with_rule(&node, &json!({"rule": case[0]}))).collect()
    });

    const WORDS: &[&str] = &[
        "self",
        "oldSelf",
        "self.n",
        "self.s",
        "self.l",
        "self.map",
        "self.ios",
        "1",
        "2.5",
        "'a'",
        "true",
        "null",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ".",
        ",",
        "?",
        ":",
        "+",
        "-",
        "*",
        "/",
        "%",
        "==",
        "!=",
        "<",
        ">",
        "&&",
        "||",
        "!",
        " in ",
        "size",
        "all(x, x",
        "map(x, x",
        "exists(",
        "has(self.o.q)",
        "matches('a+')",
        "substring(",
        "split('')",
        "replace(",
        "duration(",
        "timestamp(",
        "quantity('1')",
        "ip('::1')",
        "cidr(",
        "url(",
        "optional.of(",
        ".?",
        "[?",
        "dyn(",
        "type(",
        "string(",
        "int(",
        "9223372036854775807",
        "-1",
        "'%s'.format([",
        "sum()",
        "max()",
        "join(",
        "all(i, v, v",
        "transformMap(k, v, v",
        "transformMapEntry(k, v, {v: k",
        "semver('1.2.3')",
        "first()",
    ];

    fn word() -> impl Strategy<Value = String> {
        proptest::sample::select(WORDS).prop_map(str::to_owned)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn expressions_of_known_words_never_panic(words in proptest::collection::vec(word(), 0..24)) {
            let (node, object, _) = node();
            let schema = with_rule(&node, &json!({"rule": words.concat(), "messageExpression": words.join(" ")}));
            let _ = validate(&schema, &object, Some(&object));
        }

        #[test]
        fn arbitrary_text_never_panics(text in ".{0,200}") {
            let (node, object, _) = node();
            let schema = with_rule(&node, &json!({"rule": text}));
            let _ = validate(&schema, &object, None);
        }

        #[test]
        fn known_rules_never_panic_on_arbitrary_objects(object in crate::schema::tests::json()) {
            for schema in KNOWN.iter() {
                let _ = validate(schema, &object, Some(&object));
            }
        }
    }
}
