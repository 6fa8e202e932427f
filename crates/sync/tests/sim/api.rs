//! A model of a Kubernetes API: objects, versions, optimistic concurrency, finalizers, and what a watch of it sees.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};
use thane_sync::object::{Key, Kind, Object, metadata_mut};
use thane_sync::store::Seen;
use thane_sync::work::{Outcome, Write};

#[derive(Debug, Default)]
pub(crate) struct Api {
    name: String,
    pub(crate) objects: BTreeMap<Key, Object>,
    pub(crate) version: u64,
    uids: u64,
    /// What its watch has not told yet.
    pub(crate) unseen: VecDeque<(Key, Seen)>,
}

/// Fields of the metadata that only the API writes.
const SERVERS: [&str; 4] = ["uid", "creationTimestamp", "deletionTimestamp", "generation"];

impl Api {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), version: 100, ..Self::default() }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Object> {
        self.objects.get(key)
    }

    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (&Key, &Object)> {
        self.objects.iter().filter(move |(key, _)| key.kind == kind)
    }

    pub(crate) fn create(&mut self, kind: Kind, mut object: Value) -> Result<Object, Object> {
        let key = Key::of(kind, &object);
        if let Some(existing) = self.objects.get(&key) {
            return Err(Arc::clone(existing));
        }
        self.uids += 1;
        let uid = format!("{}-{}", self.name, self.uids);
        let metadata = metadata_mut(&mut object);
        for field in SERVERS {
            metadata.remove(field);
        }
        metadata.insert("uid".into(), json!(uid));
        Ok(self.store(&key, object))
    }

    /// Writes over an object; what is there instead if it is not the one that was meant.
    pub(crate) fn replace(&mut self, key: &Key, mut object: Value) -> Result<Object, Option<Object>> {
        let Some(existing) = self.objects.get(key).cloned() else { return Err(None) };
        let said = |field: &str| object["metadata"][field].as_str().filter(|text| !text.is_empty());
        let differs = |field: &str| said(field).is_some_and(|text| Some(text) != existing["metadata"][field].as_str());
        if differs("uid") || differs("resourceVersion") {
            return Err(Some(existing));
        }
        let metadata = metadata_mut(&mut object);
        for field in SERVERS {
            match existing["metadata"].get(field) {
                Some(value) => metadata.insert(field.into(), value.clone()),
                None => metadata.remove(field),
            };
        }
        metadata.insert("resourceVersion".into(), existing["metadata"]["resourceVersion"].clone());
        let is_deleting = metadata.contains_key("deletionTimestamp");
        let is_held = metadata.get("finalizers").and_then(Value::as_array).is_some_and(|held| !held.is_empty());
        if object == *existing {
            return Ok(existing);
        }
        if is_deleting && !is_held {
            return Ok(self.remove(key, object));
        }
        Ok(self.store(key, object))
    }

    /// Deletes an object of that uid: none if it is gone, the object if something holds it.
    pub(crate) fn delete(&mut self, key: &Key, uid: Option<&str>) -> Result<Option<Object>, Option<Object>> {
        let Some(existing) = self.objects.get(key).cloned() else { return Err(None) };
        if uid.is_some_and(|uid| existing["metadata"]["uid"] != uid) {
            return Err(Some(existing));
        }
        let held = existing["metadata"]["finalizers"].as_array().is_some_and(|held| !held.is_empty());
        if !held {
            self.remove(key, (*existing).clone());
            return Ok(None);
        }
        if !existing["metadata"]["deletionTimestamp"].is_null() {
            return Ok(Some(existing));
        }
        let mut object = (*existing).clone();
        metadata_mut(&mut object).insert("deletionTimestamp".into(), json!("2026-01-01T00:00:00Z"));
        Ok(Some(self.store(key, object)))
    }

    /// What someone does who reads, changes and writes at once.
    pub(crate) fn edit(&mut self, key: &Key, edit: impl FnOnce(&mut Value)) {
        if let Some(existing) = self.objects.get(key) {
            let mut object = (**existing).clone();
            edit(&mut object);
            self.replace(key, object).expect("nothing happens in between");
        }
    }

    /// Carries out a planned write, as a client of an API does.
    pub(crate) fn write(&mut self, key: &Key, write: &Write) -> Outcome {
        match write {
            Write::Create(object) => match self.create(key.kind, object.clone()) {
                Ok(object) => Outcome::Written(object),
                Err(existing) => Outcome::Stale(Some(existing)),
            },
            Write::Replace(object) => match self.replace(key, object.clone()) {
                Ok(object) => Outcome::Written(object),
                Err(existing) => Outcome::Stale(existing),
            },
            Write::Delete { uid, .. } => match self.delete(key, Some(uid)) {
                Ok(None) | Err(None) => Outcome::Gone,
                Ok(Some(object)) => Outcome::Written(object),
                Err(Some(existing)) => Outcome::Stale(Some(existing)),
            },
        }
    }

    fn store(&mut self, key: &Key, mut object: Value) -> Object {
        self.version += 1;
        metadata_mut(&mut object).insert("resourceVersion".into(), json!(self.version.to_string()));
        let object = Object::new(object);
        self.objects.insert(key.clone(), Arc::clone(&object));
        self.unseen.push_back((key.clone(), Seen::Applied(Arc::clone(&object))));
        object
    }

    fn remove(&mut self, key: &Key, mut object: Value) -> Object {
        self.version += 1;
        metadata_mut(&mut object).insert("resourceVersion".into(), json!(self.version.to_string()));
        self.objects.remove(key);
        self.unseen.push_back((key.clone(), Seen::Gone(Some(self.version))));
        Object::new(object)
    }
}
