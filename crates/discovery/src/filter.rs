//! Consul's filter expressions: which rows of an answer a client wants.
//!
//! The language is the one of Consul 1.22: selectors are checked against what the rows of an endpoint have before any
//! row is looked at, and every complaint is in Consul's words. Rows are JSON objects as Consul's clients see them.

mod fields;
mod literal;
mod parse;
mod position;
mod validate;

#[cfg(test)]
mod tests;

pub use fields::Subject;

use std::sync::Arc;

use regex::Regex;
use serde_json::Value;

use fields::{Field, Type};

/// Longer expressions are refused unread.
pub const LENGTH_MAX: usize = 8 * 1024;

/// A checked expression.
#[derive(Debug, Clone)]
pub struct Filter {
    root: Arc<Expression>,
    fields: &'static [Field],
}

#[derive(Debug)]
enum Expression {
    Not(Arc<Expression>),
    And(Arc<Expression>, Arc<Expression>),
    Or(Arc<Expression>, Arc<Expression>),
    Match(Match),
}

/// One comparison.
#[derive(Debug)]
struct Match {
    selector: Vec<String>,
    operator: Operator,
    value: Operand,
}

/// What is compared with.
#[derive(Debug)]
enum Operand {
    None,
    Raw(String),
    Number(i64),
    Bool(bool),
    Pattern(Regex),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    In,
    NotIn,
    IsEmpty,
    IsNotEmpty,
    Matches,
    NotMatches,
}

impl Operator {
    fn name(self) -> &'static str {
        match self {
            Self::Equal => "Equal",
            Self::NotEqual => "Not Equal",
            Self::In => "In",
            Self::NotIn => "Not In",
            Self::IsEmpty => "Is Empty",
            Self::IsNotEmpty => "Is Not Empty",
            Self::Matches => "Matches",
            Self::NotMatches => "Not Matches",
        }
    }

    /// Whether it says the opposite of what it compares by.
    fn negated(self) -> bool {
        matches!(self, Self::NotEqual | Self::NotIn | Self::IsNotEmpty | Self::NotMatches)
    }

    /// What it says about a key that a map does not have. That nothing matches it is Consul's own slip, kept.
    fn about_absent(self) -> bool {
        !matches!(self, Self::Equal | Self::IsNotEmpty | Self::In)
    }
}

impl Filter {
    /// An expression over what `subject` has. The error is the body of Consul's 400.
    pub fn parse(text: &str, subject: Subject) -> Result<Self, String> {
        let fields = subject.fields();
        let checked = if text.len() > LENGTH_MAX {
            Err(format!("expression is longer than {LENGTH_MAX} bytes"))
        } else {
            parse::parse(text).and_then(|parsed| validate::expression(parsed, fields))
        };
        checked
            .map(|root| Self { root, fields })
            .map_err(|error| format!("Failed to create boolean expression evaluator: {error}"))
    }

    /// Whether a row is wanted.
    pub fn matches(&self, row: &Value) -> bool {
        evaluate(&self.root, row, self.fields)
    }
}

fn evaluate(expression: &Expression, row: &Value, fields: &'static [Field]) -> bool {
    match expression {
        Expression::Not(inner) => !evaluate(inner, row, fields),
        Expression::And(left, right) => evaluate(left, row, fields) && evaluate(right, row, fields),
        Expression::Or(left, right) => evaluate(left, row, fields) || evaluate(right, row, fields),
        Expression::Match(comparison) => follow(comparison, 0, row, &Type::One(fields)),
    }
}

/// Walks the selector from `depth` on; what is not in the JSON counts as empty, as Go's zero values do.
fn follow(comparison: &Match, depth: usize, value: &Value, kind: &Type) -> bool {
    let Some(step) = comparison.selector.get(depth) else {
        return compare(comparison, value, kind);
    };
    match kind {
        Type::One(fields) => fields::find(fields, step)
            .is_some_and(|field| follow(comparison, depth + 1, value.get(step).unwrap_or(&Value::Null), &field.kind)),
        // One element that matches is enough, also where the comparison is negated.
        Type::Many(fields) => value
            .as_array()
            .is_some_and(|items| items.iter().any(|item| follow(comparison, depth, item, &Type::One(fields)))),
        Type::Map(inner) => match value.get(step) {
            Some(found) => follow(comparison, depth + 1, found, inner),
            None => comparison.operator.about_absent(),
        },
        Type::Text | Type::Number | Type::Bool | Type::Texts => false,
    }
}

fn compare(comparison: &Match, value: &Value, kind: &Type) -> bool {
    let holds = match comparison.operator {
        Operator::Equal | Operator::NotEqual => equal(&comparison.value, value),
        Operator::In | Operator::NotIn => contains(&comparison.value, value, kind),
        Operator::IsEmpty | Operator::IsNotEmpty => length(value) == 0,
        Operator::Matches | Operator::NotMatches => match &comparison.value {
            Operand::Pattern(pattern) => pattern.is_match(value.as_str().unwrap_or_default()),
            _ => false,
        },
    };
    holds != comparison.operator.negated()
}

fn equal(operand: &Operand, value: &Value) -> bool {
    match operand {
        Operand::Raw(text) => value.as_str().unwrap_or_default() == text,
        Operand::Number(number) => value.as_i64().unwrap_or_default() == *number,
        Operand::Bool(flag) => value.as_bool().unwrap_or_default() == *flag,
        Operand::None | Operand::Pattern(_) => false,
    }
}

fn contains(operand: &Operand, value: &Value, kind: &Type) -> bool {
    let Operand::Raw(text) = operand else { return false };
    match kind {
        Type::Text => value.as_str().unwrap_or_default().contains(text.as_str()),
        Type::Texts => value.as_array().is_some_and(|items| items.iter().any(|item| item.as_str() == Some(text))),
        _ => value.get(text).is_some(),
    }
}

fn length(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    }
}
