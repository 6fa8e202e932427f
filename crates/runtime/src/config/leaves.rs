//! Configuration as a flat map from path to value and origin: laying over is then insertion.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Origin;

pub(super) type Path = Vec<String>;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Leaf {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// No path is a prefix of another. Lists and empty mappings are leaves.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Leaves {
    leaves: BTreeMap<Path, Leaf>,
}

impl Leaves {
    pub(super) fn from_tree(tree: Value, origin: &Origin) -> Self {
        let mut leaves = Self::default();
        leaves.add(&mut Path::new(), tree, origin);
        leaves
    }

    // Trees come from our own defaults or through a parser that bounds their depth.
    fn add(&mut self, path: &mut Path, tree: Value, origin: &Origin) {
        match tree {
            Value::Object(fields) if !fields.is_empty() => {
                for (name, value) in fields {
                    path.push(name);
                    self.add(path, value, origin);
                    path.pop();
                }
            }
            value => self.put(path.clone(), value, origin.clone()),
        }
    }

    /// Sets one value; whatever was above or below it in the tree gives way.
    pub(super) fn put(&mut self, path: Path, value: Value, origin: Origin) {
        for length in 0..path.len() {
            self.leaves.remove(&path[..length]);
        }
        let below: Vec<Path> = self
            .leaves
            .range(path.clone()..)
            .map(|(known, _)| known)
            .take_while(|known| known.starts_with(&path))
            .cloned()
            .collect();
        for known in below {
            self.leaves.remove(&known);
        }
        self.leaves.insert(path, Leaf { value, origin });
    }

    pub(super) fn put_over(&mut self, upper: Self) {
        for (path, leaf) in upper.leaves {
            // An empty mapping says nothing; it must not wipe out a section.
            let empty = leaf.value.as_object().is_some_and(Map::is_empty);
            if !(empty && self.has_below(&path)) {
                self.put(path, leaf.value, leaf.origin);
            }
        }
    }

    fn has_below(&self, path: &Path) -> bool {
        self.leaves.range(path.clone()..).next().is_some_and(|(known, _)| known.starts_with(path))
    }

    pub(super) fn to_tree(&self) -> Value {
        let mut root = Value::Object(Map::new());
        for (path, leaf) in &self.leaves {
            let mut place = &mut root;
            for name in path {
                if !place.is_object() {
                    *place = Value::Object(Map::new());
                }
                place = &mut place[name.as_str()];
            }
            *place = leaf.value.clone();
        }
        root
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Path, &Leaf)> {
        self.leaves.iter()
    }

    /// Where the value at a dotted path came from, or the nearest part of it that is known.
    pub(super) fn origin_near(&self, key: &str) -> Option<&Origin> {
        let mut path: Path = key.split('.').map(str::to_owned).collect();
        loop {
            let below = self.leaves.range(path.clone()..).next().filter(|(known, _)| known.starts_with(&path));
            if let Some((_, leaf)) = below.filter(|_| !path.is_empty()) {
                return Some(&leaf.origin);
            }
            if let Some(leaf) = self.leaves.get(&path) {
                return Some(&leaf.origin);
            }
            path.pop()?;
        }
    }
}
