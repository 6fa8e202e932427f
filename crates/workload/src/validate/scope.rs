//! Which variables may be used where.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Validator, names};
use crate::spec::{Step, Template, TemplateType};
use crate::template::tags;

/// Any `item.…` may be used.
const ANY_ITEM: &str = "item.*";
/// Any output parameter of the workflow may be used.
const ANY_OUTPUT_PARAMETER: &str = "workflow.outputs.parameters.*";
/// Any output artifact of the workflow may be used.
pub(super) const ANY_OUTPUT_ARTIFACT: &str = "workflow.outputs.artifacts.*";

/// Prefixes of Argo's own variables; others are the user's and left alone.
const OURS: [&str; 7] = ["item.", "steps.", "inputs.", "outputs.", "pod.", "workflow.", "tasks."];
/// Known only at run time, and always allowed.
const LATER: [&str; 7] = [
    "outputs.",
    "workflow.creationTimestamp",
    "workflow.scheduledTime",
    "workflow.duration",
    "tasks.name",
    "steps.name",
    "node.name",
];

/// Variables of a template.
pub(super) type Known = BTreeSet<String>;

/// Variables of a template, with some that only one of its calls has.
pub(super) struct Names<'a> {
    pub(super) known: &'a Known,
    pub(super) own: &'a Known,
    /// Of a DAG: tasks before this one.
    pub(super) ancestors: &'a BTreeSet<&'a str>,
}

impl Names<'_> {
    fn has(&self, name: &str) -> bool {
        self.known.contains(name)
            || self.own.contains(name)
            || name
                .strip_prefix("tasks.")
                .and_then(|rest| rest.strip_suffix(".status"))
                .is_some_and(|task| self.ancestors.contains(task))
    }
}

/// Whether every variable in a value is known.
pub(super) fn resolve(
    names: &Names<'_>,
    globals: &BTreeMap<String, String>,
    value: &Value,
    template: bool,
) -> Result<(), String> {
    match value {
        Value::String(text) => resolve_text(names, globals, text, template),
        Value::Array(values) => values.iter().try_for_each(|value| resolve(names, globals, value, template)),
        Value::Object(fields) => fields.iter().try_for_each(|(key, value)| {
            resolve_text(names, globals, key, template)?;
            resolve(names, globals, value, template)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn resolve_text(
    names: &Names<'_>,
    globals: &BTreeMap<String, String>,
    text: &str,
    template: bool,
) -> Result<(), String> {
    for tag in tags(text) {
        let name = tag.trim();
        if tag.starts_with('=') || !OURS.iter().any(|start| name.starts_with(start)) {
            continue;
        }
        let allowed = names.has(name)
            || globals.contains_key(name)
            || name.starts_with("item.") && names.has(ANY_ITEM)
            || name.starts_with("workflow.outputs.parameters.") && names.has(ANY_OUTPUT_PARAMETER)
            || name.starts_with("workflow.outputs.artifacts.")
                && (names.has(ANY_OUTPUT_ARTIFACT) || globals.contains_key(ANY_OUTPUT_ARTIFACT))
            || LATER.iter().any(|start| name.starts_with(start))
            || template && name.starts_with("workflow.parameters");
        if !allowed {
            return Err(format!("failed to resolve {{{{{tag}}}}}"));
        }
    }
    Ok(())
}

/// Adds the variables of a step's items.
pub(super) fn add_items(step: &Step, known: &mut Known) -> Result<(), String> {
    let items = step.with_items.as_deref().unwrap_or_default();
    let given = [!items.is_empty(), !step.with_param.is_empty(), step.with_sequence.is_some()];
    if given.into_iter().filter(|given| *given).count() > 1 {
        return Err("only one of withItems, withParam, withSequence can be specified".to_owned());
    }
    for item in items {
        match item {
            Value::Array(list) => known.extend((0..list.len()).map(|index| format!("item.[{index}]"))),
            Value::Object(fields) => known.extend(fields.keys().map(|key| format!("item.{key}"))),
            Value::Null => {}
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                known.insert("item".to_owned());
            }
        }
    }
    if !step.with_param.is_empty() {
        known.insert("item".to_owned());
        known.insert(ANY_ITEM.to_owned());
    }
    if let Some(sequence) = &step.with_sequence {
        if sequence.count.is_some() && sequence.end.is_some() {
            return Err("only one of count or end can be defined in withSequence".to_owned());
        }
        known.insert("item".to_owned());
    }
    Ok(())
}

impl Validator<'_> {
    /// Adds the variables of a step that was called.
    pub(super) fn add_outputs(
        &mut self,
        template: Option<&Template>,
        prefix: &str,
        known: &mut Known,
        aggregate: bool,
    ) {
        for name in ["id", "startedAt", "finishedAt", "hostNodeName"] {
            known.insert(format!("{prefix}.{name}"));
        }
        let Some(template) = template else { return };
        if template.daemon == Some(true) {
            known.insert(format!("{prefix}.ip"));
        }
        let scripted = matches!(template.kind(), Some(TemplateType::Script | TemplateType::ContainerSet));
        if template.has_result() || aggregate && scripted {
            known.insert(format!("{prefix}.outputs.result"));
            known.insert(format!("{prefix}.exitCode"));
        }
        if aggregate {
            known.insert(format!("{prefix}.outputs.parameters"));
        }
        for parameter in &template.outputs.parameters {
            known.insert(format!("{prefix}.outputs.parameters.{}", parameter.name));
            self.add_output("parameters", &parameter.global_name, ANY_OUTPUT_PARAMETER, known);
        }
        for artifact in &template.outputs.artifacts {
            known.insert(format!("{prefix}.outputs.artifacts.{}", artifact.name));
            self.add_output("artifacts", &artifact.global_name, ANY_OUTPUT_ARTIFACT, known);
        }
    }

    fn add_output(&mut self, kind: &str, name: &str, any: &str, known: &mut Known) {
        if name.is_empty() {
            return;
        }
        if names::is_variable(name) {
            known.insert(any.to_owned());
        } else {
            let name = format!("workflow.outputs.{kind}.{name}");
            self.add_global(&name);
            known.insert(name);
        }
    }
}
