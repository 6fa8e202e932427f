//! What nodes give, to those who follow, to their template and to the Workflow.

use std::collections::BTreeMap;

use serde_json::Value;

use super::scope::{Values, evaluated, replaced, worded};
use super::{Call, Operation, Place};
use crate::spec::{AnyString, Artifact, Outputs, Step, Template, ValueFrom};
use crate::status::names::loop_index;
use crate::status::{NodePhase, NodeStatus};

impl Operation<'_> {
    /// What others see of a node.
    pub(super) fn show_node(&self, values: &mut Values, prefix: &str, node: &NodeStatus) {
        let node = self.effective(node);
        values.text(format!("{prefix}.id"), &*node.id);
        for (name, text) in [
            ("startedAt", node.started_at.text()),
            ("finishedAt", node.finished_at.text()),
            ("ip", node.pod_ip.clone()),
            ("status", node.phase.word().to_owned()),
            ("hostNodeName", node.host_node_name.clone()),
        ] {
            if !text.is_empty() {
                values.text(format!("{prefix}.{name}"), text);
            }
        }
        if let Some(outputs) = &node.outputs {
            show_outputs(values, prefix, outputs);
        }
    }

    /// What the steps of a template see of the whole Workflow.
    pub(super) fn show_workflow(&self, values: &mut Values) {
        let Some(outputs) = &self.status.outputs else { return };
        for parameter in &outputs.parameters {
            if let Some(value) = &parameter.value {
                values.text(format!("workflow.outputs.parameters.{}", parameter.name), value.as_str());
            }
        }
        for artifact in &outputs.artifacts {
            values.artifact(format!("workflow.outputs.artifacts.{}", artifact.name), artifact);
        }
    }

    /// What others see of a step that did not run: defaults of its outputs, or that they are absent for good.
    pub(super) fn show_skipped(
        &mut self,
        values: &mut Values,
        prefix: &str,
        id: &str,
        step: &Step,
        place: &Place,
        artifacts: bool,
    ) {
        let Some(node) = self.status.nodes.get(id) else { return };
        let skipped = matches!(node.phase, NodePhase::Skipped | NodePhase::Omitted);
        if node.outputs.is_some() || !skipped {
            return;
        }
        let call = call_of(step, place);
        let Ok((_, template)) = self.resolve(&call) else { return };
        for parameter in &template.outputs.parameters {
            let name = format!("{prefix}.outputs.parameters.{}", parameter.name);
            match parameter.value_from.as_ref().and_then(|from| from.default.as_ref()) {
                Some(default) => values.text(name, default.as_str()),
                None => values.absent(name),
            }
        }
        if artifacts {
            for artifact in &template.outputs.artifacts {
                values.artifact(format!("{prefix}.outputs.artifacts.{}", artifact.name), &Artifact::default());
            }
        }
    }

    /// What others see of the nodes of one step with items, together.
    pub(super) fn show_all(
        &self,
        values: &mut Values,
        prefix: &str,
        boundary: &str,
        name: &str,
    ) -> Result<bool, String> {
        let start = format!("{name}(");
        let is_item = |node: &&NodeStatus| {
            node.boundary_id == boundary
                && node.name.starts_with(&start)
                && !node.is_hooked()
                && !node.is_retried()
                && node.kind != crate::status::NodeType::Skipped
        };
        let mut nodes: Vec<&NodeStatus> = self.status.nodes.iter().filter(is_item).collect();
        if nodes.is_empty() {
            return Ok(false);
        }
        nodes.sort_by_key(|node| loop_index(&node.name));
        aggregate(values, prefix, &nodes)?;
        Ok(true)
    }

    /// What a template of steps or tasks gives.
    #[expect(clippy::unused_self, reason = "it reads as one of the steps of an operation")]
    pub(super) fn template_outputs(&self, template: &Template, values: &Values) -> Result<Option<Outputs>, String> {
        let promised = &template.outputs;
        if promised.is_empty() {
            return Ok(None);
        }
        let mut outputs = Outputs::default();
        for parameter in &promised.parameters {
            let Some(from) = &parameter.value_from else {
                return Err("output parameters must have a valueFrom specified".to_owned());
            };
            let found = values.resolve_parameter(from);
            let value = match (found, &from.default) {
                (Ok(Value::Null) | Err(_), Some(default)) => default.as_str().to_owned(),
                (Ok(Value::Null), None) => {
                    return Err(format!(
                        "output parameter {:?}: {:?} is an absent optional (skipped/omitted node output with no default)",
                        parameter.name, from.parameter
                    ));
                }
                (Ok(value), _) => worded(&value),
                (Err(error), None) => return Err(error),
            };
            let mut parameter = parameter.clone();
            (parameter.value, parameter.value_from) = (Some(AnyString::from(value)), None);
            outputs.parameters.push(parameter);
        }
        for artifact in &promised.artifacts {
            if artifact.from.is_empty() && artifact.from_expression.is_empty() {
                continue;
            }
            match values.resolve_artifact(artifact) {
                Ok(found) => outputs.artifacts.push(Artifact {
                    name: artifact.name.clone(),
                    global_name: if artifact.global_name.is_empty() {
                        found.global_name.clone()
                    } else {
                        artifact.global_name.clone()
                    },
                    ..found
                }),
                Err(_) if artifact.optional => {}
                Err(error) => return Err(format!("unable to resolve outputs from scope: {error}")),
            }
        }
        Ok(Some(outputs))
    }

    /// Makes outputs with a global name the Workflow's.
    pub(super) fn publish(&mut self, outputs: Option<&Outputs>) {
        let Some(outputs) = outputs else { return };
        for parameter in outputs.parameters.iter().filter(|parameter| !parameter.global_name.is_empty()) {
            let Some(value) = &parameter.value else { continue };
            self.globals.text(format!("workflow.outputs.parameters.{}", parameter.global_name), value.as_str());
            let all = &mut self.status.outputs.get_or_insert_with(Outputs::default).parameters;
            let found = all.iter_mut().find(|one| one.name == parameter.global_name);
            let global = crate::spec::Parameter {
                name: parameter.global_name.clone(),
                value: parameter.value.clone(),
                ..crate::spec::Parameter::default()
            };
            match found {
                Some(found) if *found == global => continue,
                Some(found) => *found = global,
                None => all.push(global),
            }
            self.changed = true;
        }
        for artifact in outputs.artifacts.iter().filter(|artifact| !artifact.global_name.is_empty()) {
            let global = Artifact {
                name: artifact.global_name.clone(),
                global_name: String::new(),
                path: String::new(),
                ..artifact.clone()
            };
            let all = &mut self.status.outputs.get_or_insert_with(Outputs::default).artifacts;
            match all.iter_mut().find(|one| one.name == global.name) {
                Some(found) if *found == global => continue,
                Some(found) => *found = global,
                None => all.push(global),
            }
            self.changed = true;
        }
    }
}

impl Values {
    /// The value that an output parameter of a template comes from.
    fn resolve_parameter(&self, from: &ValueFrom) -> Result<Value, String> {
        if !from.expression.is_empty() {
            return match evaluated(&from.expression, &self.whole()) {
                Ok(Value::Null) => Err(format!("failed to evaluate expression {:?}", from.expression)),
                other => other,
            };
        }
        if from.parameter.is_empty() {
            return Ok(Value::String(String::new()));
        }
        self.variable(&from.parameter)
    }

    /// The artifact that another one comes from.
    pub(super) fn resolve_artifact(&self, artifact: &Artifact) -> Result<Artifact, String> {
        let value = if artifact.from_expression.is_empty() {
            self.variable(&artifact.from)?
        } else {
            evaluated(&artifact.from_expression, &self.whole())?
        };
        if !value.is_object() {
            return Err(format!("Variable {{{{{}}}}} is not an artifact", artifact.from));
        }
        let mut found: Artifact = serde_json::from_value(value).map_err(|error| error.to_string())?;
        if !artifact.sub_path.is_empty() {
            let path: String = replaced(&artifact.sub_path, &self.whole()).map_err(|halt| halt.words().to_owned())?;
            append_to_key(&mut found, &path);
        }
        Ok(found)
    }

    /// The value of `{{name}}` or of `{{=expression}}`.
    fn variable(&self, tag: &str) -> Result<Value, String> {
        let tag = tag.trim();
        let inner = tag.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")).unwrap_or(tag).trim();
        if let Some(expression) = inner.strip_prefix('=') {
            return evaluated(expression, &self.whole());
        }
        self.get(inner).cloned().ok_or_else(|| format!("Unable to resolve: {inner:?}"))
    }
}

/// What calls the template of a step.
pub(super) fn call_of<'c>(step: &'c Step, place: &'c Place) -> Call<'c> {
    Call {
        template_name: &step.template,
        template_ref: step.template_ref.as_ref(),
        inline: step.inline.as_deref(),
        scope: place,
        boundary: "",
        flag: None,
        on_exit: false,
        caller: Some(("steps.name", &step.name)),
        deadline: None,
    }
}

fn show_outputs(values: &mut Values, prefix: &str, outputs: &Outputs) {
    if let Some(result) = &outputs.result {
        values.text(format!("{prefix}.outputs.result"), &**result);
    }
    if let Some(code) = &outputs.exit_code {
        values.text(format!("{prefix}.exitCode"), &**code);
    }
    for parameter in &outputs.parameters {
        if let Some(value) = &parameter.value {
            values.text(format!("{prefix}.outputs.parameters.{}", parameter.name), value.as_str());
        }
    }
    for artifact in &outputs.artifacts {
        values.artifact(format!("{prefix}.outputs.artifacts.{}", artifact.name), artifact);
    }
}

/// Lists of results and parameters, in the order of items; those that did not succeed are left out.
fn aggregate(values: &mut Values, prefix: &str, nodes: &[&NodeStatus]) -> Result<(), String> {
    let mut results: Vec<Value> = Vec::new();
    let mut maps: Vec<BTreeMap<&str, &str>> = Vec::new();
    let mut lists: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.phase == NodePhase::Succeeded) {
        let Some(outputs) = &node.outputs else { continue };
        let mut map = BTreeMap::new();
        for parameter in &outputs.parameters {
            let value = parameter.value.as_ref().map_or("", AnyString::as_str);
            map.insert(parameter.name.as_str(), value);
            lists.entry(&parameter.name).or_default().push(value);
        }
        if !map.is_empty() {
            maps.push(map);
        }
        if let Some(result) = &outputs.result {
            results.push(item(result));
        }
    }
    let text = |error: serde_json::Error| error.to_string();
    values.text(format!("{prefix}.outputs.result"), serde_json::to_string(&results).map_err(text)?);
    values.text(format!("{prefix}.outputs.parameters"), serde_json::to_string(&maps).map_err(text)?);
    for (name, list) in lists {
        let parsed: Option<Vec<Value>> = list.iter().map(|one| structure(one)).collect();
        let json = match parsed {
            Some(values) => serde_json::to_string(&values),
            None => serde_json::to_string(&list),
        };
        values.text(format!("{prefix}.outputs.parameters.{name}"), json.map_err(text)?);
    }
    Ok(())
}

/// What a program printed, as an item: JSON if it is, else text.
fn item(result: &str) -> Value {
    serde_json::from_str(result)
        .ok()
        .filter(|value: &Value| !value.is_null())
        .unwrap_or_else(|| Value::String(result.to_owned()))
}

fn structure(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(|value: &Value| value.is_object() || value.is_array())
}

/// Goes on in an artifact's key by a path within it.
fn append_to_key(artifact: &mut Artifact, path: &str) {
    let joined = |key: &str| format!("{}/{}", key.trim_end_matches('/'), path.trim_start_matches('/'));
    if let Some(s3) = &mut artifact.location.s3 {
        s3.key = joined(&s3.key);
    }
    for (other, field) in [
        (&mut artifact.location.gcs, "key"),
        (&mut artifact.location.oss, "key"),
        (&mut artifact.location.azure, "blob"),
        (&mut artifact.location.hdfs, "path"),
    ] {
        if let Some(key) = other.as_mut().and_then(|other| other.get_mut(field))
            && let Some(text) = key.as_str()
        {
            *key = Value::String(joined(text));
        }
    }
}
