//! Building blocks of printed rows.

use jiff::Timestamp;
use serde_json::Value;

use super::Column;
use super::access::text;
use crate::{metadata, table};

/// The column with an object's name.
pub(super) const NAME: Column =
    Column { name: "Name", kind: "string", format: "name", description: "Name of the object.", priority: 0 };
/// The column with an object's age.
pub(super) const AGE: Column = column("Age", "Time since the object was made.");
/// The column with the time an object was made.
pub(super) const CREATED_AT: Column =
    Column { name: "Created At", kind: "date", format: "", description: "When the object was made.", priority: 0 };

/// A column that is always shown.
pub(super) const fn column(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 0 }
}

/// A column shown with `-o wide`.
pub(super) const fn wide(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 1 }
}

/// The cell of [`NAME`].
pub(super) fn name(object: &Value) -> Value {
    metadata::name(object).into()
}

/// The cell of [`AGE`].
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    table::age(metadata::creation_timestamp(object), now).into()
}

/// The cells of [`NAME`] and [`CREATED_AT`].
pub(super) fn name_and_creation(object: &Value) -> Vec<Value> {
    vec![name(object), metadata::creation_timestamp(object).into()]
}

/// The text at a pointer, or what stands for an empty one.
pub(super) fn or_else(object: &Value, pointer: &str, otherwise: &str) -> String {
    match text(object, pointer) {
        "" => otherwise.to_owned(),
        text => text.to_owned(),
    }
}

/// A map as `a=1,b=2`, or `<none>`.
pub(super) fn labels(object: &Value, pointer: &str) -> String {
    let map = super::access::map(object, pointer).filter(|map| !map.is_empty());
    let Some(map) = map else { return "<none>".to_owned() };
    let mut parts =
        map.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect::<Vec<_>>();
    parts.sort();
    parts.join(",")
}
