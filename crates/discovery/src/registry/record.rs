//! The stored form of things.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::draft::Changes;
use super::id::Id;
use super::tables::Tables;
use super::thing::{NameRow, Thing};
use super::tombs::Tombs;
use crate::model::{Index, Indexed};

/// What is stored cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the entry {key:?} of the registry cannot be read: {reason}")]
pub struct Damaged {
    /// Its key.
    pub key: String,
    /// What is wrong.
    pub reason: String,
}

/// The numbers that are stored beside everything else.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The newest point in history.
    pub index: Index,
    /// Up to this index tombs may be missing.
    pub floor: Index,
    /// Which life of the data this is.
    pub lineage: String,
}

impl Tables {
    /// The numbers to store.
    pub fn state(&self) -> State {
        State { index: self.index, floor: self.tombs.floor, lineage: self.lineage.clone() }
    }

    /// Takes the numbers that were stored.
    pub fn load_state(&mut self, state: State) {
        self.index = state.index;
        self.tombs.floor = state.floor;
        self.lineage = state.lineage;
    }

    /// The stored form of what is under an id, if something is.
    pub fn stored(&self, id: &Id) -> Option<Bytes> {
        if let Id::Tomb(tomb) = id {
            return self.tombs.get(tomb).map(|index| Bytes::from(index.to_string()));
        }
        let encoded = match self.things.get(id)? {
            Thing::Node(value) => encode(value),
            Thing::Service(value) => encode(value),
            Thing::Check(value) => encode(value),
            Thing::Name(value) => encode(value),
            Thing::Key(value) => encode(value),
            Thing::Session(value) => encode(value),
            Thing::Delay(value) => encode(value),
            Thing::Event(value) => encode(value),
            Thing::Token(value) => encode(value),
            Thing::RuleSet(value) => encode(value),
            Thing::Agent(value) => encode(value),
        };
        Some(encoded)
    }

    /// Everything as it is stored.
    pub fn dump(&self) -> impl Iterator<Item = (String, Bytes)> {
        let things = self.things.keys().cloned();
        let ids = things.chain(self.tombs.keys().cloned().map(Id::Tomb));
        ids.filter_map(|id| Some((id.to_key(), self.stored(&id)?)))
    }

    /// Takes what was stored under a key.
    pub fn load(&mut self, key: &str, stored: &[u8]) -> Result<(), Damaged> {
        let damaged = |reason: String| Damaged { key: key.to_owned(), reason };
        let id = Id::from_key(key).ok_or_else(|| damaged("unknown kind".to_owned()))?;
        if let Id::Tomb(tomb) = id {
            let index = serde_json::from_slice(stored).map_err(|error| damaged(error.to_string()))?;
            self.tombs.put(tomb, index);
            return Ok(());
        }
        let thing = decode(&id, stored).map_err(|error| damaged(error.to_string()))?;
        self.set(&id, Some(thing));
        Ok(())
    }

    /// Takes the place of other tables: history goes on from theirs, and nobody can tell what changed in between.
    pub fn succeed(&mut self, before: &Self) {
        self.index = self.index.max(before.index) + 1;
        self.tombs = Tombs::above(self.index);
        self.tombs_max = before.tombs_max;
        self.lineage.clone_from(&before.lineage);
    }

    /// What has to change so that the names of services fit the services: something, only after a change too large for
    /// one transaction of the store was cut short.
    pub fn repair(&self) -> Changes {
        let index = self.index + 1;
        let mut things = BTreeMap::new();
        for (name, named) in &self.names {
            let row = self.name(name);
            let shown = || named.instances.first().and_then(|(node, id)| self.service(node, id));
            let shown = row.map(|row| row.value.name.clone()).or_else(|| Some(shown()?.value.name.clone()));
            let fit = NameRow { name: shown.unwrap_or_default(), tags: named.tags.keys().cloned().collect() };
            if row.is_none_or(|row| *row.value != fit) {
                let create_index = row.map_or(index, |row| row.create_index);
                let fit = Indexed { create_index, modify_index: index, value: Arc::new(fit) };
                things.insert(Id::Name(name.clone()), Some(Thing::Name(fit)));
            }
        }
        for (id, _) in self.range::<NameRow>(Id::Name(String::new()), |id| matches!(id, Id::Name(_))) {
            if matches!(id, Id::Name(name) if !self.names.contains_key(name)) {
                things.insert(id.clone(), None);
            }
        }
        Changes { index, things }
    }
}

fn decode(id: &Id, stored: &[u8]) -> serde_json::Result<Thing> {
    Ok(match id {
        Id::Node(_) => Thing::Node(parse(stored)?),
        Id::Service(..) => Thing::Service(parse(stored)?),
        Id::Check(..) => Thing::Check(parse(stored)?),
        Id::Name(_) => Thing::Name(parse(stored)?),
        Id::Key(_) => Thing::Key(parse(stored)?),
        Id::Session(_) => Thing::Session(parse(stored)?),
        Id::Delay(_) | Id::Tomb(_) => Thing::Delay(parse(stored)?),
        Id::Event(_) => Thing::Event(parse(stored)?),
        Id::Token(_) => Thing::Token(parse(stored)?),
        Id::RuleSet(_) => Thing::RuleSet(parse(stored)?),
        Id::Agent(_) => Thing::Agent(parse(stored)?),
    })
}

fn parse<T: DeserializeOwned>(stored: &[u8]) -> serde_json::Result<Indexed<T>> {
    serde_json::from_slice(stored)
}

fn encode<T: Serialize>(value: &Indexed<T>) -> Bytes {
    Bytes::from(serde_json::to_vec(value).expect("plain structures with text keys have a JSON form"))
}
