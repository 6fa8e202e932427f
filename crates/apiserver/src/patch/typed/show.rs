//! Values as Go prints them in error messages.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// Inside a path: strings quoted, the rest plain.
pub(crate) fn in_path(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => self::number(number),
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("[{}]", items.iter().map(in_path).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            let list = fields.iter().map(|(key, value)| format!("{key}={}", in_path(value))).collect::<Vec<_>>();
            list.concat()
        }
    }
}

/// `%v`
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => self::number(number),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let list = fields.iter().map(|(key, value)| format!("{key}:{}", plain(value))).collect::<Vec<_>>();
            format!("map[{}]", list.join(" "))
        }
    }
}

/// `%#v`
pub(crate) fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => self::number(number),
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let list = fields.iter().map(|(key, value)| format!("{}:{}", quoted(key), syntax(value)));
            format!("map[string]interface {{}}{{{}}}", list.collect::<Vec<_>>().join(", "))
        }
    }
}

/// `%T`
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn number(number: &Number) -> String {
    if let Some(int) = number.as_i64() {
        return int.to_string();
    }
    let float = number.as_f64().unwrap_or_default();
    // Whole numbers are integers by the time Go prints them, however they were written.
    if float.fract() == 0.0 && float.abs() < 1e15 {
        return format!("{float:.0}");
    }
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => format!("{float}"),
    }
}

/// A string as Go quotes it.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\'' => out.push('\''),
            other if other.escape_debug().len() == 1 => out.push(other),
            other => {
                let code = u32::from(other);
                // Writing to a string cannot fail.
                let _ = match code {
                    0..0x80 => write!(out, "\\x{code:02x}"),
                    0x80..0x1_0000 => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push('"');
    out
}
