//! A value without some of its fields and items.

use serde_json::{Map, Value};

use super::{Form, Shape, item};
use crate::patch::fields::{Element, FieldSet};
use crate::schema::ListType;

/// Removes every item and field in `gone`. What becomes empty becomes null, as in Kubernetes.
pub(crate) fn remove(shape: &Shape, value: &Value, gone: &FieldSet) -> Value {
    match shape.forms(Some(value)).first() {
        Form::Scalar => value.clone(),
        Form::Map => match value {
            Value::Object(fields) if !fields.is_empty() && !shape.map_is_atomic() => {
                let left = fields.iter().filter_map(|(name, value)| {
                    let kept = keep(&shape.field(name), &Element::Field(name.clone()), value, gone)?;
                    Some((name.clone(), kept))
                });
                let left = left.collect::<Map<_, _>>();
                if left.is_empty() { Value::Null } else { Value::Object(left) }
            }
            _ => Value::Null,
        },
        Form::List => match value {
            Value::Array(items) if !items.is_empty() && *shape.list_type() != ListType::Atomic => {
                let below = shape.item();
                let left = items.iter().filter_map(|child| match item::element(shape, child) {
                    Ok(element) => keep(&below, &element, child, gone),
                    Err(_) => Some(child.clone()),
                });
                let left = left.collect::<Vec<_>>();
                if left.is_empty() { Value::Null } else { Value::Array(left) }
            }
            _ => Value::Null,
        },
    }
}

fn keep(shape: &Shape, element: &Element, value: &Value, gone: &FieldSet) -> Option<Value> {
    if gone.members.contains(element) {
        return None;
    }
    match gone.children.get(element) {
        Some(below) if !below.is_empty() => Some(remove(shape, value, below)),
        _ => Some(value.clone()),
    }
}
