//! Types whose JSON is not that of their message.

use jiff::Timestamp;
use serde_json::Value;

use super::Undecodable;
use super::message::Decoder;
use super::wire::{Payload, fields};

type Result<T> = std::result::Result<T, Undecodable>;

const SCHEMA: &str = "apiextensions.JSONSchemaProps";

/// A float as Go writes it: whole numbers without a fraction.
pub(super) fn float(number: f64) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "a whole number this small is exact")]
    if number.fract() == 0.0 && number.abs() < 1e15 { (number as i64).into() } else { number.into() }
}

/// Seconds and nanoseconds; an empty message is no time.
fn instant(bytes: &[u8]) -> Result<Option<Timestamp>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let (mut seconds, mut nanos) = (0_i64, 0_i64);
    for part in fields(bytes) {
        match part? {
            (1, Payload::Varint(number)) => seconds = number.cast_signed(),
            (2, Payload::Varint(number)) => nanos = number.cast_signed(),
            _ => {}
        }
    }
    let nanos = i32::try_from(nanos).unwrap_or_default();
    Ok(Timestamp::new(seconds, nanos).ok())
}

/// `metav1.Time`, to the second.
pub(super) fn time(bytes: &[u8]) -> Result<Value> {
    Ok(instant(bytes)?.map_or(Value::Null, |time| crate::time::seconds(time).into()))
}

/// `metav1.MicroTime`, to the microsecond.
pub(super) fn micro_time(bytes: &[u8]) -> Result<Value> {
    Ok(instant(bytes)?.map_or(Value::Null, |time| crate::time::micros(time).into()))
}

/// `resource.Quantity`: its text.
pub(super) fn quantity(bytes: &[u8]) -> Result<Value> {
    let mut out = Value::from("0");
    for part in fields(bytes) {
        match part? {
            (1, Payload::Bytes(text)) if !text.is_empty() => out = String::from_utf8_lossy(text).into(),
            _ => {}
        }
    }
    Ok(out)
}

/// `intstr.IntOrString`.
pub(super) fn int_or_string(bytes: &[u8]) -> Result<Value> {
    let (mut is_string, mut number, mut text) = (false, 0_i64, String::new());
    for part in fields(bytes) {
        match part? {
            (1, Payload::Varint(kind)) => is_string = kind == 1,
            #[expect(clippy::cast_possible_truncation, reason = "how Go reads an int32")]
            (2, Payload::Varint(value)) => number = i64::from(value as i32),
            (3, Payload::Bytes(bytes)) => text = String::from_utf8_lossy(bytes).into_owned(),
            _ => {}
        }
    }
    Ok(if is_string { text.into() } else { number.into() })
}

/// JSON as it is.
pub(super) fn raw(bytes: &[u8], name: &str) -> Result<Value> {
    let mut out = Value::Null;
    for part in fields(bytes) {
        if let (1, Payload::Bytes(json)) = part? {
            out = if json.is_empty() {
                Value::Null
            } else {
                serde_json::from_slice(json).map_err(|error| Undecodable::Json(name.to_owned(), error.to_string()))?
            };
        }
    }
    Ok(out)
}

/// A schema or a boolean.
pub(super) fn or_bool(decoder: &mut Decoder<'_>, bytes: &[u8], depth: usize) -> Result<Value> {
    let mut out = Value::Bool(false);
    for part in fields(bytes) {
        match part? {
            (1, Payload::Varint(number)) if !out.is_object() => out = (number != 0).into(),
            (2, Payload::Bytes(bytes)) => out = Value::Object(decoder.message(SCHEMA, bytes, depth + 1)?),
            _ => {}
        }
    }
    Ok(out)
}

/// A schema or several.
pub(super) fn or_array(decoder: &mut Decoder<'_>, bytes: &[u8], depth: usize) -> Result<Value> {
    let (mut one, mut many) = (Value::Null, Vec::new());
    for part in fields(bytes) {
        match part? {
            (1, Payload::Bytes(bytes)) => one = Value::Object(decoder.message(SCHEMA, bytes, depth + 1)?),
            (2, Payload::Bytes(bytes)) => many.push(Value::Object(decoder.message(SCHEMA, bytes, depth + 1)?)),
            _ => {}
        }
    }
    Ok(if many.is_empty() { one } else { Value::Array(many) })
}

/// A schema or names of fields.
pub(super) fn or_string_array(decoder: &mut Decoder<'_>, bytes: &[u8], depth: usize) -> Result<Value> {
    let (mut schema, mut names) = (Value::Null, Vec::new());
    for part in fields(bytes) {
        match part? {
            (1, Payload::Bytes(bytes)) => schema = Value::Object(decoder.message(SCHEMA, bytes, depth + 1)?),
            (2, Payload::Bytes(text)) => names.push(String::from_utf8_lossy(text).into()),
            _ => {}
        }
    }
    Ok(if names.is_empty() { schema } else { Value::Array(names) })
}
