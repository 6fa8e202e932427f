//! The conditions of resource templates: Kubernetes' label selectors over the fields of an object.

use std::borrow::Cow;

use serde_json::Value;

/// A condition that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

/// Requirements of which all, or any, must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conditions(Vec<Requirement>);

/// One requirement on one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    path: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Exists,
    Absent,
    In,
    NotIn,
    Greater,
    Less,
}

impl Conditions {
    /// Reads a condition: `status.succeeded > 0, status.phase in (Ready, Done), !status.error`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut rest = text.trim();
        let mut requirements = Vec::new();
        while !rest.is_empty() {
            let (requirement, after) = requirement(rest)?;
            requirements.push(requirement);
            rest = after.trim_start();
            if let Some(after) = rest.strip_prefix(',') {
                rest = after.trim_start();
                if rest.is_empty() {
                    return Err(SelectorError("found '', expected: identifier after ','".to_owned()));
                }
            } else if !rest.is_empty() {
                return Err(SelectorError(format!("found '{rest}', expected: ',' or 'end of string'")));
            }
        }
        Ok(Self(requirements))
    }

    /// The first requirement that holds: how a failure condition is meant.
    pub fn any(&self, object: &Value) -> Option<&Requirement> {
        self.0.iter().find(|requirement| requirement.holds(object))
    }

    /// Whether all requirements hold: how a success condition is meant.
    pub fn all(&self, object: &Value) -> bool {
        self.0.iter().all(|requirement| requirement.holds(object))
    }
}

impl std::fmt::Display for Requirement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (path, values) = (&self.path, self.values.join(","));
        match self.operator {
            Operator::Exists => f.write_str(path),
            Operator::Absent => write!(f, "!{path}"),
            Operator::In if self.values.len() == 1 => write!(f, "{path}={values}"),
            Operator::In => write!(f, "{path} in ({values})"),
            Operator::NotIn if self.values.len() == 1 => write!(f, "{path}!={values}"),
            Operator::NotIn => write!(f, "{path} notin ({values})"),
            Operator::Greater => write!(f, "{path}>{values}"),
            Operator::Less => write!(f, "{path}<{values}"),
        }
    }
}

impl Requirement {
    fn holds(&self, object: &Value) -> bool {
        let found = at(object, &self.path);
        let Some(found) = found else { return matches!(self.operator, Operator::Absent | Operator::NotIn) };
        let shown: Cow<'_, str> = match found {
            Value::String(text) => Cow::Borrowed(text),
            Value::Null => Cow::Borrowed(""),
            value => Cow::Owned(value.to_string()),
        };
        let numbers = || shown.parse::<i64>().ok().zip(self.values.first().and_then(|value| value.parse::<i64>().ok()));
        match self.operator {
            Operator::Exists => true,
            Operator::Absent => false,
            Operator::In => self.values.iter().any(|value| *value == shown),
            Operator::NotIn => self.values.iter().all(|value| *value != shown),
            Operator::Greater => numbers().is_some_and(|(found, bound)| found > bound),
            Operator::Less => numbers().is_some_and(|(found, bound)| found < bound),
        }
    }
}

/// A field by its path; numbers are places in lists, `#` a list's length.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, name| match value {
        Value::Array(list) => list.get(name.parse::<usize>().ok()?),
        Value::Object(fields) => fields.get(name),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

fn requirement(text: &str) -> Result<(Requirement, &str), SelectorError> {
    if let Some(rest) = text.strip_prefix('!') {
        let (path, rest) = key(rest.trim_start())?;
        return Ok((Requirement { path, operator: Operator::Absent, values: Vec::new() }, rest));
    }
    let (path, rest) = key(text)?;
    let rest = rest.trim_start();
    for (sign, operator) in [("==", Operator::In), ("!=", Operator::NotIn), ("=", Operator::In)] {
        if let Some(rest) = rest.strip_prefix(sign) {
            let (value, rest) = word(rest.trim_start());
            check_value(value)?;
            return Ok((Requirement { path, operator, values: vec![value.to_owned()] }, rest));
        }
    }
    for (sign, operator) in [(">", Operator::Greater), ("<", Operator::Less)] {
        if let Some(rest) = rest.strip_prefix(sign) {
            let (value, rest) = word(rest.trim_start());
            if value.parse::<i64>().is_err() {
                return Err(SelectorError(format!(
                    "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                )));
            }
            return Ok((Requirement { path, operator, values: vec![value.to_owned()] }, rest));
        }
    }
    let (name, after) = word(rest);
    let operator = match name {
        "in" => Operator::In,
        "notin" => Operator::NotIn,
        _ => return Ok((Requirement { path, operator: Operator::Exists, values: Vec::new() }, rest)),
    };
    let (values, rest) = list(after.trim_start())?;
    Ok((Requirement { path, operator, values }, rest))
}

fn list(text: &str) -> Result<(Vec<String>, &str), SelectorError> {
    let inside = text.strip_prefix('(').ok_or_else(|| SelectorError(format!("found '{text}' expected: '('")))?;
    let (inside, rest) =
        inside.split_once(')').ok_or_else(|| SelectorError("found '', expected: ',' or ')'".to_owned()))?;
    let values: Vec<String> = inside.split(',').map(|value| value.trim().to_owned()).collect();
    values.iter().try_for_each(|value| check_value(value))?;
    Ok((values, rest))
}

fn word(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| c.is_whitespace() || "=!(),<>".contains(c)).unwrap_or(text.len()))
}

fn key(text: &str) -> Result<(String, &str), SelectorError> {
    let (key, rest) = word(text);
    let name = key.rsplit('/').next().unwrap_or_default();
    if name.is_empty() || !is_qualified(name) {
        return Err(SelectorError(format!(
            "key: Invalid value: {key:?}: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
        )));
    }
    Ok((key.to_owned(), rest))
}

fn check_value(value: &str) -> Result<(), SelectorError> {
    if value.is_empty() || is_qualified(value) {
        return Ok(());
    }
    Err(SelectorError(format!(
        "values[0]: Invalid value: {value:?}: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    )))
}

fn is_qualified(name: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    name.len() <= 63
        && edge(name.chars().next())
        && edge(name.chars().last())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions() {
        let job =
            json!({"status": {"succeeded": 2, "phase": "Running", "ready": true, "conditions": [{"type": "Done"}]}});
        for (text, all) in [
            ("status.succeeded > 1", true),
            ("status.succeeded>2", false),
            ("status.succeeded < 3, status.phase == Running", true),
            ("status.succeeded = 2", true),
            ("status.phase in (Failed, Running)", true),
            ("status.phase notin (Failed, Running)", false),
            ("status.phase != Failed", true),
            ("status.missing != Failed", true),
            ("status.missing == Failed", false),
            ("status.missing > 0", false),
            ("status.phase > 0", false),
            ("!status.missing", true),
            ("status.phase", true),
            ("status.conditions.0.type == Done", true),
            ("status.ready == true", true),
        ] {
            assert_eq!(Conditions::parse(text).unwrap().all(&job), all, "{text}");
        }
    }

    #[test]
    fn not_conditions() {
        for text in ["a >", "a > b", "a in b", "a in (b", "== 2", "a == b c", "a,", "a == b!", "-a"] {
            assert!(Conditions::parse(text).is_err(), "{text}");
        }
    }
}
