//! Short ways to read and change JSON whose shape a schema has already checked.

use serde_json::{Map, Value};

/// The text at a pointer; empty where there is none.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The whole number at a pointer; zero where there is none.
pub(super) fn number(value: &Value, pointer: &str) -> i64 {
    value.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// Whether the value at a pointer is `true`.
pub(super) fn flag(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).and_then(Value::as_bool).unwrap_or_default()
}

/// The list at a pointer; empty where there is none.
pub(super) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The texts in the list at a pointer.
pub(super) fn texts<'a>(value: &'a Value, pointer: &str) -> Vec<&'a str> {
    items(value, pointer).iter().filter_map(Value::as_str).collect()
}

/// The map at a pointer.
pub(super) fn map<'a>(value: &'a Value, pointer: &str) -> Option<&'a Map<String, Value>> {
    value.pointer(pointer).and_then(Value::as_object)
}

/// The value at a pointer unless it is null.
pub(super) fn present<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    value.pointer(pointer).filter(|value| !value.is_null())
}

/// The map field `name`, made where it is absent.
pub(super) fn map_mut<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Map<String, Value>> {
    let field = value.as_object_mut()?.entry(name).or_insert(Value::Null);
    if field.is_null() {
        *field = Value::Object(Map::new());
    }
    field.as_object_mut()
}

/// The items of the list at a pointer that are maps.
pub(super) fn each_mut<'a>(value: &'a mut Value, pointer: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let list = value.pointer_mut(pointer).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Sets a field that is absent or null.
pub(super) fn fill(map: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    if map.get(name).is_none_or(Value::is_null) {
        map.insert(name.to_owned(), value.into());
    }
}

/// Sets a text field that is absent, null or empty.
pub(super) fn fill_text(map: &mut Map<String, Value>, name: &str, value: &str) {
    if map.get(name).is_none_or(|value| value.is_null() || value == "") {
        map.insert(name.to_owned(), value.into());
    }
}

/// Sets a number field that is absent, null or zero.
pub(super) fn fill_number(map: &mut Map<String, Value>, name: &str, value: i64) {
    if map.get(name).is_none_or(|value| value.is_null() || value == 0) {
        map.insert(name.to_owned(), value.into());
    }
}

/// Keeps a field and the first item of the list that has taken its place the same. What differs is settled in favour of
/// the field, as Kubernetes does for old clients; `item` makes a list's item of it, and back by its pointer.
pub(super) fn align(map: &mut Map<String, Value>, one: &str, many: &str, item: fn(&str) -> Value, pointer: &str) {
    let alone = map.get(one).and_then(Value::as_str).unwrap_or_default().to_owned();
    let first = map.get(many).and_then(|list| list.get(0)).map(|first| text(first, pointer).to_owned());
    match first {
        Some(first) if alone.is_empty() => map.insert(one.to_owned(), first.into()),
        Some(first) if first == alone => None,
        None if alone.is_empty() => None,
        _ => map.insert(many.to_owned(), Value::Array(vec![item(&alone)])),
    };
}

/// Makes a top-level field what it was before.
pub(super) fn restore(object: &mut Value, old: &Value, field: &str) {
    let Some(map) = object.as_object_mut() else { return };
    match old.get(field) {
        Some(value) => map.insert(field.to_owned(), value.clone()),
        None => map.remove(field),
    };
}

/// Removes a field from the map at a pointer.
pub(super) fn remove(object: &mut Value, pointer: &str, field: &str) {
    if let Some(map) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
        map.remove(field);
    }
}

/// Whether two values mean the same, where absent, null and empty do not differ.
pub(super) fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a.filter(|value| !is_empty(value)), b.filter(|value| !is_empty(value))) {
        (None, None) => true,
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            a.keys().chain(b.keys()).all(|key| same(a.get(key), b.get(key)))
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(Some(a), Some(b)))
        }
        (a, b) => a == b,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}
