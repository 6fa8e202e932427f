use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::spec::Parameter;

fn parameter(yaml: &str) -> String {
    let value = documents(&format!("name: p\nvalue: {yaml}")).unwrap().remove(0);
    spec::from_value::<Parameter>(value).unwrap().value.unwrap().0
}

#[test]
fn yaml_as_go_reads_it() {
    for (yaml, text) in [
        ("yes", "true"),
        ("on", "true"),
        ("No", "false"),
        ("off", "false"),
        ("true", "true"),
        ("'yes'", "yes"),
        ("0644", "420"),
        ("0x10", "16"),
        ("1.50", "1.5"),
        ("1e3", "1000"),
        ("'1.50'", "1.50"),
        ("12345678901234567", "12345678901234567"),
        ("abc", "abc"),
        ("1.2.3", "1.2.3"),
    ] {
        assert_eq!(parameter(yaml), text, "{yaml}");
    }
}

#[test]
fn several_documents() {
    assert_eq!(documents("a: 1\n---\n---\nb: 2\n").unwrap(), [json!({"a": 1}), json!({"b": 2})]);
    assert!(documents("a: [").is_err());
    assert!(documents("a: 1\na: 2").is_err());
}

proptest! {
    #[test]
    fn quoted_text_is_never_anything_else(text in "[a-zA-Z0-9.+_-]{1,12}") {
        prop_assert_eq!(parameter(&format!("'{text}'")), text);
    }

    #[test]
    fn never_panics(text in "([a-z:\\[\\]{}'\"#&*!|>%@`-]|\n|  |- ){0,60}") {
        let _ = documents(&text);
        let source = Source { name: "x".to_owned(), text: format!("kind: Workflow\nspec: {text}") };
        let _ = check(&[source], &Offline);
    }
}
