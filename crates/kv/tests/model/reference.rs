//! The simplest thing that does what a store does: a copy of all entries for every revision.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use thane_kv::{Compare, Entry, LeaseId, Mutation, Query, Revision, Txn, TxnOutcome};

pub(crate) type Entries = BTreeMap<Bytes, Entry>;

/// A store without any cleverness.
pub(crate) struct Reference {
    /// The entries after each revision.
    pub(crate) states: Vec<Entries>,
    pub(crate) compacted: Revision,
    pub(crate) now: Duration,
    pub(crate) leases: BTreeMap<LeaseId, (Duration, Duration)>,
}

impl Reference {
    pub(crate) fn new() -> Self {
        Self { states: vec![Entries::new()], compacted: 0, now: Duration::ZERO, leases: BTreeMap::new() }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.states.len() as u64 - 1
    }

    pub(crate) fn state(&self, revision: Revision) -> &Entries {
        &self.states[usize::try_from(revision).unwrap()]
    }

    pub(crate) fn present(&self) -> &Entries {
        self.state(self.revision())
    }

    pub(crate) fn apply(&mut self, txn: &Txn) -> TxnOutcome {
        let now = self.present();
        let current: Vec<_> = txn.compares.iter().map(|compare| now.get(compare.key()).cloned()).collect();
        let hold = txn.compares.iter().zip(&current).all(|(compare, entry)| match compare {
            Compare::ModRevision(_, 0) => entry.is_none(),
            Compare::ModRevision(_, revision) => entry.as_ref().is_some_and(|entry| entry.mod_revision == *revision),
            Compare::Exists(_) => entry.is_some(),
        });
        if !hold {
            return TxnOutcome::Conflict { revision: self.revision(), current };
        }
        let previous = txn.mutations.iter().map(|mutation| now.get(mutation.key()).cloned()).collect();
        self.write(&txn.mutations);
        TxnOutcome::Committed { revision: self.revision(), previous }
    }

    fn write(&mut self, mutations: &[Mutation]) {
        let revision = self.revision() + 1;
        let mut next = self.present().clone();
        for mutation in mutations {
            match mutation {
                Mutation::Delete { key } => drop(next.remove(key)),
                Mutation::Put { key, value, lease } => {
                    let (create_revision, version) =
                        next.get(key).map_or((revision, 1), |entry| (entry.create_revision, entry.version + 1));
                    let (key, value, lease) = (key.clone(), value.clone(), *lease);
                    let entry =
                        Entry { key: key.clone(), value, create_revision, mod_revision: revision, version, lease };
                    next.insert(key, entry);
                }
            }
        }
        if next != *self.present() {
            self.states.push(next);
        }
    }

    /// Ends a lease and deletes its keys.
    pub(crate) fn end_lease(&mut self, id: LeaseId) {
        if self.leases.remove(&id).is_some() {
            let keys = self.present().values().filter(|entry| entry.lease == Some(id));
            let deletes: Vec<_> = keys.map(|entry| Mutation::Delete { key: entry.key.clone() }).collect();
            self.write(&deletes);
        }
    }

    /// Lets time pass and ends leases, the earliest first.
    pub(crate) fn pass(&mut self, by: Duration) {
        self.now += by;
        loop {
            let due = self.leases.iter().map(|(id, (_, deadline))| (*deadline, *id)).min();
            match due {
                Some((deadline, id)) if deadline <= self.now => self.end_lease(id),
                _ => return,
            }
        }
    }

    /// What a restart does: every lease has its full time again.
    pub(crate) fn restart(&mut self) {
        for (ttl, deadline) in self.leases.values_mut() {
            *deadline = self.now + *ttl;
        }
    }

    /// The entries a query should find, without its limit.
    pub(crate) fn range(&self, query: &Query, revision: Revision) -> Vec<Entry> {
        let entries = self.state(revision).values();
        let inside = |entry: &&Entry| entry.key >= query.start && query.end.as_ref().is_none_or(|end| entry.key < *end);
        entries.filter(inside).cloned().collect()
    }

    /// The changes of a revision to keys with a prefix, in key order: key, new, old.
    pub(crate) fn changes(&self, revision: Revision, prefix: &[u8]) -> Vec<(Bytes, Option<Entry>, Option<Entry>)> {
        let (old, new) = (self.state(revision - 1), self.state(revision));
        let keys: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
        let changed = keys.into_iter().filter(|key| key.starts_with(prefix) && old.get(*key) != new.get(*key));
        changed.map(|key| (key.clone(), new.get(key).cloned(), old.get(key).cloned())).collect()
    }
}
