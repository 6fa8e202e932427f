use std::borrow::Cow;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::label::{Operator, Requirement};
use super::*;

fn check_label(text: &str, labels: &Value, expected: bool) {
    let selector = Labels::parse(text).unwrap();
    assert_eq!(selector.matches(labels.as_object()), expected, "{text} on {labels}");
}

#[test]
fn labels_match() {
    let labels = json!({"app": "web", "tier": "", "size": "7", "in": "notin"});
    for (text, expected) in [
        ("", true),
        ("app=web", true),
        ("app==web", true),
        ("app = web , size>6", true),
        ("size<7", false),
        ("size>x1", false),
        ("app!=web", false),
        ("none!=web", true),
        ("app in (api,web)", true),
        ("app notin (api)", true),
        ("none notin (api)", true),
        ("tier in ()", true),
        ("tier in (,)", true),
        ("tier=", true),
        ("tier=,app", true),
        ("app", true),
        ("!app", false),
        ("!none", true),
        ("in in (notin)", true),
        ("in=notin", true),
    ] {
        if text == "size>x1" {
            assert!(Labels::parse(text).is_err());
            continue;
        }
        check_label(text, &labels, expected);
    }
    assert!(!Labels::nothing().matches(labels.as_object()));
    assert!(Labels::parse("").unwrap().matches(None));
}

#[test]
fn label_errors() {
    const NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
                        an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                        validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                         and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
                         '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    for (text, expected) in [
        ("=b", "found '=', expected: !, identifier, or 'end of string'".to_owned()),
        ("a,", "found '', expected: identifier after ','".to_owned()),
        ("a=b c", "found 'c', expected: ',' or 'end of string'".to_owned()),
        ("!a=b", "found '=', expected: ',' or 'end of string'".to_owned()),
        ("!", "unable to parse requirement: found '', expected: identifier".to_owned()),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt".to_owned()),
        ("a in", "unable to parse requirement: found '' expected: '('".to_owned()),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier".to_owned()),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'".to_owned()),
        ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier".to_owned()),
        ("a==,=", "found '=', expected: identifier after ','".to_owned()),
        ("a=!b", "unable to parse requirement: found '!', expected: identifier".to_owned()),
        ("a@", format!("unable to parse requirement: <nil>: Invalid value: \"a@\": {NAME}")),
        ("a=b@", format!("unable to parse requirement: values[0][a]: Invalid value: \"b@\": {VALUE}")),
        (
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be \
             an integer"
                .to_owned(),
        ),
    ] {
        assert_eq!(Labels::parse(text).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn label_objects() {
    let check = |object: Option<Value>, labels: Value, expected: bool| {
        let selector = Labels::from_object(object.as_ref()).unwrap();
        assert_eq!(selector.matches(labels.as_object()), expected, "{object:?}");
    };
    check(None, json!({}), false);
    check(Some(json!({})), json!({}), true);
    check(Some(json!({"matchLabels": {"a": "b"}})), json!({"a": "b"}), true);
    let expression = |operator: &str, values: Value| {
        Some(json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]}))
    };
    check(expression("In", json!(["b", "c"])), json!({"a": "c"}), true);
    check(expression("NotIn", json!(["b"])), json!({"a": "c"}), true);
    check(expression("Exists", json!(null)), json!({}), false);
    check(expression("DoesNotExist", json!(null)), json!({}), true);
    let odd = expression("Near", json!(null));
    assert_eq!(
        Labels::from_object(odd.as_ref()).unwrap_err().to_string(),
        "\"Near\" is not a valid label selector operator"
    );
}

#[test]
fn fields() {
    let read = |name: &str| -> Cow<'static, str> {
        Cow::Borrowed(match name {
            "metadata.name" => "web",
            "odd" => r"a,b=c\",
            _ => "",
        })
    };
    for (text, expected) in [
        ("", true),
        (",", true),
        ("metadata.name=web", true),
        ("metadata.name==web,spec.nodeName=", true),
        ("metadata.name!=web", false),
        ("spec.nodeName!=x", true),
        (r"odd=a\,b\=c\\", true),
    ] {
        assert_eq!(Fields::parse(text).unwrap().matches(read), expected, "{text}");
    }
    for (text, expected) in [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        (r"a=\", r"invalid field selector: invalid escape sequence: \"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
    ] {
        assert_eq!(Fields::parse(text).unwrap_err().to_string(), expected, "{text}");
    }
}

fn requirement() -> impl Strategy<Value = Requirement> {
    let key = "([a-z]{1,5}\\.io/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,8}[A-Za-z0-9])?";
    let value = "([A-Za-z0-9]([-A-Za-z0-9_.]{0,8}[A-Za-z0-9])?)?";
    (key, proptest::collection::vec(value, 1..4), 0..9_usize, any::<i64>()).prop_map(|(key, values, pick, number)| {
        let one = vec![values[0].clone()];
        let (operator, values) = match pick {
            0 => (Operator::In, values),
            1 => (Operator::NotIn, values),
            2 => (Operator::Equals, one),
            3 => (Operator::DoubleEquals, one),
            4 => (Operator::NotEquals, one),
            5 => (Operator::Exists, vec![]),
            6 => (Operator::DoesNotExist, vec![]),
            7 => (Operator::GreaterThan, vec![number.unsigned_abs().min(1 << 40).to_string()]),
            _ => (Operator::LessThan, vec![number.unsigned_abs().min(1 << 40).to_string()]),
        };
        Requirement::new(&key, operator, values).expect("valid by construction")
    })
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,60}", grammar in "[a-c=!(),<> \\\\in\u{0}é]{0,40}") {
        for text in [text, grammar] {
            let _ = Labels::parse(&text).map(|selector| selector.to_string());
            let _ = Fields::parse(&text).map(|selector| selector.to_string());
        }
    }

    #[test]
    fn printed_labels_parse_again(mut all in proptest::collection::vec(requirement(), 0..5)) {
        all.sort_by(|a, b| a.key.cmp(&b.key));
        let text = all.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let parsed = Labels::parse(&text).unwrap();
        prop_assert_eq!(parsed.requirements(), all.as_slice());
        prop_assert_eq!(parsed.to_string(), text);
    }

    #[test]
    fn printed_fields_parse_again(terms in proptest::collection::vec(("[a-z.]{1,8}", ".{0,12}", any::<bool>()), 0..4)) {
        let print = |(field, value, equal): &(String, String, bool)| {
            let escaped = value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=");
            format!("{field}{}{escaped}", if *equal { "=" } else { "!=" })
        };
        let selector = terms.iter().map(print).collect::<Vec<_>>().join(",");
        let parsed = Fields::parse(&selector).unwrap();
        prop_assert_eq!(Fields::parse(&parsed.to_string()).unwrap(), parsed);
    }
}
