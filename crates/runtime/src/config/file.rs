//! A YAML file whose values remember their lines.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

use super::leaves::{Leaves, Path as Key};
use super::{Error, Origin};

pub(super) fn parse(path: &Path, text: &str) -> Result<Leaves, Error> {
    let syntax = |message: String| Error::Syntax { path: path.to_owned(), message };
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Leaves::default());
    }
    let root: Spanned<Node> =
        serde_saphyr::from_str(text).map_err(|error| syntax(error.without_snippet().to_string()))?;
    if let Node::Leaf(value) = &root.value
        && !value.is_null()
    {
        return Err(syntax("the file must be a mapping of sections".to_owned()));
    }
    let mut leaves = Leaves::default();
    add(&mut leaves, &mut Key::new(), root, path);
    Ok(leaves)
}

fn add(leaves: &mut Leaves, key: &mut Key, node: Spanned<Node>, path: &Path) {
    match node.value {
        Node::Leaf(value) if !key.is_empty() => {
            let origin = Origin::File { path: path.to_owned(), line: node.referenced.line() };
            leaves.put(key.clone(), value, origin);
        }
        Node::Leaf(_) => {}
        Node::Section(fields) => {
            for (name, value) in fields {
                key.push(name);
                add(leaves, key, value, path);
                key.pop();
            }
        }
    }
}

/// A mapping that has something in it, or any other value.
enum Node {
    Section(BTreeMap<String, Spanned<Node>>),
    Leaf(Value),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a configuration value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some((name, value)) = access.next_entry()? {
            fields.insert(name, value);
        }
        Ok(if fields.is_empty() { Node::Leaf(Value::Object(serde_json::Map::new())) } else { Node::Section(fields) })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element::<Value>()? {
            items.push(item);
        }
        Ok(Node::Leaf(Value::Array(items)))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf(Value::Null))
    }
}
