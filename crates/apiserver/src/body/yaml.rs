//! YAML into a [`Value`]. As with JSON, the last of several equal keys wins.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Options, Spanned};

use super::Decoded;

/// How Kubernetes begins its list of keys that occur twice.
const LIST: &str = "yaml: unmarshal errors:\n";
/// The most of them that are told.
const REPORTED_MAX: usize = 100;

/// Parses; keys that occur twice make one entry of [`Decoded::duplicates`], worded as Kubernetes does.
pub(super) fn parse(text: &str) -> Result<Decoded, serde_saphyr::Error> {
    let wrong = match serde_saphyr::from_str_with_options::<Value>(text, options(DuplicateKeyPolicy::Error)) {
        Ok(value) => return Ok(Decoded { value, duplicates: Vec::new() }),
        Err(wrong) => wrong,
    };
    // if it can be read with keys that occur twice, it is for these that it could not
    let Ok(node) = serde_saphyr::from_str_with_options::<Node>(text, options(DuplicateKeyPolicy::LastWins)) else {
        return Err(wrong);
    };
    let mut lines = Vec::new();
    let value = node.value(&mut lines);
    lines.truncate(REPORTED_MAX);
    let duplicates = if lines.is_empty() { Vec::new() } else { vec![format!("{LIST}{}", lines.join("\n"))] };
    Ok(Decoded { value, duplicates })
}

fn options(duplicates: DuplicateKeyPolicy) -> Options {
    serde_saphyr::options! {
        duplicate_keys: duplicates,
        budget: serde_saphyr::budget! { max_depth: super::depth::BODY_MAX + 2 },
    }
}

/// What a client is told, a line each: YAML's keys that occur twice come as one text.
pub(crate) fn warnings(text: &str) -> impl Iterator<Item = &str> {
    let list = text.strip_prefix("error converting YAML to JSON: ").unwrap_or(text).strip_prefix(LIST);
    list.unwrap_or(text).split(if list.is_some() { '\n' } else { '\0' }).map(str::trim)
}

/// A document with all its keys and the lines of their values.
enum Node {
    Scalar(Value),
    List(Vec<Self>),
    Map(Vec<(String, Spanned<Self>)>),
}

impl Node {
    /// The value; `found` gets a line for each key that was there already.
    fn value(self, found: &mut Vec<String>) -> Value {
        match self {
            Self::Scalar(value) => value,
            Self::List(items) => items.into_iter().map(|item| item.value(found)).collect(),
            Self::Map(entries) => {
                let mut map = Map::new();
                for (key, node) in entries {
                    let line = node.referenced.line();
                    let value = node.value.value(found);
                    if map.contains_key(&key) && found.len() < REPORTED_MAX {
                        found.push(format!("  line {line}: key {key:?} already set in map"));
                    }
                    map.insert(key, value);
                }
                Value::Object(map)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(Number::from_f64(value).map_or(Value::Null, Value::Number)))
    }
    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }
    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }
    fn visit_none<E: Error>(self) -> Result<Node, E> {
        self.visit_unit()
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Node::Map(map))
    }
}
