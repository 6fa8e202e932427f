//! What goes into a template, and the template with that in place.

use serde_json::Value;

use super::scope::{Values, replaced, worded};
use super::{Halt, Operation};
use crate::spec::{AnyString, Arguments, Artifact, Parameter, Template};

/// Stands for an output of something that did not run, until a default of the input takes its place.
pub(super) const ABSENT: &str = "\u{0}thane:absent-optional\u{0}";

impl Operation<'_> {
    /// The template with inputs from `arguments` and everything known in place.
    pub(super) fn with_arguments(
        &self,
        template: &Template,
        arguments: &Arguments,
        locals: &Values,
    ) -> Result<Template, Halt> {
        let mut template = template.clone();
        for input in &mut template.inputs.parameters {
            self.supply(input, arguments.parameter(&input.name))?;
        }
        for input in &mut template.inputs.artifacts {
            supply_artifact(input, arguments.artifact(&input.name))?;
        }
        self.substituted(&template, locals)
    }

    fn supply(&self, input: &mut Parameter, argument: Option<&Parameter>) -> Result<(), String> {
        if input.value.is_none() {
            input.value.clone_from(&input.default);
        }
        let is_absent = |argument: &&Parameter| argument.value.as_ref().is_some_and(|value| value.as_str() == ABSENT);
        if argument.as_ref().is_some_and(is_absent) && (input.value.is_some() || input.value_from.is_some()) {
            return Ok(());
        }
        match argument {
            Some(argument)
                if argument.value.as_ref().is_some_and(|value| value.as_str() == ABSENT)
                    && input.value.is_none()
                    && input.value_from.is_none() =>
            {
                return Err(format!(
                    "inputs.parameters.{}: argument references an absent optional (skipped/omitted node output with no default)",
                    input.name
                ));
            }
            Some(argument) if argument.value.is_some() => {
                input.value.clone_from(&argument.value);
                input.value_from = None;
            }
            Some(argument) => {
                input.value_from.clone_from(&argument.value_from);
                input.value = None;
            }
            None => {}
        }
        let Some(reference) = input.value_from.as_ref().and_then(|from| from.config_map_key_ref.as_ref()) else {
            return match input.value {
                Some(_) => Ok(()),
                None => Err(format!("inputs.parameters.{} was not supplied", input.name)),
            };
        };
        let scope = Values::default().over(&self.globals);
        let names = Value::from(vec![reference.name.clone(), reference.key.clone()]);
        let names = replaced(&names, &scope).map_err(|halt| halt.words().to_owned())?;
        let (name, key) = (worded(&names[0]), worded(&names[1]));
        let default = input.value_from.as_ref().and_then(|from| from.default.clone());
        match self.config_value(&name, &key).map(AnyString::from).ok().or(default) {
            Some(value) => input.value = Some(value),
            None => {
                let error = self.config_value(&name, &key).err().unwrap_or_default();
                return Err(format!("unable to retrieve inputs.parameters.{} from ConfigMap: {error}", input.name));
            }
        }
        Ok(())
    }

    /// A value of a `ConfigMap`.
    pub(super) fn config_value(&self, name: &str, key: &str) -> Result<String, String> {
        let namespace = &self.identity.namespace;
        let found = self.seen.sources.config_value(name, key);
        found.ok_or_else(|| format!("ConfigMap '{namespace}/{name}' does not have the key '{key}'"))
    }

    /// The template with globals, then its own inputs and paths in place.
    pub(super) fn substituted(&self, template: &Template, locals: &Values) -> Result<Template, Halt> {
        let mut scope = locals.over(&self.globals);
        let template = replaced(template, &scope)?;
        for input in &template.inputs.parameters {
            match (&input.value, &input.value_from) {
                (Some(value), _) => {
                    scope.insert(format!("inputs.parameters.{}", input.name), value.as_str());
                }
                (None, None) => return Err(Halt::Failed(format!("inputs.parameters.{} had no value", input.name))),
                (None, Some(_)) => {}
            }
        }
        let all = serde_json::to_string(&template.inputs.parameters).unwrap_or_default();
        scope.insert("inputs.parameters", all);
        for artifact in template.inputs.artifacts.iter().filter(|artifact| !artifact.path.is_empty()) {
            scope.insert(format!("inputs.artifacts.{}.path", artifact.name), artifact.path.as_str());
        }
        for artifact in template.outputs.artifacts.iter().filter(|artifact| !artifact.path.is_empty()) {
            scope.insert(format!("outputs.artifacts.{}.path", artifact.name), artifact.path.as_str());
        }
        for parameter in &template.outputs.parameters {
            if let Some(from) = parameter.value_from.as_ref().filter(|from| !from.path.is_empty()) {
                scope.insert(format!("outputs.parameters.{}.path", parameter.name), from.path.as_str());
            }
        }
        replaced(&template, &scope)
    }
}

fn supply_artifact(input: &mut Artifact, argument: Option<&Artifact>) -> Result<(), String> {
    let is_located = |artifact: &Artifact| artifact.location.is_complete() || artifact.location.key().is_some();
    if !input.optional && !is_located(input) {
        let Some(argument) = argument else { return Err(format!("inputs.artifacts.{} was not supplied", input.name)) };
        if !is_located(argument) {
            return Err(format!("inputs.artifacts.{} missing location information", input.name));
        }
    }
    if let Some(argument) = argument {
        let (path, mode, recurse_mode) = (std::mem::take(&mut input.path), input.mode, input.recurse_mode);
        *input = Artifact { path, mode, recurse_mode, ..argument.clone() };
    }
    Ok(())
}

/// Marks arguments that are nothing but a reference to an output of something that did not run.
pub(super) fn mark_absent(arguments: &mut Arguments, values: &Values) {
    for parameter in &mut arguments.parameters {
        if let Some(value) = &mut parameter.value
            && values.is_absent(value.as_str())
        {
            *value = AnyString::from(ABSENT);
        }
    }
}
