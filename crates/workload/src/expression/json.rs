//! Between JSON and the values of expressions.

use expr::Value as Expr;
use serde_json::Value;

pub(super) fn from(value: &Value) -> Expr {
    match value {
        Value::Null => Expr::Nil,
        Value::Bool(truth) => Expr::Bool(*truth),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Expr::Integer(integer),
            None => Expr::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Expr::String(text.clone()),
        Value::Array(values) => Expr::Array(values.iter().map(from).collect()),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), from(value))).collect(),
    }
}

/// JSON as Go decodes it into an untyped value: every number is a float.
pub(super) fn from_decoded(value: &Value) -> Expr {
    match value {
        Value::Number(number) => Expr::Float(number.as_f64().unwrap_or(f64::NAN)),
        Value::Array(values) => Expr::Array(values.iter().map(from_decoded).collect()),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), from_decoded(value))).collect(),
        value @ (Value::Null | Value::Bool(_) | Value::String(_)) => from(value),
    }
}

pub(super) fn into(value: &Expr) -> Value {
    match value {
        Expr::Nil => Value::Null,
        Expr::Bool(truth) => Value::Bool(*truth),
        Expr::Integer(integer) => Value::from(*integer),
        Expr::Float(float) => number(*float),
        Expr::String(text) => Value::String(text.clone()),
        Expr::Array(values) => Value::Array(values.iter().map(into).collect()),
        Expr::Map(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by_key(|(key, _)| *key);
            Value::Object(sorted.into_iter().map(|(key, value)| (key.clone(), into(value))).collect())
        }
        Expr::KeyedMap(pairs) => {
            Value::Object(pairs.iter().map(|(key, value)| (key.to_string(), into(value))).collect())
        }
        Expr::Bytes(bytes) => {
            use base64::Engine as _;
            Value::String(base64::engine::general_purpose::STANDARD.encode(bytes))
        }
        Expr::Duration(nanos) => Value::from(*nanos),
        Expr::Month(number) | Expr::Weekday(number) => Value::from(*number),
        other @ (Expr::DateTime(_) | Expr::Timezone(_)) => {
            Value::String(other.to_string().trim_matches('"').to_owned())
        }
    }
}

/// A float as Go writes it in JSON: without a fraction where there is none.
#[expect(clippy::cast_possible_truncation, reason = "checked to be a whole number that fits")]
fn number(float: f64) -> Value {
    if float.fract() == 0.0 && float.abs() < 1e15 {
        return Value::from(float as i64);
    }
    serde_json::Number::from_f64(float).map_or(Value::Null, Value::Number)
}
