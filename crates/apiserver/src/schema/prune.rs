//! Removing what a schema does not know.

use std::fmt::Write as _;

use serde_json::Value;

use super::custom::META_FIELDS;
use super::node::{Link, Schema, Type};

/// Removes fields the schema does not know and returns their paths, sorted.
pub(crate) fn prune(schema: &Schema, object: &mut Value) -> Vec<String> {
    let mut walk = Walk { path: String::new(), unknown: Vec::new(), silent: 0 };
    walk.value(schema, object);
    drop_nulls(schema, object);
    walk.unknown.sort();
    walk.unknown
}

/// Null entries of a map of strings become empty, as Go decodes them.
pub(crate) fn fill_null_entries(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, child) in fields.iter_mut() {
                let Some(node) = schema.field(name) else { continue };
                let in_map = !schema.properties.contains_key(name);
                if child.is_null() && in_map && node.kind == Some(Type::String) {
                    *child = Value::String(String::new());
                } else {
                    fill_null_entries(&node, child);
                }
            }
        }
        Value::Array(items) => {
            if let Some(node) = schema.items.as_ref().map(Link::get) {
                for item in items {
                    fill_null_entries(&node, item);
                }
            }
        }
        _ => {}
    }
}

/// Removes null fields that may not be null and have no default: they count as absent.
pub(crate) fn drop_nulls(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|key, child| {
            let Some(node) = schema.field(key) else { return true };
            if child.is_null() {
                return node.nullable || node.default.is_some();
            }
            drop_nulls(&node, child);
            true
        }),
        Value::Array(items) => {
            if let Some(link) = &schema.items {
                let node = link.get();
                for item in items.iter_mut() {
                    drop_nulls(&node, item);
                }
            }
        }
        _ => {}
    }
}

struct Walk {
    path: String,
    unknown: Vec<String>,
    silent: usize,
}

impl Walk {
    fn value(&mut self, schema: &Schema, value: &mut Value) {
        let silent = usize::from(schema.rules.as_ref().is_some_and(|rules| rules.silent));
        self.silent += silent;
        self.fields(schema, value);
        self.silent -= silent;
    }

    fn fields(&mut self, schema: &Schema, value: &mut Value) {
        match value {
            Value::Object(map) => {
                let mut gone = Vec::new();
                for (key, child) in map.iter_mut() {
                    match known(schema, key) {
                        Some(link) => self.below(key, |walk| walk.value(&link.get(), child)),
                        None if schema.preserve_unknown => {}
                        None => gone.push(key.clone()),
                    }
                }
                for key in gone {
                    map.remove(&key);
                    if self.silent == 0 {
                        self.below(&key, |walk| walk.unknown.push(walk.path.clone()));
                    }
                }
            }
            Value::Array(items) => self.items(schema, items),
            _ => {}
        }
    }

    fn items(&mut self, schema: &Schema, items: &mut [Value]) {
        let link = schema.items.as_ref().map(Link::get);
        if link.is_none() && schema.preserve_unknown {
            return;
        }
        let nothing = Schema::default();
        let node = link.as_deref().unwrap_or(&nothing);
        for (at, item) in items.iter_mut().enumerate() {
            let length = self.path.len();
            let _ = write!(self.path, "[{at}]");
            if schema.preserve_unknown && !node.preserve_unknown {
                self.kept_item(node, item);
            } else {
                self.value(node, item);
            }
            self.path.truncate(length);
        }
    }

    /// An item of a list whose unknown fields stay: its own unknown fields stay too, what it declares is pruned.
    fn kept_item(&mut self, node: &Schema, item: &mut Value) {
        match item {
            Value::Object(map) => {
                for (key, child) in map.iter_mut() {
                    if let Some(link) = known(node, key) {
                        self.below(key, |walk| walk.value(&link.get(), child));
                    }
                }
            }
            Value::Array(items) => {
                if let Some(link) = &node.items {
                    let node = link.get();
                    for item in items.iter_mut() {
                        self.kept_item(&node, item);
                    }
                }
            }
            _ => {}
        }
    }

    fn below(&mut self, key: &str, step: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        step(self);
        self.path.truncate(length);
    }
}

fn known<'a>(schema: &'a Schema, key: &str) -> Option<&'a Link> {
    if schema.embedded_resource && META_FIELDS.contains(&key) {
        return schema.properties.get(key);
    }
    schema.properties.get(key).or(schema.additional.as_ref())
}
