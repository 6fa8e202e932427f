//! What variables a place in a Workflow sees.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Halt;
use crate::spec::{Artifact, Template};
use crate::template::{self, Scope, Unresolved};
use crate::{condition, expression};

/// Variables by name: text, null for an output of something that did not run, objects for artifacts.
#[derive(Debug, Clone, Default)]
pub(super) struct Values {
    by_name: BTreeMap<String, Value>,
    /// The same for those who look things up in it, made when first asked for.
    shared: OnceCell<Arc<Scope>>,
}

impl Values {
    /// What the steps or tasks of a template see of its inputs.
    pub(super) fn of(template: &Template) -> Self {
        let mut values = Self::default();
        for parameter in &template.inputs.parameters {
            let text = parameter.value.as_ref().map(|value| value.as_str().to_owned()).unwrap_or_default();
            values.text(format!("inputs.parameters.{}", parameter.name), text);
        }
        for artifact in &template.inputs.artifacts {
            values.artifact(format!("inputs.artifacts.{}", artifact.name), artifact);
        }
        values
    }

    pub(super) fn text(&mut self, name: impl Into<String>, text: impl Into<String>) {
        self.put(name.into(), Value::String(text.into()));
    }

    pub(super) fn absent(&mut self, name: String) {
        self.put(name, Value::Null);
    }

    pub(super) fn truth(&mut self, name: String, truth: bool) {
        self.put(name, Value::Bool(truth));
    }

    pub(super) fn artifact(&mut self, name: String, artifact: &Artifact) {
        // Artifacts are plain data; one that cannot be written out does not exist.
        self.put(name, serde_json::to_value(artifact).unwrap_or_default());
    }

    fn put(&mut self, name: String, value: Value) {
        self.shared.take();
        self.by_name.insert(name, value);
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.by_name.get(name)
    }

    /// Whether an argument is nothing but a reference to an output of something that did not run.
    pub(super) fn is_absent(&self, argument: &str) -> bool {
        let inner = argument.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
        inner.is_some_and(|name| self.by_name.get(name.trim()) == Some(&Value::Null))
    }

    /// Texts and absent ones over those of `below`; artifacts are no variables.
    pub(super) fn over(&self, below: &Self) -> Scope {
        let mut scope = Scope::over(below.shared.get_or_init(|| Arc::new(below.whole())));
        for (name, value) in self.by_name.iter().filter(|(_, value)| !value.is_object()) {
            scope.insert(name, value.clone());
        }
        scope
    }

    /// Everything, artifacts too.
    pub(super) fn whole(&self) -> Scope {
        self.by_name.iter().map(|(name, value)| (name, value.clone())).collect()
    }
}

/// Replaces variables; those that are not known stay.
pub(super) fn replaced<T: Serialize + DeserializeOwned>(value: &T, scope: &Scope) -> Result<T, Halt> {
    template::replace_json(value, scope, Unresolved::Keep).map_err(|error| Halt::Failed(error.to_string()))
}

/// Replaces variables; outputs of steps and tasks must be known.
pub(super) fn resolved<T: Serialize + DeserializeOwned>(value: &T, scope: &Scope) -> Result<T, Halt> {
    template::replace_json(value, scope, Unresolved::Strict(&["steps", "tasks"]))
        .map_err(|error| if error.is_missing() { Halt::Later } else { Halt::Failed(error.to_string()) })
}

/// Whether a `when` with its variables replaced holds; an empty one does.
pub(super) fn holds(when: &str) -> Result<bool, String> {
    if when.is_empty() { Ok(true) } else { condition::holds(when).map_err(|error| error.to_string()) }
}

/// Evaluates an expression that must be true or false.
pub(super) fn decided(text: &str, scope: &Scope) -> Result<bool, String> {
    match expression::evaluate(text, scope) {
        Ok(Value::Bool(truth)) => Ok(truth),
        Ok(other) => Err(format!("unable to cast expression result '{other}' to bool")),
        Err(error) => Err(error.to_string()),
    }
}

/// Evaluates an expression.
pub(super) fn evaluated(text: &str, scope: &Scope) -> Result<Value, String> {
    expression::evaluate(text, scope).map_err(|error| error.to_string())
}

/// A value as text: itself, or JSON.
pub(super) fn worded(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
