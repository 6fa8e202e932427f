//! Changing the tables, and saying what that touched.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use super::draft::Changes;
use super::id::Id;
use super::tables::{Named, Tables};
use super::thing::Thing;
use super::tombs::{CHECK, EVENT, INSTANCE, KEY, NAME, NODE, RULE_SET, SESSION, TOKEN, TombKey};
use super::touch::{Touch, What};
use crate::model::{Check, Index, Service, UserEvent};
use crate::topic::RowKey;

/// What a change did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// The index after it.
    pub index: Index,
    /// Rows that changed, came or went.
    pub touches: BTreeSet<Touch>,
    /// What has to be stored again, or removed if it is no longer there.
    pub written: BTreeSet<Id>,
}

impl Tables {
    /// Does what was decided against these very tables.
    pub fn apply(&mut self, changes: &Changes) -> Applied {
        let mut marks = Marks::default();
        for (id, new) in &changes.things {
            if let Some(old) = self.things.get(id) {
                marks.leaving(self, id, old, new.as_ref());
            }
        }
        let mut written: BTreeSet<Id> = changes.things.keys().cloned().collect();
        if written.iter().any(Id::is_visible) {
            self.index = changes.index;
        }
        for (id, new) in &changes.things {
            self.set(id, new.clone());
        }
        for (id, new) in &changes.things {
            if let Some(new) = new {
                marks.arrived(self, id, new);
            }
        }
        for tomb in marks.tombs {
            self.tombs.put(tomb.clone(), self.index);
            written.insert(Id::Tomb(tomb));
        }
        while self.tombs.len() > self.tombs_max {
            let Some(oldest) = self.tombs.drop_oldest() else { break };
            written.insert(Id::Tomb(oldest));
        }
        Applied { index: self.index, touches: marks.touches, written }
    }

    /// Puts something in its place, or takes it out, and keeps the ways to find it.
    pub(super) fn set(&mut self, id: &Id, new: Option<Thing>) {
        if let Some(old) = self.things.remove(id) {
            self.unlist(id, &old);
        }
        if let Some(new) = new {
            self.list(id, &new);
            self.things.insert(id.clone(), new);
        }
    }

    fn list(&mut self, id: &Id, thing: &Thing) {
        if let Some((folded, own)) = id.folded() {
            self.spelled.insert(folded, own.to_owned());
        }
        match (id, thing) {
            (Id::Node(name), Thing::Node(node)) if !node.value.id.is_empty() => {
                self.node_ids.insert(node.value.id.clone(), name.clone());
            }
            (Id::Service(node, id), Thing::Service(service)) => {
                let named = self.names.entry(service.value.name.to_lowercase()).or_default();
                named.instances.insert((node.clone(), id.clone()));
                for tag in &service.value.tags {
                    *named.tags.entry(tag.clone()).or_default() += 1;
                }
            }
            (Id::Check(node, id), Thing::Check(check)) => {
                let about = (node.clone(), check.value.service_id.clone());
                self.checks_about.entry(about).or_default().insert(id.clone());
            }
            (Id::Session(id), Thing::Session(session)) => {
                let node = session.value.node.to_lowercase();
                self.sessions_of.entry(node).or_default().insert(id.clone());
            }
            (Id::Key(key), Thing::Key(entry)) => {
                if let Some(session) = &entry.value.session {
                    self.held_by.entry(session.clone()).or_default().insert(key.clone());
                }
            }
            _ => {}
        }
    }

    fn unlist(&mut self, id: &Id, thing: &Thing) {
        if let Some((folded, own)) = id.folded()
            && self.spelled.get(&folded).is_some_and(|known| known == own)
        {
            self.spelled.remove(&folded);
        }
        match (id, thing) {
            (Id::Node(name), Thing::Node(node)) if self.node_ids.get(&node.value.id) == Some(name) => {
                self.node_ids.remove(&node.value.id);
            }
            (Id::Service(node, id), Thing::Service(service)) => {
                let name = service.value.name.to_lowercase();
                if let Some(named) = self.names.get_mut(&name) {
                    named.forget(node, id, &service.value);
                    if named.instances.is_empty() {
                        self.names.remove(&name);
                    }
                }
            }
            (Id::Check(node, id), Thing::Check(check)) => {
                forget(&mut self.checks_about, &(node.clone(), check.value.service_id.clone()), id);
            }
            (Id::Session(id), Thing::Session(session)) => {
                forget(&mut self.sessions_of, &session.value.node.to_lowercase(), id);
            }
            (Id::Key(key), Thing::Key(entry)) => {
                if let Some(session) = &entry.value.session {
                    forget(&mut self.held_by, session, key);
                }
            }
            _ => {}
        }
    }
}

/// Takes one out of a set that goes with its last member.
fn forget<K: Eq + Hash>(sets: &mut HashMap<K, BTreeSet<String>>, of: &K, member: &str) {
    if let Some(set) = sets.get_mut(of) {
        set.remove(member);
        if set.is_empty() {
            sets.remove(of);
        }
    }
}

impl Named {
    fn forget(&mut self, node: &str, id: &str, service: &Service) {
        self.instances.remove(&(node.to_owned(), id.to_owned()));
        for tag in &service.tags {
            if let Some(count) = self.tags.get_mut(tag) {
                *count -= 1;
                if *count == 0 {
                    self.tags.remove(tag);
                }
            }
        }
    }
}

#[derive(Default)]
struct Marks {
    touches: BTreeSet<Touch>,
    tombs: BTreeSet<TombKey>,
}

impl Marks {
    /// Marks what goes, as the tables still are.
    fn leaving(&mut self, tables: &Tables, id: &Id, old: &Thing, new: Option<&Thing>) {
        match (id, old) {
            (Id::Service(node, id), Thing::Service(service)) => {
                let name = service.value.name.to_lowercase();
                let stays = matches!(new, Some(Thing::Service(new)) if new.value.name.to_lowercase() == name);
                if !stays {
                    self.instance(tables, node, id, &name, true);
                }
            }
            (Id::Check(node, id), Thing::Check(check)) => {
                let moved = matches!(new, Some(Thing::Check(new)) if new.value.service_id != check.value.service_id);
                if new.is_none() || moved {
                    self.row(
                        What::Check(node.clone(), id.clone()),
                        RowKey(CHECK, shown(tables, node), id.clone()),
                        true,
                    );
                    self.bearers(tables, node, &check.value, true);
                }
            }
            _ if new.is_none() => self.plain(id, old, true),
            _ => {}
        }
    }

    /// Marks what is there now.
    fn arrived(&mut self, tables: &Tables, id: &Id, new: &Thing) {
        match (id, new) {
            (Id::Node(node), Thing::Node(_)) => {
                self.plain(id, new, false);
                for (id, service) in tables.services_on(node) {
                    self.instance(tables, node, id, &service.value.name.to_lowercase(), false);
                }
            }
            (Id::Service(node, id), Thing::Service(service)) => {
                self.instance(tables, node, id, &service.value.name.to_lowercase(), false);
            }
            (Id::Check(node, id), Thing::Check(check)) => {
                self.row(What::Check(node.clone(), id.clone()), RowKey(CHECK, shown(tables, node), id.clone()), false);
                self.bearers(tables, node, &check.value, false);
            }
            _ => self.plain(id, new, false),
        }
    }

    /// Marks what is a row by itself.
    fn plain(&mut self, id: &Id, thing: &Thing, gone: bool) {
        let (what, row) = match (id, thing) {
            (Id::Node(node), Thing::Node(value)) => {
                (What::Node(node.clone()), RowKey(NODE, value.value.name.clone(), String::new()))
            }
            (Id::Name(name), Thing::Name(value)) => {
                (What::Name(name.clone()), RowKey(NAME, value.value.name.clone(), String::new()))
            }
            (Id::Key(key), _) => (What::Key(key.clone()), RowKey(KEY, key.clone(), String::new())),
            (Id::Session(id), _) => (What::Session(id.clone()), RowKey(SESSION, id.clone(), String::new())),
            (Id::Event(number), Thing::Event(event)) => (What::Event(*number), event_row(&event.value)),
            (Id::Token(accessor), _) => (What::Token(accessor.clone()), RowKey(TOKEN, accessor.clone(), String::new())),
            (Id::RuleSet(id), _) => (What::RuleSet(id.clone()), RowKey(RULE_SET, id.clone(), String::new())),
            _ => return,
        };
        self.row(what, row, gone);
    }

    /// Marks the instances a check is shown with.
    fn bearers(&mut self, tables: &Tables, node: &str, check: &Check, lost: bool) {
        if check.service_id.is_empty() {
            for (id, service) in tables.services_on(node) {
                self.instance(tables, node, id, &service.value.name.to_lowercase(), lost);
            }
        } else if let Some(service) = tables.service(node, &check.service_id) {
            self.instance(tables, node, &check.service_id, &service.value.name.to_lowercase(), lost);
        }
    }

    fn instance(&mut self, tables: &Tables, node: &str, id: &str, service: &str, lost: bool) {
        let row = RowKey(INSTANCE, shown(tables, node), id.to_owned());
        if lost {
            self.tombs.insert(TombKey::new(row.clone(), service));
        }
        let what = What::Instance(node.to_owned(), id.to_owned(), service.to_owned());
        self.touches.insert(Touch { what, row });
    }

    fn row(&mut self, what: What, row: RowKey, gone: bool) {
        if gone {
            self.tombs.insert(TombKey::new(row.clone(), ""));
        }
        self.touches.insert(Touch { what, row });
    }
}

fn shown(tables: &Tables, node: &str) -> String {
    tables.node(node).map_or_else(|| node.to_owned(), |node| node.value.name.clone())
}

fn event_row(event: &UserEvent) -> RowKey {
    RowKey(EVENT, format!("{:020}", event.ltime), event.id.clone())
}
