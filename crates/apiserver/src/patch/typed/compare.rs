//! What changed between two values of the same type.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Form, Shape, TypeErrors, item, validate};
use crate::patch::fields::{Element, FieldSet};
use crate::schema::ListType;

/// What changed from one value to another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) added: FieldSet,
    pub(crate) modified: FieldSet,
    pub(crate) removed: FieldSet,
}

impl Comparison {
    /// Without what is in `fields` and below.
    pub(crate) fn without(self, fields: &FieldSet) -> Self {
        if fields.is_empty() {
            return self;
        }
        Self {
            added: self.added.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
            removed: self.removed.recursive_difference(fields),
        }
    }
}

/// Compares two whole values.
pub(crate) fn compare(shape: &Shape, old: &Value, new: &Value) -> Result<Comparison, TypeErrors> {
    let mut walk = Walk { found: Comparison::default(), path: Vec::new() };
    let errors = walk.visit(shape, Some(old), Some(new));
    errors.into_result(walk.found)
}

struct Walk {
    found: Comparison,
    path: Vec<Element>,
}

impl Walk {
    fn visit(&mut self, shape: &Shape, old: Option<&Value>, new: Option<&Value>) -> TypeErrors {
        let (old_forms, new_forms) = (shape.forms(old), shape.forms(new));
        let mut errors = TypeErrors::default();
        let leaf = if new.is_none() {
            self.handle(old_forms.first(), shape, old, new, &mut errors)
        } else if old.is_none() || old_forms == new_forms {
            self.handle(new_forms.first(), shape, old, new, &mut errors)
        } else {
            self.handle(old_forms.first(), shape, old, new, &mut errors);
            self.handle(new_forms.first(), shape, old, new, &mut errors)
        };
        if !leaf {
            if old.is_none() {
                self.found.added.insert(&self.path);
            } else if new.is_none() {
                self.found.removed.insert(&self.path);
            }
        }
        errors
    }

    /// Returns whether the value was one leaf.
    fn handle(
        &mut self,
        form: Form,
        shape: &Shape,
        old: Option<&Value>,
        new: Option<&Value>,
        errors: &mut TypeErrors,
    ) -> bool {
        match form {
            Form::Scalar => {
                let wrong = (validate::scalar(shape, old, "lhs: "), validate::scalar(shape, new, "rhs: "));
                if !wrong.0.0.is_empty() && !wrong.1.0.is_empty() {
                    errors.extend(wrong.0);
                    errors.extend(wrong.1);
                    return false;
                }
                self.leaf(old, new);
                true
            }
            Form::Map => {
                let (old_map, new_map) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
                let empty = old_map.is_none_or(Map::is_empty) && new_map.is_none_or(Map::is_empty);
                if shape.map_is_atomic() || empty {
                    self.leaf(old, new);
                    return true;
                }
                self.maps(shape, old_map, new_map, errors);
                false
            }
            Form::List => {
                let (old_list, new_list) = (old.and_then(Value::as_array), new.and_then(Value::as_array));
                let empty = old_list.is_none_or(Vec::is_empty) && new_list.is_none_or(Vec::is_empty);
                if *shape.list_type() == ListType::Atomic || empty {
                    self.leaf(old, new);
                    return true;
                }
                let none = Vec::new();
                self.lists(shape, old_list.unwrap_or(&none), new_list.unwrap_or(&none), errors);
                false
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.found.added.insert(&self.path),
            (Some(_), None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) if !item::same(old, new) => self.found.modified.insert(&self.path),
            _ => {}
        }
    }

    fn maps(
        &mut self,
        shape: &Shape,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
        errors: &mut TypeErrors,
    ) {
        let none = Map::new();
        let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
        for (name, value) in old {
            self.child(&shape.field(name), Element::Field(name.clone()), Some(value), new.get(name), errors);
        }
        for (name, value) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
            self.child(&shape.field(name), Element::Field(name.clone()), None, Some(value), errors);
        }
    }

    fn child(
        &mut self,
        shape: &Shape,
        element: Element,
        old: Option<&Value>,
        new: Option<&Value>,
        errors: &mut TypeErrors,
    ) {
        self.path.push(element);
        let below = self.visit(shape, old, new);
        if let Some(element) = self.path.pop() {
            errors.below(&element, below);
        }
    }

    fn lists(&mut self, shape: &Shape, old: &[Value], new: &[Value], errors: &mut TypeErrors) {
        let old_items = grouped(shape, old, errors);
        let new_items = grouped(shape, new, errors);
        let below = shape.item();
        let fresh = new_items.iter().filter(|(element, _)| !old_items.contains_key(*element));
        for (element, was) in &old_items {
            let is = new_items.get(element).map_or(&[][..], Vec::as_slice);
            self.items(&below, element, was, is, errors);
        }
        for (element, is) in fresh {
            self.items(&below, element, &[], is, errors);
        }
    }

    /// Compares the items with one key: usually one on each side, but stored lists may hold duplicates.
    fn items(&mut self, below: &Shape, element: &Element, was: &[&Value], is: &[&Value], errors: &mut TypeErrors) {
        let mut here = self.path.clone();
        here.push(element.clone());
        match (was, is) {
            ([] | [_], [] | [_]) => {
                self.child(below, element.clone(), was.first().copied(), is.first().copied(), errors);
            }
            ([_, _, ..], [_, _, ..]) => {
                let equal = was.len() == is.len() && was.iter().zip(is).all(|(a, b)| item::same(a, b));
                if !equal {
                    self.found.modified.insert(&here);
                }
            }
            ([_, _, ..], _) => {
                if let Some(only) = is.first() {
                    self.child(below, element.clone(), None, Some(only), errors);
                }
                self.found.removed.insert(&here);
            }
            (_, _) => {
                if let Some(only) = was.first() {
                    self.child(below, element.clone(), Some(only), None, errors);
                }
                self.found.added.insert(&here);
            }
        }
    }
}

fn grouped<'a>(shape: &Shape, list: &'a [Value], errors: &mut TypeErrors) -> BTreeMap<Element, Vec<&'a Value>> {
    let mut out: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
    for (at, child) in list.iter().enumerate() {
        match item::element(shape, child) {
            Ok(element) => out.entry(element).or_default().push(child),
            Err(why) => errors.push(format!("element {at}: {why}")),
        }
    }
    out
}
