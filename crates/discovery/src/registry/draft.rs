//! What a command would change, on top of the tables it is decided against.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

use super::id::Id;
use super::tables::Tables;
use super::thing::{Kind, NameRow, Thing};
use crate::model::{Check, Index, Indexed, KvEntry, Node, Service, Session};

/// Who asks, and when.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// The wall-clock time.
    pub now: Timestamp,
    /// The agent that passes it on, by the name in its certificate.
    pub agent: Option<&'a str>,
}

/// What a command changes, at one index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    pub(super) index: Index,
    pub(super) things: BTreeMap<Id, Option<Thing>>,
}

impl Changes {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.things.is_empty()
    }
}

pub(super) struct Draft<'a> {
    pub(super) tables: &'a Tables,
    pub(super) asker: Asker<'a>,
    index: Index,
    things: BTreeMap<Id, Option<Thing>>,
    /// How what was put is spelled, as in the tables.
    spelled: HashMap<Id, String>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(tables: &'a Tables, asker: Asker<'a>) -> Self {
        Self { tables, asker, index: tables.index + 1, things: BTreeMap::new(), spelled: HashMap::new() }
    }

    pub(super) fn find<T: Kind>(&self, id: &Id) -> Option<&Indexed<T>> {
        match self.things.get(id) {
            Some(thing) => thing.as_ref().and_then(T::of),
            None => self.tables.find(id),
        }
    }

    pub(super) fn node(&self, node: &str) -> Option<&Indexed<Node>> {
        self.find(&Id::Node(node.to_owned()))
    }

    pub(super) fn service(&self, node: &str, id: &str) -> Option<&Indexed<Service>> {
        self.find(&self.spelling(Id::Service(node.to_owned(), id.to_owned())))
    }

    pub(super) fn check(&self, node: &str, id: &str) -> Option<&Indexed<Check>> {
        self.find(&self.spelling(Id::Check(node.to_owned(), id.to_owned())))
    }

    pub(super) fn key(&self, key: &str) -> Option<&Indexed<KvEntry>> {
        self.find(&Id::Key(key.to_owned()))
    }

    pub(super) fn session(&self, id: &str) -> Option<&Indexed<Session>> {
        self.find(&Id::Session(id.to_owned()))
    }

    fn is_there(&self, id: &Id) -> bool {
        self.things.get(id).map_or_else(|| self.tables.things.contains_key(id), Option::is_some)
    }

    /// A service or check as it is spelled where it is: ids are compared without case. What is not there stays as it is.
    pub(super) fn spelling(&self, id: Id) -> Id {
        if self.is_there(&id) {
            return id;
        }
        let folded = id.folded().map(|(folded, _)| folded);
        let lower = folded.as_ref().unwrap_or(&id);
        let known = [&self.spelled, &self.tables.spelled].into_iter().filter_map(|all| all.get(lower));
        let known = known.map(|own| id.spelled(own)).chain(folded.clone()).find(|known| self.is_there(known));
        known.unwrap_or(id)
    }

    /// Puts a service or check where it belongs. One that is there under another spelling gets the new one, and stays
    /// what it was otherwise.
    pub(super) fn put_spelled<T: Kind>(&mut self, id: Id, value: T) -> Indexed<T> {
        let before = self.spelling(id.clone());
        if let Some((folded, own)) = id.folded() {
            self.spelled.insert(folded, own.to_owned());
        }
        match self.find::<T>(&before).map(|old| old.create_index) {
            Some(created) if before != id => {
                self.remove(before);
                self.put_created(id, value, created)
            }
            _ => self.put(id, value),
        }
    }

    /// Puts a value where it belongs and gives back how it then stands; one that is there already changes nothing.
    pub(super) fn put<T: Kind>(&mut self, id: Id, value: T) -> Indexed<T> {
        let created = match self.find::<T>(&id) {
            Some(old) if *old.value == value => return old.clone(),
            Some(old) => old.create_index,
            None => self.index,
        };
        self.put_created(id, value, created)
    }

    /// The same, for something that was there before under another id.
    pub(super) fn put_created<T: Kind>(&mut self, id: Id, value: T, create_index: Index) -> Indexed<T> {
        let new = Indexed { create_index, modify_index: self.index, value: Arc::new(value) };
        self.things.insert(id, Some(T::wrap(new.clone())));
        new
    }

    pub(super) fn remove(&mut self, id: Id) {
        if self.tables.things.contains_key(&id) {
            self.things.insert(id, None);
        } else {
            self.things.remove(&id);
        }
    }

    /// Everything of a kind from an id on, while it belongs; in order.
    pub(super) fn range<T: Kind>(&self, from: &Id, belongs: impl Fn(&Id) -> bool) -> Vec<(Id, Indexed<T>)> {
        let stored = self.tables.range::<T>(from.clone(), &belongs).filter(|(id, _)| !self.things.contains_key(id));
        let mut found: BTreeMap<Id, Indexed<T>> = stored.map(|(id, value)| (id.clone(), value.clone())).collect();
        let drafted = self.things.range(from..).take_while(|(id, _)| belongs(id));
        found.extend(drafted.filter_map(|(id, thing)| Some((id.clone(), T::of(thing.as_ref()?)?.clone()))));
        found.into_iter().collect()
    }

    pub(super) fn services_on(&self, node: &str) -> Vec<Indexed<Service>> {
        let belongs = |id: &Id| matches!(id, Id::Service(on, _) if on == node);
        self.range(&Id::services_of(node), belongs).into_iter().map(|(_, service)| service).collect()
    }

    pub(super) fn checks_on(&self, node: &str) -> Vec<Indexed<Check>> {
        let belongs = |id: &Id| matches!(id, Id::Check(on, _) if on == node);
        self.range(&Id::checks_of(node), belongs).into_iter().map(|(_, check)| check).collect()
    }

    /// The checks about a service of a node.
    pub(super) fn checks_about(&self, node: &str, service: &str) -> Vec<Indexed<Check>> {
        let stored = self.tables.checks_about(node, service);
        let mut ids: BTreeSet<&str> = stored.map(|check| check.value.id.as_str()).collect();
        let drafted = self.things.range(Id::checks_of(node)..).map_while(|(id, _)| match id {
            Id::Check(on, id) if on == node => Some(id.as_str()),
            _ => None,
        });
        ids.extend(drafted);
        let found = ids.into_iter().filter_map(|id| self.check(node, id));
        found.filter(|check| check.value.service_id == service).cloned().collect()
    }

    pub(super) fn keys_under(&self, prefix: &str) -> Vec<Indexed<KvEntry>> {
        let belongs = |id: &Id| matches!(id, Id::Key(key) if key.starts_with(prefix));
        self.range(&Id::Key(prefix.to_owned()), belongs).into_iter().map(|(_, entry)| entry).collect()
    }

    /// The node with a UUID.
    pub(super) fn node_by_id(&self, id: &str) -> Option<&Indexed<Node>> {
        let drafted = self.things.values().flatten().filter_map(Node::of).find(|node| node.value.id == id);
        drafted.or_else(|| {
            let name = self.tables.node_ids.get(id)?;
            self.node(name).filter(|node| node.value.id == id)
        })
    }

    pub(super) fn sessions_on(&self, node: &str) -> Vec<Indexed<Session>> {
        let mut ids: BTreeSet<&String> = self.tables.sessions_of.get(node).into_iter().flatten().collect();
        let drafted = self.things.iter().filter_map(|(id, thing)| match (id, thing) {
            (Id::Session(id), Some(Thing::Session(session))) if session.value.node.to_lowercase() == node => Some(id),
            _ => None,
        });
        ids.extend(drafted);
        ids.into_iter().filter_map(|id| self.session(id).cloned()).collect()
    }

    /// The keys a session holds.
    pub(super) fn held_by(&self, session: &str) -> Vec<Indexed<KvEntry>> {
        let mut keys: BTreeSet<&String> = self.tables.held_by.get(session).into_iter().flatten().collect();
        keys.extend(self.things.keys().filter_map(|id| match id {
            Id::Key(key) => Some(key),
            _ => None,
        }));
        let found = keys.into_iter().filter_map(|key| self.key(key));
        found.filter(|entry| entry.value.session.as_deref() == Some(session)).cloned().collect()
    }

    /// How many things change.
    pub(super) fn changed(&self) -> usize {
        self.things.len()
    }

    /// What changes in the end.
    pub(super) fn finish(mut self) -> Changes {
        for (name, shift) in self.shifts() {
            let named = self.tables.names.get(&name);
            let instances = named.map_or(0, |named| named.instances.len()).saturating_add_signed(shift.instances);
            if instances == 0 {
                self.remove(Id::Name(name));
                continue;
            }
            let mut counts = shift.tags;
            for (tag, count) in named.into_iter().flat_map(|named| &named.tags) {
                *counts.entry(tag.clone()).or_default() += isize::try_from(*count).unwrap_or(isize::MAX);
            }
            let tags = counts.into_iter().filter(|(_, count)| *count > 0).map(|(tag, _)| tag).collect();
            let shown = self.tables.name(&name).map_or(shift.shown, |row| row.value.name.clone());
            self.put(Id::Name(name), NameRow { name: shown, tags });
        }
        Changes { index: self.index, things: self.things }
    }

    /// How instances and tags of services shift by this draft.
    fn shifts(&self) -> BTreeMap<String, Shift> {
        let mut shifts: BTreeMap<String, Shift> = BTreeMap::new();
        let mut count = |service: &Service, by: isize| {
            let shift = shifts.entry(service.name.to_lowercase()).or_default();
            if shift.shown.is_empty() || by > 0 {
                shift.shown.clone_from(&service.name);
            }
            shift.instances += by;
            for tag in &service.tags {
                *shift.tags.entry(tag.clone()).or_default() += by;
            }
        };
        for (id, new) in &self.things {
            let Id::Service(node, service) = id else { continue };
            if let Some(old) = self.tables.service(node, service) {
                count(&old.value, -1);
            }
            if let Some(Thing::Service(new)) = new {
                count(&new.value, 1);
            }
        }
        shifts
    }
}

#[derive(Default)]
struct Shift {
    shown: String,
    instances: isize,
    tags: BTreeMap<String, isize>,
}
