//! What this side's API has, as far as it was seen: watches and answers to writes, in the order of their versions.

use std::collections::BTreeMap;

use crate::object::{self, Key, Object};

/// One thing seen by a watch.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// The object is like this.
    Applied(Object),
    /// The object is gone; the version of its end, if a watch told.
    Gone(Option<u64>),
}

/// An object before and after.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// What was known.
    pub old: Option<Object>,
    /// What is there now.
    pub new: Option<Object>,
}

/// Objects by key.
#[derive(Debug, Default)]
pub struct Store {
    objects: BTreeMap<Key, Object>,
}

/// The version of an object as a number; later is larger.
pub fn version(object: &Object) -> Option<u64> {
    object::resource_version(object).parse().ok()
}

impl Store {
    /// Takes in what was seen, unless something newer is known already.
    pub fn see(&mut self, key: &Key, seen: Seen) -> Option<Change> {
        let known = self.objects.get(key);
        let known_version = known.and_then(version);
        let version = match &seen {
            Seen::Applied(object) => version(object),
            Seen::Gone(version) => *version,
        };
        let is_old = matches!((version, known_version), (Some(version), Some(known)) if version < known);
        let is_same = matches!((&seen, version, known_version),
            (Seen::Applied(_), Some(version), Some(known)) if version == known);
        if is_old || is_same {
            return None;
        }
        let new = match seen {
            Seen::Applied(object) => Some(object),
            Seen::Gone(_) => None,
        };
        let old = match &new {
            Some(object) => self.objects.insert(key.clone(), object.clone()),
            None => self.objects.remove(key),
        };
        (old.is_some() || new.is_some()).then_some(Change { old, new })
    }

    /// The object of that key.
    pub fn get(&self, key: &Key) -> Option<&Object> {
        self.objects.get(key)
    }

    /// Everything, what others need first.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Object)> {
        self.objects.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::object::Kind;

    fn object(version: &str) -> Object {
        Arc::new(json!({"metadata": {"name": "a", "namespace": "n", "resourceVersion": version}}))
    }

    #[test]
    fn older_news_changes_nothing() {
        let key = Key { kind: Kind::Application, namespace: "n".into(), name: "a".into() };
        let mut store = Store::default();
        assert!(store.see(&key, Seen::Gone(None)).is_none());
        assert!(store.see(&key, Seen::Applied(object("10"))).is_some());
        assert!(store.see(&key, Seen::Applied(object("10"))).is_none());
        assert!(store.see(&key, Seen::Applied(object("9"))).is_none());
        assert!(store.see(&key, Seen::Gone(Some(9))).is_none());
        assert_eq!(store.see(&key, Seen::Gone(Some(11))).unwrap().old, Some(object("10")));
        assert!(store.is_empty());
    }
}
