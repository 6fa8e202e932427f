//! Rows for people: which form, which columns, and what is in a cell.

use clap::ValueEnum;
use serde_json::Value;

use crate::failure::Failure;
use crate::kubernetes::table::plain;
use crate::output::{Structured, print, print_structured, tell};

/// Forms of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// A table with all columns
    Wide,
}

/// A column: its heading, whether it is shown only when asked for, and what is in it.
pub(super) struct Column {
    pub(super) heading: &'static str,
    pub(super) wide: bool,
    pub(super) cell: fn(&Value) -> String,
}

/// Shows rows: as they came, or as a table.
pub(super) fn show(rows: &Value, columns: &[Column], form: Option<Form>, none: &str) -> Result<(), Failure> {
    match form {
        Some(Form::Json) => return print_structured(rows, Structured::Json),
        Some(Form::Yaml) => return print_structured(rows, Structured::Yaml),
        Some(Form::Wide) | None => {}
    }
    let rows = rows.as_array().map_or(&[][..], Vec::as_slice);
    if rows.is_empty() {
        tell(none);
        return Ok(());
    }
    print(&table(rows, columns, form == Some(Form::Wide)))
}

pub(super) fn table(rows: &[Value], columns: &[Column], wide: bool) -> String {
    let columns: Vec<&Column> = columns.iter().filter(|column| wide || !column.wide).collect();
    let header: Vec<&str> = columns.iter().map(|column| column.heading).collect();
    let cells = rows.iter().map(|row| columns.iter().map(|column| dash((column.cell)(row))).collect());
    plain(&header, cells.collect())
}

fn dash(text: String) -> String {
    if text.is_empty() { String::from("-") } else { text }
}

/// Text under a path of keys, or nothing.
pub(super) fn text(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.lines().next().unwrap_or_default().to_owned(),
        Some(other) => other.to_string(),
    }
}

/// A list of texts, or the pairs of a map, in one cell.
pub(super) fn joined(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
        Some(Value::Object(pairs)) => pairs
            .iter()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect::<Vec<_>>()
            .join(","),
        _ => String::new(),
    }
}

/// One part of a path: slashes and all else that would mean something are escaped.
pub(super) fn segment(text: &str) -> String {
    escaped(text, b"-._~")
}

/// A path of several parts.
pub(super) fn path(text: &str) -> String {
    escaped(text, b"-._~/")
}

fn escaped(text: &str, plain: &[u8]) -> String {
    text.bytes().fold(String::new(), |mut all, byte| {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            all.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = std::fmt::Write::write_fmt(&mut all, format_args!("%{byte:02X}"));
        }
        all
    })
}
