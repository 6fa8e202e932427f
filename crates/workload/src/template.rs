//! Replacing `{{variables}}` and `{{=expressions}}`.

mod scope;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::scope::Scope;
use crate::expression;

/// Nested variables are replaced from the inside, this often at most.
const NESTING_MAX: usize = 8;
/// The largest text that replacing may make.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// What happens to a variable that nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unresolved<'a> {
    /// It stays as it is written.
    Keep,
    /// It is an error.
    Error,
    /// It is an error where its name starts with one of these and a dot; else it stays.
    Strict(&'a [&'a str]),
}

/// A text whose variables cannot be replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Nobody knows the variable (yet).
    #[error("failed to resolve {{{{{0}}}}}")]
    Missing(String),
    /// Nobody knows a variable of an expression (yet).
    #[error("failed to evaluate expression: {0} is missing")]
    MissingInExpression(String),
    /// The output is absent for good.
    #[error("unable to substitute {{{{{0}}}}}: output is an absent optional (skipped/omitted node with no default)")]
    Absent(String),
    /// The expression fails.
    #[error("failed to evaluate expression: {0}")]
    Expression(String),
    /// The result is not what it was made from.
    #[error("cannot finish template replacement: {0}")]
    Shape(String),
    /// The result is too large.
    #[error("cannot finish template replacement: more than 64 MiB")]
    TooLarge,
}

impl TemplateError {
    /// Whether the variable may still appear.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing(_) | Self::MissingInExpression(_))
    }
}

/// Replaces in everything that is text in a value, keys included.
pub fn replace_json<T: Serialize + DeserializeOwned>(
    value: &T,
    scope: &Scope,
    unresolved: Unresolved<'_>,
) -> Result<T, TemplateError> {
    let shape = |error: serde_json::Error| TemplateError::Shape(error.to_string());
    let replaced = replace_value(serde_json::to_value(value).map_err(shape)?, scope, unresolved)?;
    serde_json::from_value(replaced).map_err(shape)
}

/// Replaces in everything that is text in JSON, keys included.
pub fn replace_value(value: Value, scope: &Scope, unresolved: Unresolved<'_>) -> Result<Value, TemplateError> {
    Ok(match value {
        Value::String(text) if text.contains("{{") => Value::String(replace_text(&text, scope, unresolved)?),
        Value::Array(values) => Value::Array(
            values.into_iter().map(|value| replace_value(value, scope, unresolved)).collect::<Result<_, _>>()?,
        ),
        Value::Object(fields) => {
            let mut replaced = serde_json::Map::new();
            for (key, value) in fields {
                let key = if key.contains("{{") { replace_text(&key, scope, unresolved)? } else { key };
                replaced.insert(key, replace_value(value, scope, unresolved)?);
            }
            Value::Object(replaced)
        }
        value @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => value,
    })
}

/// Replaces in one text. What is between braces and no variable is left alone, and so is what values bring along.
pub fn replace_text(text: &str, scope: &Scope, unresolved: Unresolved<'_>) -> Result<String, TemplateError> {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(start) = rest.find("{{") {
        let Some(length) = rest[start + 2..].find("}}") else { break };
        let tag = &rest[start + 2..start + 2 + length];
        out.push_str(&rest[..start]);
        rest = &rest[start + length + 4..];
        if let Some(expression) = tag.strip_prefix('=') {
            replace_expression(expression, scope, unresolved, &mut out)?;
        } else {
            let mut tag = Cow::Borrowed(tag);
            for _ in 0..NESTING_MAX {
                let Some(begun) = nested_in(&tag, scope)? else { break };
                let Some(length) = rest.find("}}") else {
                    // the outer tag has no end
                    out.push_str("{{");
                    out.push_str(&begun);
                    out.push_str(rest);
                    return Ok(out);
                };
                tag = Cow::Owned(format!("{begun}{}", &rest[..length]));
                rest = &rest[length + 2..];
            }
            replace_variable(&tag, scope, unresolved, &mut out)?;
        }
        if out.len() > TEXT_BYTES_MAX {
            return Err(TemplateError::TooLarge);
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// The tags of a text: what is between `{{` and the `}}` that follows.
pub fn tags(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find("{{")?;
        let after = &rest[start + 2..];
        let end = after.find("}}")?;
        rest = &after[end + 2..];
        Some(&after[..end])
    })
}

/// The inside of a tag within a tag, with its value in its place.
fn nested_in(tag: &str, scope: &Scope) -> Result<Option<String>, TemplateError> {
    if scope.contains(tag.trim()) {
        return Ok(None);
    }
    let Some(at) = tag.rfind("{{").filter(|at| *at > 0) else { return Ok(None) };
    let inner = &tag[at + 2..];
    Ok(match scope.get(inner) {
        Some(Value::String(text)) => Some(format!("{}{text}", &tag[..at])),
        Some(Value::Null) => return Err(TemplateError::Absent(tag.to_owned())),
        Some(_) | None => None,
    })
}

fn replace_variable(
    tag: &str,
    scope: &Scope,
    unresolved: Unresolved<'_>,
    out: &mut String,
) -> Result<(), TemplateError> {
    let name = tag.trim();
    match scope.get(name) {
        Some(Value::String(text)) => out.push_str(text),
        Some(Value::Null) => return Err(TemplateError::Absent(tag.to_owned())),
        Some(value) => out.push_str(&value.to_string()),
        None => {
            let strict = match unresolved {
                Unresolved::Keep => false,
                Unresolved::Error => true,
                // artifacts may be optional: whoever resolves them decides
                Unresolved::Strict(prefixes) => is_below(name, prefixes) && !name.contains(".outputs.artifacts."),
            };
            if strict {
                return Err(TemplateError::Missing(tag.to_owned()));
            }
            keep(tag, out);
        }
    }
    Ok(())
}

fn replace_expression(
    expression: &str,
    scope: &Scope,
    unresolved: Unresolved<'_>,
    out: &mut String,
) -> Result<(), TemplateError> {
    let mut keep_failures = unresolved == Unresolved::Keep;
    if let Ok(names) = expression::variables(expression) {
        let missing: Vec<&String> = names.iter().filter(|name| !scope.reaches(name)).collect();
        let strict = |name: &str| match unresolved {
            Unresolved::Keep => false,
            Unresolved::Error => true,
            Unresolved::Strict(prefixes) => is_below(name, prefixes),
        };
        if let Some(name) = missing.iter().find(|name| strict(name)) {
            return Err(TemplateError::MissingInExpression((*name).clone()));
        }
        keep_failures |= !missing.is_empty();
        if keep_failures && missing.iter().any(|name| expression::LATE.contains(&name.as_str())) {
            keep(&format!("={expression}"), out);
            return Ok(());
        }
    }
    match expression::evaluate(expression, scope) {
        Ok(Value::String(text)) => out.push_str(&text),
        Ok(Value::Null) if !keep_failures => {
            return Err(TemplateError::Expression(format!("{expression:?} yields nothing")));
        }
        Ok(value) if !value.is_null() => out.push_str(&value.to_string()),
        Err(error) if !keep_failures => return Err(TemplateError::Expression(error.to_string())),
        Ok(_) | Err(_) => keep(&format!("={expression}"), out),
    }
    Ok(())
}

fn keep(tag: &str, out: &mut String) {
    out.push_str("{{");
    out.push_str(tag);
    out.push_str("}}");
}

fn is_below(name: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}
