//! `metadata.managedFields`: who owns what, since when.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::fields::FieldSet;
use crate::field::{FieldError, Path};
use crate::go;

/// What one manager owns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Owned {
    pub(crate) manager: String,
    pub(crate) subresource: String,
    pub(crate) applied: bool,
    pub(crate) api_version: String,
    pub(crate) set: FieldSet,
}

/// All managers of an object by identity, and when each last changed something.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Managed {
    pub(crate) owners: BTreeMap<String, Owned>,
    pub(crate) times: BTreeMap<String, String>,
}

impl Owned {
    /// What tells managers apart. An applier is the same whatever version it applies in. This is the form Kubernetes
    /// sorts by.
    pub(crate) fn identity(&self) -> String {
        identity(&self.manager, self.applied, &self.api_version, &self.subresource)
    }

    /// As conflicts name it.
    pub(crate) fn shown(&self) -> String {
        let mut out = go::quoted(&self.manager);
        if !self.subresource.is_empty() {
            out = format!("{out} with subresource {}", go::quoted(&self.subresource));
        }
        if !self.applied {
            out = format!("{out} using {}", self.api_version);
        }
        out
    }
}

/// The identity of a manager.
pub(crate) fn identity(manager: &str, applied: bool, api_version: &str, subresource: &str) -> String {
    let mut fields = Vec::new();
    if !manager.is_empty() {
        fields.push(format!("\"manager\":{}", Value::from(manager)));
    }
    fields.push(format!("\"operation\":\"{}\"", operation(applied)));
    if !applied && !api_version.is_empty() {
        fields.push(format!("\"apiVersion\":{}", Value::from(api_version)));
    }
    if !subresource.is_empty() {
        fields.push(format!("\"subresource\":{}", Value::from(subresource)));
    }
    format!("{{{}}}", fields.join(","))
}

fn operation(applied: bool) -> &'static str {
    if applied { "Apply" } else { "Update" }
}

/// The `managedFields` of an object, if it has the field.
pub(crate) fn field_of(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields").filter(|field| !field.is_null())
}

/// Removes `managedFields` from an object.
pub(crate) fn strip(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Whether a request asks to forget all managers: `[]` or `[{}]`.
pub(crate) fn is_reset(object: &Value) -> bool {
    match field_of(object).and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

impl Managed {
    /// Reads the `managedFields` of an object.
    pub(crate) fn decode(object: &Value) -> Result<Self, String> {
        let mut out = Self::default();
        let Some(entries) = field_of(object).and_then(Value::as_array) else { return Ok(out) };
        for (at, entry) in entries.iter().enumerate() {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let applied = match text("operation").as_str() {
                "Apply" => true,
                "Update" => false,
                _ => return Err("operation must be `Apply` or `Update`".into()),
            };
            if text("apiVersion").is_empty() {
                return Err("apiVersion must not be empty".into());
            }
            match text("fieldsType").as_str() {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {at}")),
                other => {
                    let other = go::quoted(other);
                    return Err(format!("invalid fieldsType {other} in managed fields entry {at}"));
                }
            }
            let set = match entry.get("fieldsV1") {
                None | Some(Value::Null) => FieldSet::new(),
                Some(fields) => FieldSet::from_json(fields).map_err(|error| {
                    format!("error decoding versioned set from {entry}: error decoding set: {error}")
                })?,
            };
            let owned = Owned {
                manager: text("manager"),
                subresource: text("subresource"),
                applied,
                api_version: text("apiVersion"),
                set,
            };
            let identity = owned.identity();
            if let Some(time) = entry.get("time").and_then(Value::as_str) {
                out.times.insert(identity.clone(), time.to_owned());
            }
            out.owners.insert(identity, owned);
        }
        Ok(out)
    }

    /// Writes the `managedFields` of an object; an object without managers has none.
    pub(crate) fn encode_into(&self, object: &mut Value) {
        strip(object);
        if self.owners.is_empty() {
            return;
        }
        let Some(fields) = object.as_object_mut() else { return };
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("managedFields".into(), self.encode());
        }
    }

    fn encode(&self) -> Value {
        let mut entries = self.owners.iter().collect::<Vec<_>>();
        entries.sort_by(|(a_key, a), (b_key, b)| {
            (operation(a.applied).cmp(operation(b.applied)))
                .then_with(|| self.seconds(a_key).cmp(&self.seconds(b_key)))
                .then_with(|| a.manager.cmp(&b.manager))
                .then_with(|| a.api_version.cmp(&b.api_version))
                .then_with(|| a.subresource.cmp(&b.subresource))
        });
        entries.into_iter().map(|(key, owned)| self.entry(key, owned)).collect()
    }

    fn entry(&self, key: &str, owned: &Owned) -> Value {
        let mut out = Map::new();
        if !owned.manager.is_empty() {
            out.insert("manager".into(), owned.manager.as_str().into());
        }
        out.insert("operation".into(), operation(owned.applied).into());
        out.insert("apiVersion".into(), owned.api_version.as_str().into());
        if let Some(time) = self.times.get(key) {
            out.insert("time".into(), time.as_str().into());
        }
        out.insert("fieldsType".into(), "FieldsV1".into());
        out.insert("fieldsV1".into(), owned.set.to_json());
        if !owned.subresource.is_empty() {
            out.insert("subresource".into(), owned.subresource.as_str().into());
        }
        Value::Object(out)
    }

    /// When a manager last changed something, in seconds; no time counts as the beginning of time.
    pub(crate) fn seconds(&self, identity: &str) -> i64 {
        let time = self.times.get(identity).and_then(|time| time.parse::<Timestamp>().ok());
        time.map_or(0, Timestamp::as_second)
    }
}

/// The most bytes of a manager's name.
const NAME_LEN_MAX: usize = 128;

/// What is wrong with the name of a field manager in the field `path`.
pub(crate) fn manager_errors(path: &Path, name: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    if name.len() > NAME_LEN_MAX {
        out.push(FieldError::too_long(path, 128));
    }
    for (at, character) in name.char_indices().filter(|(_, character)| !is_print(*character)) {
        let code = format!("invalid character U+{:04X} (at position {at})", u32::from(character));
        out.push(FieldError::invalid(path, name, code));
    }
    out
}

/// The manager that a request without `fieldManager` is recorded under: the User-Agent up to its first `/`.
pub(crate) fn manager_from_user_agent(user_agent: &str) -> String {
    let mut out = String::new();
    for character in user_agent.chars().take_while(|c| *c != '/').filter(|c| is_print(*c)) {
        if out.len() + character.len_utf8() <= NAME_LEN_MAX {
            out.push(character);
        }
    }
    out
}

fn is_print(character: char) -> bool {
    matches!(character, '\'' | '"' | '\\') || character.escape_debug().len() == 1
}

/// A change of nothing but times in `managedFields` is no change: takes the times of the old object.
pub(crate) fn keep_times_if_unchanged(old: &Value, new: &mut Value) {
    let Some(before) = field_of(old) else { return };
    if field_of(new).is_some_and(|now| now != before) && same_but_times(&["metadata", "managedFields"], old, new) {
        new["metadata"]["managedFields"] = before.clone();
    }
}

/// Whether two values differ at most in `time` of the entries of the list at `path`.
fn same_but_times(path: &[&str], old: &Value, new: &Value) -> bool {
    let same_maps = |old: &Map<String, Value>, new: &Map<String, Value>, ignored: &str| {
        let count = |map: &Map<String, Value>| map.len() - usize::from(map.contains_key(ignored));
        count(old) == count(new)
            && new.iter().all(|(key, value)| key.as_str() == ignored || old.get(key) == Some(value))
    };
    match (path, old, new) {
        ([first, rest @ ..], Value::Object(old), Value::Object(new)) => {
            let below = match (old.get(*first), new.get(*first)) {
                (Some(old), Some(new)) => same_but_times(rest, old, new),
                (old, new) => old.is_none() && new.is_none(),
            };
            below && same_maps(old, new, first)
        }
        ([], Value::Array(old), Value::Array(new)) => {
            let same = |(old, new): (&Value, &Value)| match (old, new) {
                (Value::Object(old), Value::Object(new)) => same_maps(old, new, "time"),
                _ => old == new,
            };
            old.len() == new.len() && old.iter().zip(new).all(same)
        }
        _ => old == new,
    }
}

#[cfg(test)]
mod tests;
