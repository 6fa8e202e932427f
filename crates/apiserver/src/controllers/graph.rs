//! Who owns whom. Pure: changes in, work out.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::change::{Change, Meta};
use super::queue::{Queue, Work};
use crate::verbs::delete::{FOREGROUND, ORPHAN};

/// Owners by uid with the keys of their dependents. Objects without owners are not in it.
#[derive(Default)]
pub(super) struct Graph {
    dependents: BTreeMap<String, BTreeSet<Bytes>>,
    /// Owners that wait for their dependents, by uid, with their keys.
    waiting: BTreeMap<String, Bytes>,
}

impl Graph {
    pub(super) fn take(&mut self, change: &Change, queue: &mut Queue) {
        if let Some(old) = &change.old {
            self.unlink(&change.key, old, queue);
        }
        match (&change.new, &change.old) {
            (Some(new), old) => self.link(&change.key, new, old.as_ref(), queue),
            (None, Some(old)) => self.gone(old, queue),
            (None, None) => {}
        }
    }

    /// The keys of an owner's dependents.
    pub(super) fn dependents(&self, uid: &str) -> Vec<Bytes> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    fn unlink(&mut self, key: &Bytes, old: &Meta, queue: &mut Queue) {
        for owner in &old.owner_references {
            if let Some(keys) = self.dependents.get_mut(&owner.uid) {
                keys.remove(key);
                if keys.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
            if let Some(owner) = self.waiting.get(&owner.uid) {
                queue.push(Work::Owner(owner.clone()));
            }
        }
    }

    fn link(&mut self, key: &Bytes, new: &Meta, old: Option<&Meta>, queue: &mut Queue) {
        for owner in &new.owner_references {
            self.dependents.entry(owner.uid.clone()).or_default().insert(key.clone());
        }
        // a reference that is new may name an owner that is already gone
        if !new.owner_references.is_empty() && old.is_none_or(|old| old.owner_references != new.owner_references) {
            queue.push(Work::Dependent(key.clone()));
        }
        let waits = new.deletion_timestamp.is_some()
            && new.finalizers.iter().any(|name| matches!(name.as_str(), FOREGROUND | ORPHAN));
        if waits {
            self.waiting.insert(new.uid.clone(), key.clone());
            queue.push(Work::Owner(key.clone()));
        } else {
            self.waiting.remove(&new.uid);
        }
    }

    fn gone(&mut self, old: &Meta, queue: &mut Queue) {
        self.waiting.remove(&old.uid);
        for key in self.dependents(&old.uid) {
            queue.push(Work::Dependent(key));
        }
    }
}
