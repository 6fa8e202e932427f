//! Environment variables: one rule makes every name.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Origin;
use super::leaves::{Leaves, Path};

const PREFIX: &str = "THANE_";
/// Names the configuration file; read before any layer exists.
pub const FILE_VARIABLE: &str = "THANE_CONFIG";
/// Where commands find the discovery API; no setting of a process.
pub const DISCOVERY_VARIABLE: &str = "THANE_DISCOVERY";
/// What they show it; no setting either.
pub const DISCOVERY_TOKEN_VARIABLE: &str = "THANE_DISCOVERY_TOKEN";
/// Where commands find the gateway of sandboxes.
pub const GATEWAY_VARIABLE: &str = "THANE_GATEWAY";
/// What they show it.
pub const API_KEY_VARIABLE: &str = "THANE_API_KEY";
/// Variables that are ours and set no value.
const OTHERS: [&str; 5] =
    [FILE_VARIABLE, DISCOVERY_VARIABLE, DISCOVERY_TOKEN_VARIABLE, GATEWAY_VARIABLE, API_KEY_VARIABLE];

/// What the environment sets.
pub(super) struct Found {
    pub(super) leaves: Leaves,
    pub(super) unknown: Vec<String>,
}

/// The variable that sets a value: `log.maxSize` is `THANE_LOG_MAX_SIZE`.
pub fn variable_name<S: AsRef<str>>(path: &[S]) -> String {
    let mut name = PREFIX.to_owned();
    for (index, part) in path.iter().enumerate() {
        if index > 0 {
            name.push('_');
        }
        for (at, c) in part.as_ref().char_indices() {
            if c.is_ascii_uppercase() && at > 0 {
                name.push('_');
            }
            name.push(if c == '-' { '_' } else { c.to_ascii_uppercase() });
        }
    }
    name
}

/// Picks the variables that set a known value, each read as the kind of value the default is.
pub(super) fn select(known: &Leaves, variables: impl IntoIterator<Item = (String, String)>) -> Found {
    let names: BTreeMap<String, (&Path, &Value)> =
        known.iter().map(|(path, leaf)| (variable_name(path), (path, &leaf.value))).collect();
    let mut found = Found { leaves: Leaves::default(), unknown: Vec::new() };
    for (name, text) in variables {
        if !name.starts_with(PREFIX) || text.is_empty() || OTHERS.contains(&name.as_str()) {
            continue;
        }
        match names.get(&name) {
            Some((path, default)) => {
                let value = read_as(default, text);
                found.leaves.put((*path).clone(), value, Origin::Environment(name));
            }
            // Kubernetes sets such names in every pod beside a Service called thane.
            None if name.contains("_SERVICE_") || name.contains("_PORT_") || is_service_address(&name, &text) => {}
            None => found.unknown.push(name),
        }
    }
    found.unknown.sort();
    found
}

fn is_service_address(name: &str, text: &str) -> bool {
    name.ends_with("_PORT") && (text.contains("://") || name == "THANE_PORT")
}

fn read_as(default: &Value, text: String) -> Value {
    match default {
        Value::Array(_) => text.split(',').map(|item| Value::String(item.trim().to_owned())).collect(),
        Value::String(_) => Value::String(text),
        // What does not parse stays text, and the typed configuration says what it wants instead.
        _ => serde_json::from_str(&text).ok().filter(|value: &Value| !value.is_object()).unwrap_or(Value::String(text)),
    }
}
