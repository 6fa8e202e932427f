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
    /// The last versions of objects that an answer said are gone, until a watch is as far: it may still tell how they,
    /// and those before them, were.
    ended: BTreeMap<Key, Object>,
}

/// Ends that are remembered; a watch that is further behind only makes for work that is then undone.
const ENDED_MAX: usize = 10_000;

/// The version of an object as a number; later is larger.
pub fn version(object: &Object) -> Option<u64> {
    object::resource_version(object).parse().ok()
}

impl Store {
    /// Takes in what was seen, unless something newer is known already.
    pub fn see(&mut self, key: &Key, seen: Seen) -> Option<Change> {
        if let Some(last) = self.ended.get(key) {
            let is_old = |seen: Option<u64>| matches!((seen, version(last)), (Some(seen), Some(last)) if seen < last);
            let is_known = match &seen {
                Seen::Applied(object) => object::uid(object) == object::uid(last) || is_old(version(object)),
                Seen::Gone(version) => is_old(*version),
            };
            if is_known {
                return None;
            }
            self.ended.remove(key);
        }
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

    /// An answer says that the object is gone.
    pub fn end(&mut self, key: &Key) -> Option<Change> {
        let old = self.objects.remove(key)?;
        if self.ended.len() >= ENDED_MAX {
            self.ended.pop_first();
        }
        self.ended.insert(key.clone(), Object::clone(&old));
        Some(Change { old: Some(old), new: None })
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

    #[test]
    fn what_an_answer_ended_stays_ended_for_a_watch_that_is_behind() {
        let key = Key { kind: Kind::Application, namespace: "n".into(), name: "a".into() };
        let named = |uid: &str, version: &str| {
            let mut object = (*object(version)).clone();
            object["metadata"]["uid"] = json!(uid);
            Seen::Applied(Arc::new(object))
        };
        let mut store = Store::default();
        assert!(store.end(&key).is_none());
        assert!(store.see(&key, named("one", "10")).is_some());
        assert!(store.end(&key).is_some());
        assert!(store.see(&key, named("one", "11")).is_none());
        assert!(store.see(&key, named("zero", "8")).is_none());
        assert!(store.see(&key, Seen::Gone(Some(9))).is_none());
        assert!(store.see(&key, named("one", "9")).is_none());
        assert!(store.see(&key, Seen::Gone(Some(12))).is_none());
        assert!(store.ended.is_empty());
        assert!(store.see(&key, named("two", "13")).is_some());
        assert!(store.end(&key).is_some());
        assert!(store.see(&key, named("three", "15")).is_some());
        assert!(store.ended.is_empty());
    }
}
