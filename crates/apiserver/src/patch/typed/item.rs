//! How an item of a shared list is told apart, and when two values are the same.

use serde_json::Value;

use super::Shape;
use crate::go;
use crate::patch::fields::Element;
use crate::schema::ListType;

/// The path element of an item of a list that is shared between owners.
pub(crate) fn element(list: &Shape, item: &Value) -> Result<Element, String> {
    match list.list_type() {
        ListType::Atomic => Err("invalid indexing of non-associative list".into()),
        ListType::Map(keys) => keyed(list, keys, item),
        ListType::Set => match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".into()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".into()),
            scalar => Ok(Element::Value(scalar.clone())),
        },
    }
}

fn keyed(list: &Shape, keys: &[String], item: &Value) -> Result<Element, String> {
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => return Err("associative list with keys may not have a null element".into()),
        _ => return Err("associative list with keys may not have non-map elements".into()),
    };
    let shape = list.item();
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        // A key without a value stays out: an item that has it is a different item.
        if let Some(value) = fields.get(key).cloned().or_else(|| shape.key_default(key)) {
            found.push((key.clone(), value));
        }
    }
    if found.is_empty() && !keys.is_empty() {
        let names = keys.iter().map(|key| go::quoted(key)).collect::<Vec<_>>().join(" ");
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{names}] \
             (and doesn't have default values for any key fields)"
        ));
    }
    Ok(Element::key(found))
}

/// Whether two values are the same, where 1 and 1.0 are.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => match (x.as_i64(), y.as_i64()) {
            (Some(x), Some(y)) => x == y,
            _ => x.as_f64() == y.as_f64(),
        },
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(key, value)| y.get(key).is_some_and(|other| same(value, other)))
        }
        _ => a == b,
    }
}
