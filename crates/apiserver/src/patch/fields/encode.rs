//! `FieldsV1`: a field set as JSON.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Element, FieldSet};

/// Deeper sets are not read: no object nests so far.
const DEPTH_MAX: usize = 256;

impl FieldSet {
    /// The `fieldsV1` object.
    pub(crate) fn to_json(&self) -> Value {
        Value::Object(self.emit(false))
    }

    fn emit(&self, itself: bool) -> Map<String, Value> {
        let mut out = Map::new();
        if itself && !(self.members.is_empty() && self.children.is_empty()) {
            out.insert(".".into(), Value::Object(Map::new()));
        }
        let elements = self.members.iter().chain(self.children.keys()).collect::<BTreeSet<_>>();
        for element in elements {
            let below = match self.children.get(element) {
                Some(child) => child.emit(self.members.contains(element)),
                None => Map::new(),
            };
            out.insert(encode(element), Value::Object(below));
        }
        out
    }

    /// Reads a `fieldsV1` object; path elements of unknown types are passed over, as Kubernetes does.
    pub(crate) fn from_json(json: &Value) -> Result<Self, String> {
        Ok(read(json, 0)?.0.unwrap_or_default())
    }
}

/// The set below, if there is anything, and whether the path that leads here is itself in the set.
fn read(json: &Value, depth: usize) -> Result<(Option<FieldSet>, bool), String> {
    if depth > DEPTH_MAX {
        return Err("exceeded max depth".into());
    }
    let empty = Map::new();
    let object = match json {
        Value::Object(object) => object,
        Value::Null => &empty,
        _ => return Err("ReadMapCB: expect { or n".into()),
    };
    let mut set: Option<FieldSet> = None;
    let mut itself = false;
    for (key, below) in object {
        if key == "." {
            itself = true;
            continue;
        }
        let Some(element) = decode(key)? else { continue };
        let (child, member) = read(below, depth + 1)?;
        let set = set.get_or_insert_default();
        if member {
            set.members.insert(element.clone());
        }
        if let Some(child) = child {
            set.children.insert(element, child);
        }
    }
    let itself = itself || set.is_none();
    Ok((set, itself))
}

fn encode(element: &Element) -> String {
    match element {
        Element::Field(name) => format!("f:{name}"),
        Element::Key(fields) => {
            let list = fields
                .iter()
                .map(|(name, value)| format!("{}:{}", Value::String(name.clone()), escaped(&value.to_string())));
            format!("k:{{{}}}", list.collect::<Vec<_>>().join(","))
        }
        Element::Value(value) => format!("v:{}", escaped(&value.to_string())),
        Element::Index(at) => format!("i:{at}"),
    }
}

/// Go's JSON writes these characters as escapes, and they can only stand inside a string.
fn escaped(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

fn decode(key: &str) -> Result<Option<Element>, String> {
    let bytes = key.as_bytes();
    if bytes.len() < 2 {
        return Err("parsing key as path element: key must be 2 characters long:".into());
    }
    if bytes[1] != b':' {
        return Err(format!("parsing key as path element: missing colon: {key}"));
    }
    let wrong = |error: &dyn std::fmt::Display| format!("parsing key as path element: {error}");
    let Some(rest) = key.get(2..) else { return Ok(None) };
    let element = match bytes[0] {
        b'f' => Element::Field(rest.to_owned()),
        b'v' => Element::Value(serde_json::from_str(rest).map_err(|error| wrong(&error))?),
        b'k' => {
            let fields: Map<String, Value> = serde_json::from_str(rest).map_err(|error| wrong(&error))?;
            Element::key(fields.into_iter().collect())
        }
        b'i' => Element::Index(rest.parse().map_err(|error| wrong(&error))?),
        _ => return Ok(None),
    };
    Ok(Some(element))
}
