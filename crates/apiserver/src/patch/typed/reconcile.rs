//! Field sets written under an earlier schema.

use super::{Form, Shape};
use crate::patch::fields::{Element, FieldSet};
use crate::schema::ListType;

/// Where a list or map was shared when `set` was written and is one value now, its owner of any part owns the whole.
pub(crate) fn reconcile(shape: &Shape, set: &FieldSet) -> FieldSet {
    let mut whole = FieldSet::new();
    visit(shape, Some(set), false, &mut Vec::new(), &mut whole);
    if whole.is_empty() { set.clone() } else { set.recursive_difference(&whole).union(&whole) }
}

fn visit(shape: &Shape, set: Option<&FieldSet>, is_leaf: bool, path: &mut Vec<Element>, whole: &mut FieldSet) {
    match shape.forms(None).first() {
        Form::Scalar => {}
        Form::Map if shape.is_open_map() => {}
        Form::Map if !is_leaf && shape.map_is_atomic() => {
            if set.is_some_and(|set| !set.is_empty()) {
                whole.insert(path);
            }
        }
        Form::List if !is_leaf && *shape.list_type() == ListType::Atomic => whole.insert(path),
        form => {
            let Some(set) = set else { return };
            let elements = set.children.keys().chain(set.members.iter().filter(|e| !set.children.contains_key(*e)));
            for element in elements {
                let below = match (form, element) {
                    (Form::List, _) => Some(shape.item()),
                    (_, Element::Field(name)) => shape.declared(name).or_else(|| shape.element()),
                    _ => shape.element(),
                };
                let Some(below) = below else { continue };
                let child = set.children.get(element);
                let leaf = set.members.contains(element) && child.is_none();
                path.push(element.clone());
                visit(&below, child, leaf, path, whole);
                path.pop();
            }
        }
    }
}
