//! What a label selector means.

use std::fmt;

use serde_json::{Map, Value};

use super::{Error, parse};
use crate::field::{FieldError, Path};
use crate::names;

/// How a label's value is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    /// Is one of the values.
    In,
    /// Is absent or none of the values.
    NotIn,
    /// `=`
    Equals,
    /// `==`
    DoubleEquals,
    /// `!=`: absent or another value.
    NotEquals,
    /// Has the label.
    Exists,
    /// Has no such label.
    DoesNotExist,
    /// `>`: is a greater integer.
    GreaterThan,
    /// `<`: is a smaller integer.
    LessThan,
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Requirement {
    /// The label's key.
    pub key: String,
    /// The comparison.
    pub operator: Operator,
    /// What to compare with, sorted and without duplicates.
    pub values: Vec<String>,
}

/// A label selector: all requirements must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Labels(Option<Vec<Requirement>>);

impl Labels {
    /// Selects no object.
    pub(crate) fn nothing() -> Self {
        Self(None)
    }

    /// Reads the text of a `labelSelector` parameter.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let mut requirements = parse::requirements(text)?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self(Some(requirements)))
    }

    /// Reads a `LabelSelector` object: an absent one selects nothing, an empty one everything.
    pub(crate) fn from_object(selector: Option<&Value>) -> Result<Self, Error> {
        let Some(selector) = selector.and_then(Value::as_object) else { return Ok(Self::nothing()) };
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let values = vec![value.as_str().unwrap_or_default().to_owned()];
            requirements.push(Requirement::new(key, Operator::Equals, values)?);
        }
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        for expression in expressions.into_iter().flatten() {
            let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
            let operator = match text("operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(Error(format!("{other:?} is not a valid label selector operator"))),
            };
            let values = expression.get("values").and_then(Value::as_array);
            let values = values.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
            requirements.push(Requirement::new(text("key"), operator, values)?);
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self(Some(requirements)))
    }

    /// Whether every object is selected.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_some_and(Vec::is_empty)
    }

    /// The requirements; none for a selector that selects nothing.
    pub(crate) fn requirements(&self) -> &[Requirement] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether an object with these labels is selected.
    pub(crate) fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.0.as_ref().is_some_and(|all| {
            all.iter().all(|one| one.matches(labels.and_then(|labels| labels.get(&one.key)).and_then(Value::as_str)))
        })
    }
}

impl Requirement {
    /// Checks the key and the values.
    pub(crate) fn new(key: &str, operator: Operator, mut values: Vec<String>) -> Result<Self, Error> {
        let mut errors = key_error(key, &Path::new("key")).into_iter().collect::<Vec<_>>();
        let at = Path::new("values");
        let shown = || Value::from(values.clone());
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                errors.push(FieldError::invalid(
                    &at,
                    shown(),
                    "for 'in', 'notin' operators, values set can't be empty",
                ));
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
                errors.push(FieldError::invalid(&at, shown(), "exact-match compatibility requires one single value"));
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                errors.push(FieldError::invalid(
                    &at,
                    shown(),
                    "values set must be empty for exists and does not exist",
                ));
            }
            Operator::GreaterThan | Operator::LessThan => errors.extend(integer_errors(&values, &at)),
            _ => {}
        }
        for (index, value) in values.iter().enumerate() {
            let texts = names::label_value(value);
            if !texts.is_empty() {
                errors.push(FieldError::invalid(&at.index(index).key(key), value.as_str(), texts.join("; ")));
            }
        }
        if !errors.is_empty() {
            return Err(aggregate(&errors));
        }
        values.sort();
        values.dedup();
        Ok(Self { key: key.to_owned(), operator, values })
    }

    fn matches(&self, value: Option<&str>) -> bool {
        let has = |value: &str| self.values.iter().any(|one| one == value);
        let number = |text: &str| parse_integer(text);
        let first = || self.values.first().and_then(|text| number(text));
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => value.is_some_and(has),
            Operator::NotIn | Operator::NotEquals => !value.is_some_and(has),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => value.and_then(number).zip(first()).is_some_and(|(value, bound)| value > bound),
            Operator::LessThan => value.and_then(number).zip(first()).is_some_and(|(value, bound)| value < bound),
        }
    }
}

/// What is wrong with a label's key, in one error.
pub(super) fn key_error(key: &str, path: &Path) -> Option<FieldError> {
    let texts = names::qualified_name(key);
    (!texts.is_empty()).then(|| FieldError::invalid(path, key, texts.join("; ")))
}

fn integer_errors(values: &[String], at: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if values.len() != 1 {
        let text = "for 'Gt', 'Lt' operators, exactly one value is required";
        errors.push(FieldError::invalid(at, values.to_vec(), text));
    }
    for (index, value) in values.iter().enumerate().filter(|(_, value)| parse_integer(value).is_none()) {
        let text = "for 'Gt', 'Lt' operators, the value must be an integer";
        errors.push(FieldError::invalid(&at.index(index), value.as_str(), text));
    }
    errors
}

fn parse_integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

fn aggregate(errors: &[FieldError]) -> Error {
    let mut texts = errors.iter().map(ToString::to_string).collect::<Vec<_>>();
    texts.dedup();
    match texts.as_slice() {
        [one] => Error(one.clone()),
        many => Error(format!("[{}]", many.join(", "))),
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, requirement) in self.requirements().iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}
