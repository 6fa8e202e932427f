use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn scope() -> Scope {
    let mut below = Scope::new();
    below.insert("workflow.name", "wf");
    below.insert("inputs.parameters.a", "1");
    let mut scope = Scope::over(&Arc::new(below));
    scope.insert("inputs.parameters.b", "x\"y\n{{workflow.name}}");
    scope.insert("item", "a");
    scope.insert("steps.gone.outputs.result", Value::Null);
    scope.insert("steps.my-step.outputs.result", "[1, 2]");
    scope
}

#[test]
fn variables() {
    for (text, expected) in [
        ("plain", "plain"),
        ("{{workflow.name}}-{{ inputs.parameters.a }}", "wf-1"),
        ("{{inputs.parameters.b}}", "x\"y\n{{workflow.name}}"),
        ("{{inputs.parameters.{{item}}}}", "1"),
        ("{{inputs.parameters.{{item}}", "{{inputs.parameters.a"),
        ("{{unknown}} {{ other thing }}", "{{unknown}} {{ other thing }}"),
        ("{{", "{{"),
        ("{{ workflow.name", "{{ workflow.name"),
        ("}} {{workflow.name}} }}", "}} wf }}"),
        ("{{=1 + 1}}", "2"),
        ("{{=inputs.parameters.a + '2'}}", "12"),
        ("{{=asInt(inputs.parameters.a) + 2}}", "3"),
        ("{{=fromJSON(steps['my-step'].outputs.result)[1]}}", "2"),
        ("{{=item + unknown}}", "{{=item + unknown}}"),
        ("{{=retries == '0' ? 1 : 2}}", "{{=retries == '0' ? 1 : 2}}"),
        ("{{=[1, 2]}}", "[1,2]"),
        ("{{=broken(}}", "{{=broken(}}"),
    ] {
        assert_eq!(replace_text(text, &scope(), Unresolved::Keep).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_missing() {
    let error = |text: &str, unresolved| replace_text(text, &scope(), unresolved).unwrap_err();
    assert_eq!(error("{{unknown}}", Unresolved::Error), TemplateError::Missing("unknown".to_owned()));
    assert_eq!(
        error("{{steps.x.outputs.result}}", Unresolved::Strict(&["steps"])).to_string(),
        "failed to resolve {{steps.x.outputs.result}}"
    );
    assert!(error("{{=steps.x.outputs.result}}", Unresolved::Strict(&["steps"])).is_missing());
    assert!(!error("{{steps.gone.outputs.result}}", Unresolved::Keep).is_missing());
    assert!(matches!(error("{{=1 +}}", Unresolved::Error), TemplateError::Expression(_)));
    for kept in ["{{stepsx.y}}", "{{steps.x.outputs.artifacts.y}}", "{{=foo}}"] {
        assert_eq!(replace_text(kept, &scope(), Unresolved::Strict(&["steps"])).as_deref(), Ok(kept));
    }
    assert_eq!(
        replace_text("{{=steps.gone.outputs.result ?? 'none'}}", &scope(), Unresolved::Error).as_deref(),
        Ok("none")
    );
}

#[test]
fn whole_values() {
    let value = json!({"a": ["{{item}}", 1, null], "{{item}}-key": {"b": "{{inputs.parameters.b}}"}});
    let replaced = replace_json(&value, &scope(), Unresolved::Keep).unwrap();
    assert_eq!(replaced, json!({"a": ["a", 1, null], "a-key": {"b": "x\"y\n{{workflow.name}}"}}));
}

proptest! {
    #[test]
    fn never_panics(text in "(\\{\\{|\\}\\}|=|[a-z.'\"\\\\ ]|\\PC){0,40}") {
        for unresolved in [Unresolved::Keep, Unresolved::Error, Unresolved::Strict(&["inputs"])] {
            let _ = replace_text(&text, &scope(), unresolved);
        }
    }

    #[test]
    fn text_without_variables_is_left_alone(text in "([^={}]|\\{|\\}){0,60}") {
        prop_assert_eq!(replace_text(&text, &Scope::new(), Unresolved::Keep).unwrap(), text);
    }

    #[test]
    fn values_arrive_as_they_are(value in "\\PC{0,40}", before in "[a-z\" ]{0,5}") {
        let scope: Scope = [("inputs.parameters.x", value.clone())].into_iter().collect();
        let template = json!({"args": [format!("{before}{{{{inputs.parameters.x}}}}")]});
        let replaced = replace_json(&template, &scope, Unresolved::Keep).unwrap();
        prop_assert_eq!(replaced, json!({"args": [format!("{before}{value}")]}));
    }
}
