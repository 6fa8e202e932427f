//! Paths to fields and what can be wrong with one, worded as Kubernetes words it.

use std::fmt;

use serde_json::Value;

use crate::failure::Cause;

/// A path such as `spec.containers[0].ports[name=http]`, built as a validator walks down.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Path(String);

impl Path {
    /// The object itself.
    pub(crate) fn root() -> Self {
        Self::default()
    }

    /// Starts at a top-level field, or at a dotted path.
    pub(crate) fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// A field below this one.
    #[must_use]
    pub(crate) fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}.{name}", self.0)) }
    }

    /// An item of this list.
    #[must_use]
    pub(crate) fn index(&self, at: usize) -> Self {
        Self(format!("{}[{at}]", self.0))
    }

    /// An entry of this map.
    #[must_use]
    pub(crate) fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// As text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One thing wrong with one field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FieldError {
    /// Where.
    pub field: String,
    /// What.
    pub problem: Problem,
    /// The explanation after the value; may be empty.
    pub detail: String,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Problem {
    /// Absent but needed.
    Required,
    /// Present but wrong; the value is shown.
    Invalid(Value),
    /// Present but wrong; the value is already rendered, where Kubernetes shows one of its internal types.
    InvalidAs(String),
    /// Of the wrong type; shown as given (Kubernetes shows the type's name in quotes).
    TypeInvalid(Value),
    /// Not one of the allowed values.
    NotSupported(Value),
    /// Appears twice in a set.
    Duplicate(Value),
    /// Not allowed here.
    Forbidden,
    /// Longer than allowed; the limit in bytes (negative: not told).
    TooLong(i64),
    /// More items than allowed: how many there are, and the limit.
    TooMany(i64, i64),
    /// Refers to something absent.
    NotFound(Value),
}

impl FieldError {
    fn of(path: &Path, problem: Problem, detail: impl Into<String>) -> Self {
        Self { field: path.as_str().to_owned(), problem, detail: detail.into() }
    }

    /// `f: Required value: detail`.
    pub(crate) fn required(path: &Path, detail: impl Into<String>) -> Self {
        Self::of(path, Problem::Required, detail)
    }

    /// `f: Invalid value: "v": detail`.
    pub(crate) fn invalid(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::of(path, Problem::Invalid(value.into()), detail)
    }

    /// `f: Invalid value: {"Rule":"…"}: detail`.
    pub(crate) fn invalid_as(path: &Path, rendered: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::of(path, Problem::InvalidAs(rendered.into()), detail)
    }

    /// `f: Unsupported value: "v": supported values: "a", "b"`.
    pub(crate) fn not_supported(path: &Path, value: impl Into<Value>, supported: &[&str]) -> Self {
        let list = supported.iter().map(|s| format!("{s:?}")).collect::<Vec<_>>().join(", ");
        let detail = if supported.is_empty() { String::new() } else { format!("supported values: {list}") };
        Self::of(path, Problem::NotSupported(value.into()), detail)
    }

    /// `f: Duplicate value: "v"`.
    pub(crate) fn duplicate(path: &Path, value: impl Into<Value>) -> Self {
        Self::of(path, Problem::Duplicate(value.into()), "")
    }

    /// `f: Forbidden: detail`.
    pub(crate) fn forbidden(path: &Path, detail: impl Into<String>) -> Self {
        Self::of(path, Problem::Forbidden, detail)
    }

    /// `f: Too long: may not be more than N bytes`.
    pub(crate) fn too_long(path: &Path, limit: i64) -> Self {
        let detail = if limit >= 0 { format!("may not be more than {limit} bytes") } else { String::new() };
        Self::of(path, Problem::TooLong(limit), detail)
    }

    /// `f: Too many: N: must have at most M items`.
    pub(crate) fn too_many(path: &Path, actual: i64, limit: i64) -> Self {
        let detail = match limit {
            0.. => format!("must have at most {limit} {}", if limit == 1 { "item" } else { "items" }),
            _ => "has too many items".to_owned(),
        };
        Self::of(path, Problem::TooMany(actual, limit), detail)
    }

    /// `f: Not found: "v"`.
    pub(crate) fn not_found(path: &Path, value: impl Into<Value>) -> Self {
        Self::of(path, Problem::NotFound(value.into()), "")
    }

    /// As an entry of a `Status`.
    pub(crate) fn cause(&self) -> Cause {
        let reason = match self.problem {
            Problem::Required => "FieldValueRequired",
            Problem::Invalid(_) | Problem::InvalidAs(_) => "FieldValueInvalid",
            Problem::TypeInvalid(_) => "FieldValueTypeInvalid",
            Problem::NotSupported(_) => "FieldValueNotSupported",
            Problem::Duplicate(_) => "FieldValueDuplicate",
            Problem::Forbidden => "FieldValueForbidden",
            Problem::TooLong(_) => "FieldValueTooLong",
            Problem::TooMany(..) => "FieldValueTooMany",
            Problem::NotFound(_) => "FieldValueNotFound",
        };
        Cause { reason, message: self.body(), field: self.field.clone() }
    }

    fn body(&self) -> String {
        let head = match &self.problem {
            Problem::Required => "Required value".to_owned(),
            Problem::Invalid(value) | Problem::TypeInvalid(value) => {
                format!("Invalid value: {}", shown(value))
            }
            Problem::InvalidAs(rendered) => format!("Invalid value: {rendered}"),
            Problem::NotSupported(value) => format!("Unsupported value: {}", shown(value)),
            Problem::Duplicate(value) => format!("Duplicate value: {}", shown(value)),
            Problem::Forbidden => "Forbidden".to_owned(),
            Problem::TooLong(_) => "Too long".to_owned(),
            Problem::TooMany(actual, _) => format!("Too many: {actual}"),
            Problem::NotFound(value) => format!("Not found: {}", shown(value)),
        };
        if self.detail.is_empty() { head } else { format!("{head}: {}", self.detail) }
    }
}

/// A value as Kubernetes prints it in an error: strings quoted, null bare, the rest as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Null => "null".to_owned(),
        other => other.to_string(),
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() || self.field == "<nil>" {
            return write!(f, "<nil>: {}", self.body());
        }
        write!(f, "{}: {}", self.field, self.body())
    }
}
