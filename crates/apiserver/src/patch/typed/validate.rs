//! Whether a value fits its schema well enough to be split between owners.

use std::collections::BTreeSet;

use serde_json::Value;

use super::shape::Scalar;
use super::{Form, Shape, TypeErrors, item};
use crate::go;
use crate::patch::fields::Element;
use crate::schema::ListType;

/// Checks a whole value. Stored objects may hold duplicate list items, applied ones may not.
pub(crate) fn validate(shape: &Shape, value: &Value, allow_duplicates: bool) -> Result<(), TypeErrors> {
    check(shape, value, allow_duplicates).into_result(())
}

fn check(shape: &Shape, value: &Value, allow_duplicates: bool) -> TypeErrors {
    match shape.forms(Some(value)).first() {
        Form::Scalar => scalar(shape, Some(value), ""),
        Form::Map => map(shape, value, allow_duplicates),
        Form::List => list(shape, value, allow_duplicates),
    }
}

/// Checks a scalar; absent and null pass.
pub(crate) fn scalar(shape: &Shape, value: Option<&Value>, prefix: &str) -> TypeErrors {
    let mut errors = TypeErrors::default();
    let Some(value) = value.filter(|value| !value.is_null()) else { return errors };
    match shape.scalar() {
        Scalar::Numeric if !value.is_number() => {
            errors.push(format!("{prefix}expected numeric (int or float), got {}", go::type_name(value)));
        }
        Scalar::String if !value.is_string() => {
            let shown = go::syntax(value);
            errors.push(format!("{prefix}expected string, got &value.valueUnstructured{{Value:{shown}}}"));
        }
        Scalar::Boolean if !value.is_boolean() => {
            errors.push(format!("{prefix}expected boolean, got &{{{}}}", go::plain(value)));
        }
        Scalar::Untyped if value.is_array() || value.is_object() => {
            errors.push(format!("{prefix}expected any scalar, got &{{{}}}", go::plain(value)));
        }
        _ => {}
    }
    errors
}

fn map(shape: &Shape, value: &Value, allow_duplicates: bool) -> TypeErrors {
    let mut errors = TypeErrors::default();
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Null => return errors,
        _ => {
            errors.push(format!("expected map, got &{{{}}}", go::plain(value)));
            return errors;
        }
    };
    for (name, value) in fields {
        let prefix = Element::Field(name.clone());
        let Some(shape) = shape.declared(name).or_else(|| shape.element()) else {
            let mut undeclared = TypeErrors::default();
            undeclared.push("field not declared in schema");
            errors.below(&prefix, undeclared);
            break;
        };
        errors.below(&prefix, check(&shape, value, allow_duplicates));
    }
    errors
}

fn list(shape: &Shape, value: &Value, allow_duplicates: bool) -> TypeErrors {
    let mut errors = TypeErrors::default();
    let items = match value {
        Value::Array(items) => items,
        Value::Null => return errors,
        _ => {
            errors.push(format!("expected list, got &{{{}}}", go::plain(value)));
            return errors;
        }
    };
    let item_shape = shape.item();
    let mut seen = BTreeSet::new();
    for (at, child) in items.iter().enumerate() {
        let element = if *shape.list_type() == ListType::Atomic {
            Element::Index(i64::try_from(at).unwrap_or(i64::MAX))
        } else {
            match item::element(shape, child) {
                Ok(element) => element,
                Err(why) => {
                    errors.push(format!("element {at}: {why}"));
                    return errors;
                }
            }
        };
        if !seen.insert(element.clone()) && !allow_duplicates {
            errors.push(format!("duplicate entries for key {element}"));
        }
        errors.below(&element, check(&item_shape, child, allow_duplicates));
    }
    errors
}
