//! Waiting for a person or a time.

use super::{Call, Operation, duration};
use crate::spec::{AnyString, Outputs, Parameter, Template};
use crate::status::{NodePhase, NodeStatus, NodeType};

impl Operation<'_> {
    pub(super) fn execute_suspend(&mut self, name: &str, call: &Call<'_>, template: &Template) -> Result<(), String> {
        if self.node(name).is_none() {
            let node = self.make_running(name, NodeType::Suspend, call, template, NodePhase::Pending);
            promise(node, template);
            offer(node);
        }
        let wait = template.suspend.as_ref().map(|suspend| suspend.duration.as_str()).filter(|text| !text.is_empty());
        if let Some(wait) = wait {
            let wait = duration::parsed(wait)?;
            let start = self.node(name).and_then(|node| node.started_at.time()).unwrap_or(self.now);
            let end = start.checked_add(wait).unwrap_or(jiff::Timestamp::MAX);
            if self.now >= end {
                let id = self.id(name);
                if let Some(outputs) = self.status.nodes.get_mut(&id).and_then(|node| node.outputs.as_mut()) {
                    take_defaults(outputs)?;
                }
                self.mark(name, NodePhase::Succeeded, None);
                return Ok(());
            }
            self.wake(end);
        }
        self.mark(name, NodePhase::Running, None);
        Ok(())
    }
}

/// Outputs that whoever resumes will supply.
fn promise(node: &mut NodeStatus, template: &Template) {
    for parameter in &template.outputs.parameters {
        let Some(from) = parameter.value_from.as_ref().filter(|from| from.supplied.is_some()) else { continue };
        let mut from = from.clone();
        if from.default.is_none() {
            from.default = template.inputs.parameter(&parameter.name).and_then(|input| input.default.clone());
        }
        let outputs = node.outputs.get_or_insert_with(Outputs::default);
        outputs.parameters.push(Parameter { value_from: Some(from), ..parameter.clone() });
    }
}

/// Inputs whose value lists choices become a choice.
fn offer(node: &mut NodeStatus) {
    for parameter in node.inputs.iter_mut().flat_map(|inputs| &mut inputs.parameters) {
        let text = parameter.value.as_ref().map_or("", AnyString::as_str);
        let Ok(read) = serde_json::from_str::<Parameter>(text) else { continue };
        if let Some(choices) = read.choices.filter(|choices| !choices.is_empty()) {
            parameter.default = parameter.default.take().or_else(|| choices.first().cloned());
            parameter.choices = Some(choices);
        }
    }
}

/// Supplied outputs that nobody supplied take their default.
pub(crate) fn take_defaults(outputs: &mut Outputs) -> Result<(), String> {
    for parameter in &mut outputs.parameters {
        let Some(from) = parameter.value_from.as_ref().filter(|from| from.supplied.is_some()) else { continue };
        let Some(default) = from.default.clone() else {
            return Err(format!(
                "raw output parameter '{}' has not been set and does not have a default value",
                parameter.name
            ));
        };
        parameter.value = Some(default);
        parameter.value_from = None;
    }
    Ok(())
}
