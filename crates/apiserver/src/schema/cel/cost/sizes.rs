//! How large the parts of an object can be by their schema and by the bound on a request.

use std::sync::Arc;

use super::{Path, Size};
use crate::schema::cel::types;
use crate::schema::node::{Schema, Type};

/// The largest request.
const REQUEST_MAX: i64 = 3 * 1024 * 1024;
/// The longest string in one: without its quotes.
const STRING_MAX: i64 = REQUEST_MAX - 2;
const DATE: i64 = 12;

/// The size of what is found at a path; `None` where it leads nowhere. The variable it begins with is the root.
pub(super) fn at(root: &Schema, path: &Path) -> Option<Size> {
    let (_, steps) = path.split_first()?;
    let mut here: Option<Arc<Schema>> = None;
    for (nth, step) in steps.iter().enumerate() {
        let node = here.as_deref().unwrap_or(root);
        here = Some(match step.as_str() {
            "@items" | "@values" => node.items.as_ref().or(map_values(node))?.get(),
            // Keys are strings of which nothing is known; nothing is below them.
            "@keys" => {
                return (map_values(node).is_some() && nth + 1 == steps.len()).then_some(Size { min: 0, max: 0 });
            }
            name if node.kind == Some(Type::Object) && map_values(node).is_none() => types::child(node, name)?,
            _ => return None,
        });
    }
    let node = here.as_deref().unwrap_or(root);
    Some(Size { min: 0, max: most(node).try_into().unwrap_or_default() })
}

/// What the values of a map are, if a node is one.
fn map_values(node: &Schema) -> Option<&crate::schema::node::Link> {
    node.additional.as_ref().filter(|link| link.get().kind.is_some() || link.get().int_or_string)
}

/// The most elements, entries or characters a node can have; scalars have none.
fn most(node: &Schema) -> i64 {
    let rules = node.rules.as_deref();
    let max_length = rules.and_then(|rules| rules.max_length).map(|length| length.max(0));
    if node.int_or_string {
        return max_length.map_or(STRING_MAX, |length| length.saturating_mul(4));
    }
    match node.kind {
        Some(Type::Array) => {
            let given = rules.and_then(|rules| rules.max_items).map(|count| count.max(0));
            given.unwrap_or_else(|| STRING_MAX / (node.items.as_ref().map_or(0, |link| least_bytes(&link.get())) + 1))
        }
        Some(Type::Object) => {
            let Some(values) = map_values(node) else { return 0 };
            let given = rules.and_then(|rules| rules.max_properties).map(|count| count.max(0));
            given.unwrap_or_else(|| STRING_MAX / (least_bytes(&values.get()) + 6))
        }
        Some(Type::String) => match node.format.as_deref() {
            Some("byte") => max_length.unwrap_or(STRING_MAX),
            Some("duration" | "date-time") => 32,
            Some("date") => DATE,
            _ => max_length.map_or_else(|| longest(node), |length| length.saturating_mul(4)),
        },
        _ => 0,
    }
}

fn longest(node: &Schema) -> i64 {
    let Some(list) = &node.enumeration else { return STRING_MAX };
    let lengths = list.iter().filter_map(|value| value.as_str()).map(str::len);
    lengths.max().and_then(|length| i64::try_from(length).ok()).unwrap_or_default()
}

/// The fewest bytes a node takes as JSON.
fn least_bytes(node: &Schema) -> i64 {
    if node.int_or_string {
        return 1;
    }
    match node.kind {
        Some(Type::Object) if map_values(node).is_none() => {
            let fields = node.required.iter().filter_map(|name| {
                let field = node.properties.get(name)?.get();
                types::of_schema(&field).filter(|_| field.default.is_none())?;
                Some(i64::try_from(name.len()).unwrap_or_default() + least_bytes(&field) + 4)
            });
            2 + fields.sum::<i64>()
        }
        Some(Type::String) => match node.format.as_deref() {
            Some("duration") => 3,
            Some("date") => DATE,
            Some("date-time") => 21,
            _ => 2,
        },
        Some(Type::Array | Type::Object) => 2,
        Some(Type::Boolean) => 4,
        _ => 1,
    }
}

/// How many of a node fit into a request at most.
pub(in crate::schema::cel) fn most_in_request(node: &Schema) -> u64 {
    (REQUEST_MAX / (least_bytes(node) + 1)).try_into().unwrap_or_default()
}
