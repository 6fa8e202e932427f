//! Whether two objects mean the same to a Kubernetes API.

use serde_json::{Map, Value};

use crate::checksum;

/// Whether two values mean the same: `1.0` is `1`, and a field that is null is as good as none.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => covers(a, b) && covers(b, a),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Number(a), Value::Number(b)) => a == b || checksum::number(a) == checksum::number(b),
        _ => a == b,
    }
}

fn covers(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    a.iter().all(|(name, value)| match b.get(name) {
        Some(other) => same(value, other),
        None => value.is_null(),
    })
}

/// Whether every entry of `wanted` is in `there`.
pub(super) fn includes(there: &Value, wanted: &Value) -> bool {
    let Some(wanted) = wanted.as_object() else { return true };
    wanted.iter().all(|(name, value)| value.is_null() || there.get(name).is_some_and(|there| same(there, value)))
}
