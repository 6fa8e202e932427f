//! The fields a value sets.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Form, Shape, item};
use crate::patch::fields::{Element, FieldSet};
use crate::schema::ListType;

/// Every leaf, list item and map entry of a valid value.
pub(crate) fn field_set(shape: &Shape, value: &Value) -> FieldSet {
    let mut set = FieldSet::new();
    walk(shape, value, &mut Vec::new(), &mut set);
    set
}

fn walk(shape: &Shape, value: &Value, path: &mut Vec<Element>, set: &mut FieldSet) {
    match shape.forms(Some(value)).first() {
        Form::Scalar => set.insert(path),
        Form::Map if shape.map_is_atomic() => set.insert(path),
        Form::List if *shape.list_type() == ListType::Atomic => set.insert(path),
        Form::Map => {
            if let Value::Object(fields) = value {
                walk_map(shape, fields, path, set);
            }
        }
        Form::List => {
            if let Value::Array(items) = value {
                walk_list(shape, items, path, set);
            }
        }
    }
}

fn walk_map(shape: &Shape, fields: &Map<String, Value>, path: &mut Vec<Element>, set: &mut FieldSet) {
    for (name, value) in fields {
        let declared = shape.declared(name);
        let known = declared.is_some();
        let below = declared.unwrap_or_else(|| shape.field(name));
        path.push(Element::Field(name.clone()));
        walk(&below, value, path, set);
        let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        if empty || !known {
            set.insert(path);
        }
        path.pop();
    }
}

fn walk_list(shape: &Shape, items: &[Value], path: &mut Vec<Element>, set: &mut FieldSet) {
    let elements = items.iter().map(|child| item::element(shape, child).ok()).collect::<Vec<_>>();
    let mut seen = BTreeSet::new();
    let duplicates = elements.iter().flatten().filter(|element| !seen.insert(*element)).collect::<BTreeSet<_>>();
    let below = shape.item();
    for (element, child) in elements.iter().zip(items) {
        let Some(element) = element else { continue };
        path.push(element.clone());
        // Items that cannot be told apart are owned as a whole.
        if !duplicates.contains(element) {
            walk(&below, child, path, set);
        }
        set.insert(path);
        path.pop();
    }
}

/// The set with every declared field on the way to a member made a member too.
pub(crate) fn with_named_parents(set: &FieldSet, shape: Option<&Shape>) -> FieldSet {
    let mut out = FieldSet { members: set.members.clone(), ..FieldSet::default() };
    for (element, child) in &set.children {
        let below = match (element, shape) {
            (Element::Field(name), Some(shape)) => {
                let declared = shape.declared(name);
                if declared.is_some() {
                    out.members.insert(element.clone());
                }
                declared.or_else(|| shape.element())
            }
            (Element::Key(_), Some(shape)) => Some(shape.item()),
            _ => None,
        };
        out.children.insert(element.clone(), with_named_parents(child, below.as_ref()));
    }
    out
}
