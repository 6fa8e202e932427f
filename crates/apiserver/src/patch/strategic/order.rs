//! The order of merged lists.

use serde_json::Value;

use super::{
    DIRECTIVE, Fields, Node, SET_ELEMENT_ORDER, after_slash, bad_type, field_of, list, no_merge_key, same_item,
    unclear, without_directives,
};
use crate::failure::Result;
use crate::patch::typed::show;

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
        let ordered = arrange(merged, &order, &current, key)?;
        original.insert(name.to_owned(), Value::Array(ordered));
        patch.remove(name);
    }
    Ok(())
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
    let mut rest = order.iter();
    let special = |item: &Value| key.is_some() && item.get(DIRECTIVE).is_some();
    for item in patch.iter().filter(|item| !special(item)) {
        check_key(item, key)?;
        loop {
            let Some(next) = rest.next() else {
                let shown = |list: &[Value]| show::plain(&Value::from(list.to_vec()));
                return Err(unclear(format!(
                    "The order in patch list:\n{}\n doesn't match {SET_ELEMENT_ORDER} list:\n{}\n",
                    shown(patch),
                    shown(order)
                )));
            };
            check_key(next, key)?;
            if same_item(item, next, key) {
                break;
            }
        }
    }
    Ok(())
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
    let place = |order: &[Value], item: &Value| order.iter().position(|other| same_item(item, other, key));
    let (mut right, mut left): (Vec<_>, Vec<_>) = merged.into_iter().partition(|item| place(patch, item).is_some());
    right.sort_by_key(|item| place(patch, item));
    left.sort_by_key(|item| place(server, item));
    let mut out = Vec::with_capacity(left.len() + right.len());
    let mut left = left.into_iter().peekable();
    for item in right {
        while let Some(other) = left.peek() {
            match (place(server, other), place(server, &item)) {
                (Some(a), Some(b)) if a < b => out.extend(left.next()),
                _ => break,
            }
        }
        out.push(item);
    }
    out.extend(left);
    Ok(out)
}
