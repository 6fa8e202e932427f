//! Checksums that both sides must agree on to the byte: JSON as Go's `encoding/json` prints it, and hashes over it.

use serde_json::{Map, Number, Value};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::object::Kind;

/// An object has nothing that a checksum could be made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{kind} has no {field}")]
pub struct NoData {
    /// What it is.
    pub kind: &'static str,
    /// What it lacks.
    pub field: &'static str,
}

/// One thing of a side's inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item<'a> {
    /// The name of its kind; may be one that only the other side keeps in step.
    pub kind: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The uid that both sides know it by.
    pub uid: &'a str,
}

/// The checksum of an inventory; an empty one has none.
pub fn list_checksum<'a>(items: impl IntoIterator<Item = Item<'a>>) -> Option<[u8; 32]> {
    let mut lines: Vec<String> =
        items.into_iter().map(|item| format!("{}/{}/{}", item.kind, item.name, item.uid)).collect();
    if lines.is_empty() {
        return None;
    }
    lines.sort_unstable();
    let mut hash = Sha256::new();
    for line in &lines {
        hash.update(line);
    }
    Some(hash.finalize().into())
}

/// The checksum of what an object is to be: its spec without the destination, or a Secret's data.
pub fn spec_checksum(kind: Kind, object: &Value) -> Result<[u8; 32], NoData> {
    let field = match kind {
        Kind::Repository => "data",
        Kind::AppProject | Kind::Application => "spec",
    };
    let Some(Value::Object(spec)) = object.get(field) else { return Err(NoData { kind: kind.name(), field }) };
    let mut json = Vec::new();
    write_object(spec, Some("destination"), &mut json);
    Ok(Sha256::digest(&json).into())
}

/// JSON as Go prints a value that it has read without types: keys sorted by bytes, numbers as int64 or float64.
pub fn go_json(value: &Value) -> Vec<u8> {
    let mut json = Vec::new();
    write(value, &mut json);
    json
}

/// A number as Go prints it.
pub(crate) fn number(number: &Number) -> String {
    match number.as_i64() {
        Some(whole) => whole.to_string(),
        None => float(number.as_f64().unwrap_or_default()),
    }
}

fn float(value: f64) -> String {
    // A float without a fraction is read back as an integer, so a negative zero does not survive an API server.
    if value == 0.0 {
        return "0".to_owned();
    }
    if (1e-6..1e21).contains(&value.abs()) {
        return value.to_string();
    }
    let digits = format!("{value:e}");
    match digits.split_once('e') {
        Some((mantissa, exponent)) if !exponent.starts_with('-') => format!("{mantissa}e+{exponent}"),
        _ => digits,
    }
}

fn write(value: &Value, json: &mut Vec<u8>) {
    match value {
        Value::Null => json.extend_from_slice(b"null"),
        Value::Bool(true) => json.extend_from_slice(b"true"),
        Value::Bool(false) => json.extend_from_slice(b"false"),
        Value::Number(value) => json.extend_from_slice(number(value).as_bytes()),
        Value::String(text) => write_string(text, json),
        Value::Array(items) => {
            json.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    json.push(b',');
                }
                write(item, json);
            }
            json.push(b']');
        }
        Value::Object(fields) => write_object(fields, None, json),
    }
}

fn write_object(fields: &Map<String, Value>, without: Option<&str>, json: &mut Vec<u8>) {
    let mut sorted: Vec<(&String, &Value)> = fields.iter().filter(|(name, _)| Some(name.as_str()) != without).collect();
    sorted.sort_unstable_by_key(|(name, _)| *name);
    json.push(b'{');
    for (at, (name, value)) in sorted.into_iter().enumerate() {
        if at > 0 {
            json.push(b',');
        }
        write_string(name, json);
        json.push(b':');
        write(value, json);
    }
    json.push(b'}');
}

fn write_string(text: &str, json: &mut Vec<u8>) {
    json.push(b'"');
    for character in text.chars() {
        match character {
            '"' => json.extend_from_slice(b"\\\""),
            '\\' => json.extend_from_slice(b"\\\\"),
            '\u{8}' => json.extend_from_slice(b"\\b"),
            '\u{c}' => json.extend_from_slice(b"\\f"),
            '\n' => json.extend_from_slice(b"\\n"),
            '\r' => json.extend_from_slice(b"\\r"),
            '\t' => json.extend_from_slice(b"\\t"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                json.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes());
            }
            _ => json.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    json.push(b'"');
}

#[cfg(test)]
mod tests;
