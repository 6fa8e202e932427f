//! Merging two lists.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{DIRECTIVE, Node, bad_type, identity, merge_map, no_merge_key, order, unclear, unknown_directive};
use crate::failure::{Failure, Result};
use crate::go;
use crate::schema::Link;

/// What tells the items of a list apart, or that the list is replaced as a whole.
pub(super) fn merge_field(original: Vec<Value>, patch: Vec<Value>, node: &Node, deletes: bool) -> Result<Vec<Value>> {
    let merges = node.as_ref().is_some_and(|node| node.patch_merge);
    if !merges && !deletes {
        return Ok(patch);
    }
    let key = node.as_ref().and_then(|node| node.patch_merge_key.as_deref());
    let items = node.as_ref().and_then(|node| node.items.as_ref()).map(Link::get);
    merge(original, patch, &items, key, deletes)
}

fn merge(
    original: Vec<Value>,
    patch: Vec<Value>,
    items: &Node,
    key: Option<&str>,
    deletes: bool,
) -> Result<Vec<Value>> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if !holds_objects(&[&original, &patch])? {
        if deletes {
            let gone = patch.iter().map(|item| identity(item, None)).collect::<HashSet<_>>();
            return Ok(original.into_iter().filter(|item| !gone.contains(&identity(item, None))).collect());
        }
        let mut seen = HashSet::new();
        let all = original.iter().chain(&patch);
        let merged = all.filter(|item| seen.insert(identity(item, None))).cloned().collect();
        return order::arrange(merged, &patch, &original, key);
    }
    let Some(key) = key else {
        return Err(unclear("cannot merge lists without merge key"));
    };
    let (original, patch) = follow_directives(original, patch, key)?;
    let merged = merge_items(original.clone(), patch.clone(), items, key)?;
    order::arrange(merged, &patch, &original, Some(key))
}

/// Whether the items are objects; they must all be of one type.
pub(super) fn holds_objects(lists: &[&[Value]]) -> Result<bool> {
    let mut first: Option<&Value> = None;
    for item in lists.iter().flat_map(|list| list.iter()) {
        if item.is_array() && first.is_none() {
            let mut failure =
                Failure::new(422, "Invalid", "the server rejected our request due to an error in our request");
            failure.details = Some(Box::default());
            return Err(failure);
        }
        let first = *first.get_or_insert(item);
        if go::type_name(first) != go::type_name(item) {
            let shown = lists.iter().map(|list| go::plain(&Value::from(list.to_vec()))).collect::<Vec<_>>();
            return Err(unclear(format!("list element types are not identical: [{}]", shown.join(" "))));
        }
    }
    match first {
        Some(first) => Ok(first.is_object()),
        None => Err(unclear("no elements in any of the given slices")),
    }
}

/// Deletes what the patch deletes; the rest of the patch is what to merge.
fn follow_directives(mut original: Vec<Value>, patch: Vec<Value>, key: &str) -> Result<(Vec<Value>, Vec<Value>)> {
    let mut rest = Vec::new();
    let mut gone = HashSet::new();
    let mut replace = false;
    for item in patch {
        let Some(directive) = item.get(DIRECTIVE) else {
            rest.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                item.get(key).ok_or_else(|| no_merge_key(&item, key))?;
                gone.insert(identity(&item, Some(key)));
            }
            Some("replace") => replace = true,
            Some("merge") => return Err(unclear("merging lists cannot yet be specified in the patch")),
            _ => {
                let fields = item.as_object().cloned().unwrap_or_default();
                return Err(unknown_directive(directive, &fields));
            }
        }
    }
    original.retain(|item| item.get(key).is_none() || !gone.contains(&identity(item, Some(key))));
    Ok(if replace { (rest, Vec::new()) } else { (original, rest) })
}

fn merge_items(mut original: Vec<Value>, patch: Vec<Value>, items: &Node, key: &str) -> Result<Vec<Value>> {
    let mut places = HashMap::new();
    for (at, item) in original.iter().enumerate().filter(|(_, item)| item.get(key).is_some()) {
        places.entry(identity(item, Some(key))).or_insert(at);
    }
    for item in patch {
        item.get(key).ok_or_else(|| no_merge_key(&item, key))?;
        let name = identity(&item, Some(key));
        match (places.get(&name).and_then(|at| original.get_mut(*at)), item) {
            (Some(Value::Object(found)), Value::Object(patch)) => {
                *found = merge_map(std::mem::take(found), patch, items)?;
            }
            (Some(other), _) => return Err(bad_type("map[string]interface {}", other)),
            (None, item) => {
                places.insert(name, original.len());
                original.push(item);
            }
        }
    }
    Ok(original)
}
