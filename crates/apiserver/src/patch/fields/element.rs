//! One step of a path, with the order Kubernetes gives steps.

use std::cmp::Ordering;
use std::fmt;

use crate::go;
use serde_json::{Number, Value};

/// One step of a path.
#[derive(Debug, Clone)]
pub(crate) enum Element {
    /// A field of an object or an entry of a map: `f:name`.
    Field(String),
    /// The item of a list whose fields have these values, sorted by name: `k:{"name":"a"}`.
    Key(Vec<(String, Value)>),
    /// The item of a list of scalars with this value: `v:"a"`.
    Value(Value),
    /// The item at a position: `i:0`.
    Index(i64),
}

impl Element {
    /// A key from its fields, in any order.
    pub(crate) fn key(mut fields: Vec<(String, Value)>) -> Self {
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Self::Key(fields)
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => compare_keys(a, b),
            (Self::Value(a), Self::Value(b)) => compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Element {}

fn compare_keys(a: &[(String, Value)], b: &[(String, Value)]) -> Ordering {
    for (x, y) in a.iter().zip(b) {
        let order = x.0.cmp(&y.0).then_with(|| compare(&x.1, &y.1));
        if order.is_ne() {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

/// Orders any two values: numbers, strings, booleans, lists, objects, null.
fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => compare_numbers(x, y),
        (Value::String(x), Value::String(y)) => x.cmp(y),
        (Value::Bool(x), Value::Bool(y)) => x.cmp(y),
        (Value::Array(x), Value::Array(y)) => {
            for (l, r) in x.iter().zip(y) {
                let order = compare(l, r);
                if order.is_ne() {
                    return order;
                }
            }
            x.len().cmp(&y.len())
        }
        (Value::Object(x), Value::Object(y)) => {
            for ((lk, lv), (rk, rv)) in x.iter().zip(y) {
                let order = lk.cmp(rk).then_with(|| compare(lv, rv));
                if order.is_ne() {
                    return order;
                }
            }
            x.len().cmp(&y.len())
        }
        _ => value_rank(a).cmp(&value_rank(b)),
    }
}

fn value_rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    if let (Some(x), Some(y)) = (a.as_i64(), b.as_i64()) {
        return x.cmp(&y);
    }
    let (x, y) = (a.as_f64().unwrap_or(f64::MAX), b.as_f64().unwrap_or(f64::MAX));
    x.partial_cmp(&y).unwrap_or(Ordering::Equal)
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    let comma = if at > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", go::in_path(value))?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={}]", go::in_path(value)),
            Self::Index(at) => write!(f, "[{at}]"),
        }
    }
}
