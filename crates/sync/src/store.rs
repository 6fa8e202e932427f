//! What this side's API has, as far as it was seen: watches and answers to writes, in the order of their versions.

use std::collections::{BTreeMap, BTreeSet};

use crate::object::{self, Key, Kind, Object};

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
    /// Objects from before the API's versions went back: whatever is seen of them is newer.
    stale: BTreeSet<Key>,
    /// The newest version that a watch or a list told of, by kind. Answers may be ahead of it.
    watched: BTreeMap<Kind, u64>,
}

/// Ends that are remembered; a watch that is further behind only makes for work that is then undone.
const ENDED_MAX: usize = 10_000;

/// The version of an object as a number; later is larger.
pub fn version(object: &Object) -> Option<u64> {
    object::resource_version(object).parse().ok()
}

impl Seen {
    /// The version it is from, if it tells.
    pub fn version(&self) -> Option<u64> {
        match self {
            Self::Applied(object) => version(object),
            Self::Gone(version) => *version,
        }
    }
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
        let known = self.objects.get(key).filter(|_| !self.stale.contains(key));
        let known_version = known.and_then(version);
        let version = seen.version();
        let is_old = matches!((version, known_version), (Some(version), Some(known)) if version < known);
        let is_same = matches!((&seen, version, known_version),
            (Seen::Applied(_), Some(version), Some(known)) if version == known);
        if is_old || is_same { None } else { self.put(key, seen) }
    }

    /// Takes in what is there now for certain, whatever was known.
    pub fn look(&mut self, key: &Key, there: Object) -> Option<Change> {
        self.ended.remove(key);
        let is_known = self.objects.get(key).is_some_and(|known| *known == there);
        if is_known { None } else { self.put(key, Seen::Applied(there)) }
    }

    fn put(&mut self, key: &Key, seen: Seen) -> Option<Change> {
        self.stale.remove(key);
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

    /// A watch or a list has come to that version.
    pub fn watched(&mut self, kind: Kind, version: u64) {
        let newest = self.watched.entry(kind).or_default();
        *newest = version.max(*newest);
    }

    /// Everything of a kind was listed, at that version. One before what a watch has told means that the API was restored
    /// from a copy: whatever it tells from now on is newer than what is known.
    pub fn listed(&mut self, kind: Kind, version: u64) {
        let newest = self.watched.insert(kind, version);
        if newest.is_some_and(|newest| version < newest) {
            self.stale.extend(self.objects.keys().filter(|key| key.kind == kind).cloned());
            self.ended.retain(|key, _| key.kind != kind);
        }
    }

    /// An answer says that the object is gone.
    pub fn end(&mut self, key: &Key) -> Option<Change> {
        let old = self.objects.remove(key)?;
        self.stale.remove(key);
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
    #[test]
    fn an_api_whose_versions_went_back_is_believed() {
        let [one, two, three] =
            ["1", "2", "3"].map(|name| Key { kind: Kind::Application, namespace: "n".into(), name: name.into() });
        let mut store = Store::default();
        for key in [&one, &two, &three] {
            store.see(key, Seen::Applied(object("90")));
        }
        store.end(&three);
        store.watched(Kind::Application, 90);
        store.listed(Kind::Application, 95);
        assert!(store.see(&one, Seen::Applied(object("80"))).is_none(), "it was on its way before");
        store.listed(Kind::Application, 80);
        assert!(store.see(&one, Seen::Applied(object("70"))).is_some());
        assert!(store.see(&one, Seen::Applied(object("60"))).is_none(), "versions count again");
        assert!(store.see(&two, Seen::Gone(Some(80))).is_some());
        assert!(store.see(&three, Seen::Applied(object("60"))).is_some(), "it came back with the copy");
        assert!(store.stale.is_empty());
        assert!(store.look(&one, object("50")).is_some());
        assert!(store.look(&one, object("50")).is_none());
        assert_eq!(store.get(&one), Some(&object("50")));
    }
}
