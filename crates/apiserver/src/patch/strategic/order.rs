//! The order of merged lists.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{
    DIRECTIVE, Fields, Node, SET_ELEMENT_ORDER, after_slash, bad_type, field_of, identity, list, no_merge_key, unclear,
    without_directives,
};
use crate::failure::Result;
use crate::go;

/// Merges the lists that the patch gives an order for, and takes them out of the patch.
pub(super) fn merge_ordered_lists(original: &mut Fields, patch: &mut Fields, schema: &Node) -> Result<()> {
    let directives = patch.keys().filter(|name| name.starts_with(SET_ELEMENT_ORDER)).cloned().collect::<Vec<_>>();
    for directive in directives {
        let order = match patch.remove(&directive) {
            Some(Value::Array(order)) => order,
            other => return Err(bad_type("[]interface {}", &other.unwrap_or_default())),
        };
        let name = after_slash(&directive, SET_ELEMENT_ORDER)?;
        let current = as_list(original.get(name))?;
        let changes = as_list(patch.get(name))?;
        let node = field_of(schema, name);
        let key = node.as_ref().and_then(|node| node.patch_merge_key.clone());
        let key = key.as_deref();
        check_order(changes.as_deref().unwrap_or_default(), &order, key)?;
        let merged = match (&current, &changes) {
            (None, None) => continue,
            (Some(current), None) => current.clone(),
            (None, Some(changes)) => match without_directives(Value::Array(changes.clone())) {
                Some(Value::Array(items)) => items,
                _ => continue,
            },
            (Some(current), Some(changes)) => list::merge_field(current.clone(), changes.clone(), &node, false)?,
        };
        let current = current.unwrap_or_default();
        list::holds_objects(&[&current, changes.as_deref().unwrap_or_default()])?;
        let server = match (key, &changes) {
            (Some(key), Some(changes)) => overwritten(current, changes, key),
            _ => current,
        };
        let ordered = arrange(merged, &order, &server, key)?;
        original.insert(name.to_owned(), Value::Array(ordered));
        patch.remove(name);
    }
    Ok(())
}

/// The server's list as Kubernetes sees it after merging. It deletes and appends in place, so that new items have taken
/// the places that deleted ones left at the end, and counts those places when it orders.
fn overwritten(mut list: Vec<Value>, changes: &[Value], key: &str) -> Vec<Value> {
    let name = |item: &Value| identity(item, Some(key));
    let is_delete = |item: &&Value| item.get(DIRECTIVE).is_some_and(|directive| directive == "delete");
    let gone = changes.iter().filter(is_delete).map(name).collect::<HashSet<_>>();
    let mut write = 0;
    for read in 0..list.len() {
        if gone.contains(&name(&list[read])) {
            continue;
        }
        list[write] = list[read].clone();
        write += 1;
    }
    let mut len = write;
    let mut known = list[..len].iter().map(name).collect::<HashSet<_>>();
    for item in changes.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        if known.insert(name(item)) {
            if let Some(place) = list.get_mut(len) {
                *place = item.clone();
            }
            len += 1;
        }
    }
    list
}

fn as_list(value: Option<&Value>) -> Result<Option<Vec<Value>>> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items.clone())),
        Some(other) => Err(bad_type("[]interface {}", other)),
    }
}

/// The items of the patch must come in the given order.
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<()> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let deleted = |item: &Value| key.is_some() && item.get(DIRECTIVE).is_some_and(|directive| directive == "delete");
    let mut items = patch.iter().filter(|item| !deleted(item)).peekable();
    let mut rest = order.iter().peekable();
    while let (Some(item), Some(next)) = (items.peek(), rest.peek()) {
        if item.get(DIRECTIVE).is_some() {
            items.next();
            continue;
        }
        check_key(item, key)?;
        check_key(next, key)?;
        if identity(item, key) == identity(next, key) {
            items.next();
        }
        rest.next();
    }
    if items.peek().is_none() {
        return Ok(());
    }
    let shown = |list: &[Value]| go::plain(&Value::from(list.to_vec()));
    Err(unclear(format!(
        "The order in patch list:\n{}\n doesn't match {SET_ELEMENT_ORDER} list:\n{}\n",
        shown(patch),
        shown(order)
    )))
}

fn check_key(item: &Value, key: Option<&str>) -> Result<()> {
    let Some(key) = key else { return Ok(()) };
    if !item.is_object() {
        return Err(bad_type("map[string]interface {}", item));
    }
    if item.get(key).is_none() { Err(no_merge_key(item, key)) } else { Ok(()) }
}

/// Puts merged items in order: those of the patch in the patch's order, the others between them where the server had
/// them in front of the next one of the patch.
pub(super) fn arrange(merged: Vec<Value>, patch: &[Value], server: &[Value], key: Option<&str>) -> Result<Vec<Value>> {
    if key.is_some() {
        for item in merged.iter().chain(patch).chain(server) {
            check_key(item, key)?;
        }
    }
    let (wanted, had) = (places(patch, key), places(server, key));
    let named = merged.into_iter().map(|item| (identity(&item, key), item));
    let (mut right, mut left): (Vec<_>, Vec<_>) = named.partition(|(name, _)| wanted.contains_key(name));
    sort(&mut right, &wanted);
    sort(&mut left, &had);
    let mut out = Vec::with_capacity(left.len() + right.len());
    let mut left = left.into_iter().peekable();
    for (name, item) in right {
        let place = had.get(&name);
        while let Some((_, other)) =
            left.next_if(|(other, _)| place.is_some() && had.get(other).is_some_and(|at| Some(at) < place))
        {
            out.push(other);
        }
        out.push(item);
    }
    out.extend(left.map(|(_, item)| item));
    Ok(out)
}

fn places(order: &[Value], key: Option<&str>) -> HashMap<String, usize> {
    let mut out = HashMap::new();
    for (at, item) in order.iter().enumerate() {
        out.entry(identity(item, key)).or_insert(at);
    }
    out
}

/// Sorts by place. Items without a place only occur where a patch contradicts the order it gives: they end up where
/// Go's sort, told that they come before everything, happens to move them.
fn sort(items: &mut [(String, Value)], places: &HashMap<String, usize>) {
    // Beyond this many, Go's sort changes its way, and the place of such items is anybody's guess.
    const INSERTION_MAX: usize = 20;
    if items.len() > INSERTION_MAX || items.iter().all(|(name, _)| places.contains_key(name)) {
        items.sort_by_key(|(name, _)| places.get(name).copied().unwrap_or(usize::MAX));
        return;
    }
    for end in 1..items.len() {
        for at in (1..=end).rev() {
            let before = match (places.get(&items[at].0), places.get(&items[at - 1].0)) {
                (Some(here), Some(there)) => here < there,
                _ => true,
            };
            if !before {
                break;
            }
            items.swap(at, at - 1);
        }
    }
}
