//! Moving from client-side to server-side apply with kubectl.

use serde_json::{Value, json};

use super::{Conflict, Target};
use crate::patch::fields::FieldSet;
use crate::patch::typed::{compare, field_set, validate};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The most bytes all annotations together may have.
const ANNOTATIONS_SIZE_MAX: usize = 256 * 1024;

/// The conflicts that are not about fields kubectl applied itself, client-side, and that still have the value it gave.
pub(super) fn unresolved(target: &Target<'_>, live: &Value, conflicts: Vec<Conflict>) -> Result<(), Vec<Conflict>> {
    let Some(own) = own_fields(target, live) else { return Err(conflicts) };
    let left = conflicts.into_iter().filter(|conflict| !own.has(&conflict.path)).collect::<Vec<_>>();
    if left.is_empty() { Ok(()) } else { Err(left) }
}

fn own_fields(target: &Target<'_>, live: &Value) -> Option<FieldSet> {
    let last: Value = serde_json::from_str(annotation(live)?).ok()?;
    if last.get("apiVersion")?.as_str()? != target.api_version {
        return None;
    }
    let shape = target.shape();
    validate::validate(&shape, live, false).ok()?;
    validate::validate(&shape, &last, false).ok()?;
    let change = compare::compare(&shape, &last, live).ok()?;
    let set = field_set::field_set(&shape, &last);
    Some(set.difference(&change.modified).difference(&change.added).difference(&change.removed))
}

fn annotation(object: &Value) -> Option<&str> {
    object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}

/// Where the object carries the annotation, it follows what kubectl applies server-side.
pub(super) fn refresh(object: &mut Value, applied: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut copy = applied.clone();
    if let Some(annotations) = copy.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
        let empty = annotations.is_empty();
        if let Some(metadata) = copy.get_mut("metadata").and_then(Value::as_object_mut).filter(|_| empty) {
            metadata.remove("annotations");
        }
    }
    let text = format!("{copy}\n");
    let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else { return };
    annotations.insert(ANNOTATION.to_owned(), json!(text));
    let size: usize = annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > ANNOTATIONS_SIZE_MAX {
        annotations.remove(ANNOTATION);
    }
}
