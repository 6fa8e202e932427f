//! The words and shapes of Go that clients of Kubernetes see in messages.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// A value inside a path: strings quoted, the rest plain.
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

/// A value as `%v` prints it.
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

/// A value as `%#v` prints it.
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

/// The type a decoded value has, as `%T` prints it.
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

/// A value's kind, as Go's JSON decoder names it.
pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
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

/// A string as `%q` quotes it.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for symbol in text.chars() {
        match symbol {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            ' '..='~' => out.push(symbol),
            '\0'..='\u{7f}' => push_escape(&mut out, 'x', 2, symbol),
            // Rust and Go agree on which characters are printable but for a few marks; `escape_debug` also escapes
            // combining marks, which Go prints.
            other if other.escape_debug().len() == 1 => out.push(other),
            other if other <= '\u{ffff}' => push_escape(&mut out, 'u', 4, other),
            other => push_escape(&mut out, 'U', 8, other),
        }
    }
    out.push('"');
    out
}

fn push_escape(out: &mut String, letter: char, width: usize, symbol: char) {
    // Writing into a string cannot fail.
    let _ = write!(out, "\\{letter}{:0width$x}", u32::from(symbol));
}

/// Bytes as `%x` prints them.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        // Writing into a string cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// A list of strings as `%q` prints it: `["a" "b"]`.
pub(crate) fn quoted_list<S: AsRef<str>>(items: &[S]) -> String {
    let quoted = items.iter().map(|item| quoted(item.as_ref())).collect::<Vec<_>>();
    format!("[{}]", quoted.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn strings_are_quoted_as_go_does() {
        for (text, expected) in [
            ("plain 'text'", r#""plain 'text'""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\n\t\u{7}\u{b}", r#""\n\t\a\v""#),
            ("\0\u{7f}", r#""\x00\x7f""#),
            ("é\u{200b}\u{e0001}", r#""é\u200b\U000e0001""#),
        ] {
            assert_eq!(quoted(text), expected, "{text:?}");
        }
        assert_eq!(quoted_list(&["a", "b"]), r#"["a" "b"]"#);
    }

    #[test]
    fn values_are_printed_as_go_does() {
        let value = json!({"a": [1, "x", null], "b": 1.5});
        assert_eq!(plain(&value), "map[a:[1 x <nil>] b:1.5]");
        assert_eq!(
            syntax(&value),
            r#"map[string]interface {}{"a":[]interface {}{1, "x", interface {}(nil)}, "b":1.5}"#
        );
        assert_eq!(in_path(&json!("x")), r#""x""#);
        assert_eq!((type_name(&json!(1)), json_type(&json!(1))), ("int64", "number"));
    }
}
