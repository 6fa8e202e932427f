//! The expressions of `{{=…}}`, `depends`, hooks and retries: expr-lang with Sprig's functions and Argo's own.

mod functions;
mod json;
mod jsonpath;
mod source;
mod sprig;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use expr::{Context, Environment};
use serde_json::Value;

pub use self::jsonpath::{JsonPathError, query as json_path};
use crate::template::Scope;

/// Variables that appear only later: an expression with them waits.
pub(crate) const LATE: [&str; 8] = [
    "item",
    "retries",
    "lastRetry.exitCode",
    "lastRetry.status",
    "lastRetry.duration",
    "lastRetry.message",
    "workflow.status",
    "workflow.failures",
];

/// An expression that cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// It is not an expression.
    #[error("{0}")]
    Syntax(String),
    /// It fails.
    #[error("{0}")]
    Failed(String),
    /// It is larger than an expression may be.
    #[error("the expression is too large or nested too deeply")]
    TooLarge,
    /// It is no truth value.
    #[error("unable to cast expression result '{0}' to bool")]
    NoBool(String),
}

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    functions::add(&mut environment);
    sprig::add(&mut environment);
    environment
});

/// The value of an expression; null where it yields nothing.
pub fn evaluate(expression: &str, scope: &Scope) -> Result<Value, ExpressionError> {
    let program = compile(expression)?;
    let mut context = Context::default();
    for (name, value) in expand(scope) {
        context.insert(name, json::from(&value));
    }
    let value = ENVIRONMENT.run(&program, &context).map_err(|error| ExpressionError::Failed(error.to_string()))?;
    Ok(json::into(&value))
}

/// Whether an expression holds.
pub fn holds(expression: &str, scope: &Scope) -> Result<bool, ExpressionError> {
    match evaluate(expression, scope)? {
        Value::Bool(truth) => Ok(truth),
        value => Err(ExpressionError::NoBool(value.to_string())),
    }
}

/// Whether a text matches a regular expression.
pub(crate) fn matches(text: &str, pattern: &str) -> Result<bool, String> {
    let context: Context = [("text", text.to_owned()), ("pattern", pattern.to_owned())].into_iter().collect();
    let matched = ENVIRONMENT.eval("text matches pattern", &context).map_err(|error| error.to_string())?;
    Ok(matched.as_bool().unwrap_or(false))
}

/// Whether it is an expression at all.
pub fn check(expression: &str) -> Result<(), ExpressionError> {
    compile(expression).map(drop)
}

/// The variables that an expression needs, each by its whole name.
pub fn variables(expression: &str) -> Result<Vec<String>, ExpressionError> {
    check(expression)?;
    source::variables(expression)
}

fn compile(expression: &str) -> Result<expr::Program, ExpressionError> {
    let rewritten = source::rewrite(expression)?;
    // its parser gives up by a panic on some texts that are no expressions
    std::panic::catch_unwind(|| expr::compile(&rewritten))
        .map_err(|_| ExpressionError::Syntax("the expression cannot be read".to_owned()))?
        .map_err(|error| ExpressionError::Syntax(error.to_string().trim().to_owned()))
}

/// Flat names as nested objects. Of a name and one below it, the one below stays.
fn expand(scope: &Scope) -> BTreeMap<String, Value> {
    let flat = scope.flat();
    let names: Vec<&&str> = flat.keys().collect();
    let mut root = serde_json::Map::new();
    for (index, name) in names.iter().enumerate() {
        let hidden = names
            .get(index + 1)
            .is_some_and(|next| next.strip_prefix(**name).is_some_and(|rest| rest.starts_with('.')));
        if !hidden {
            place(&mut root, name, flat[**name].clone());
        }
    }
    root.into_iter().collect()
}

fn place(fields: &mut serde_json::Map<String, Value>, name: &str, value: Value) {
    match name.split_once('.') {
        None => {
            fields.insert(name.to_owned(), value);
        }
        Some((first, rest)) => {
            let inner = fields.entry(first).or_insert_with(|| Value::Object(serde_json::Map::new()));
            if !inner.is_object() {
                *inner = Value::Object(serde_json::Map::new());
            }
            if let Value::Object(inner) = inner {
                place(inner, rest, value);
            }
        }
    }
}
