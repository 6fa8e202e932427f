//! `x-kubernetes-validations`: rules written as CEL expressions.

use serde_json::Value;

use super::node::Schema;
use crate::field::FieldError;

/// One rule of a node.
#[derive(Debug, Default)]
pub struct Rule {
    /// The expression.
    pub rule: String,
}

impl Rule {
    /// Why the rule is refused.
    pub fn error(&self) -> Option<&str> {
        None
    }

    /// Why the message expression is refused.
    pub fn message_error(&self) -> Option<&str> {
        None
    }

    /// Compares with what was before.
    pub fn uses_old_self(&self) -> bool {
        false
    }
}

/// Below a path.
pub fn validate_at(
    _schema: &Schema,
    _value: &Value,
    _old: Option<&Value>,
    _path: &crate::field::Path,
) -> Vec<FieldError> {
    Vec::new()
}

/// Compiles one entry of `x-kubernetes-validations`.
pub fn compile(raw: &Value, _node: &Schema, _whole: bool) -> Rule {
    Rule { rule: raw.get("rule").and_then(Value::as_str).unwrap_or_default().to_owned() }
}

/// Whether any node has rules.
pub fn has_rules(schema: &Schema) -> bool {
    schema.rules.as_ref().is_some_and(|rules| rules.validations_below || !rules.validations.is_empty())
}

/// Evaluates all rules.
pub fn validate(_schema: &Schema, _value: &Value, _old: Option<&Value>) -> Vec<FieldError> {
    Vec::new()
}
