//! A managed agent: copies of the hub's objects, and their status on its way back.

use std::sync::Arc;

use serde_json::Value;
use thane_api::event::Type;

use super::Agent;
use crate::link::{Core, Note, Settled, Why};
use crate::mapping::{self, Plan};
use crate::object::{self, Key, Kind, Object};
use crate::store::Change;
use crate::time::Now;

impl Agent {
    /// After a start the copies are all that is known of what the hub wants.
    pub(super) fn remember_copies(&mut self, core: &Core) {
        self.copies.clear();
        self.ending.clear();
        if !self.is_managed() {
            return;
        }
        for (key, object) in core.store.iter().filter(|(_, object)| object::source_uid(object).is_some()) {
            self.copies.insert(key.clone(), Arc::clone(object));
            if object::is_deleting(object) {
                self.ending.insert(key.clone());
            }
        }
    }

    /// The hub's event has had its effect.
    pub(super) fn copy_settled(&mut self, core: &mut Core, now: Now, key: &Key, kind: &Type, settled: &Settled) {
        if *settled == Settled::Refused {
            return;
        }
        let existing = core.store.get(key).cloned();
        match (kind, existing) {
            (Type::Delete, None) => self.copy_gone(key),
            (Type::Delete, Some(_)) => {
                self.copies.remove(key);
                self.ending.insert(key.clone());
            }
            (Type::Create | Type::SpecUpdate, Some(object)) => {
                if object::is_deleting(&object) {
                    self.ending.insert(key.clone());
                } else {
                    self.ending.remove(key);
                }
                self.copies.insert(key.clone(), Arc::clone(&object));
                if key.kind == Kind::Application && *settled == Settled::Written && has_status(&object) {
                    // What is there may be news to a hub that has just adopted it.
                    self.send_status(core, now, key, &object);
                }
            }
            // Deleted at the hub's wish, without anything to hold it.
            (Type::Create | Type::SpecUpdate, None) => {
                self.copy_gone(key);
                if key.kind == Kind::Application {
                    self.send_gone(core, now, key, None);
                }
            }
            (Type::SetOperation | Type::TerminateOperation, Some(object)) => {
                self.send_status(core, now, key, &object);
            }
            _ => {}
        }
    }

    fn copy_gone(&mut self, key: &Key) {
        self.copies.remove(key);
        self.ending.remove(key);
    }

    /// Something changed here: Argo CD at work, or someone who should not.
    pub(super) fn copy_changed(&mut self, core: &mut Core, now: Now, key: &Key, change: &Change) {
        let is_copy = |object: &Option<Object>| object.as_ref().is_some_and(|object| object::source_uid(object).is_some());
        if !is_copy(&change.old) && !is_copy(&change.new) && !self.copies.contains_key(key) {
            return;
        }
        match (&change.old, &change.new) {
            (old, Some(new)) => {
                if key.kind == Kind::Application
                    && old.as_ref().is_none_or(|old| mapping::differs_for_hub(old, new))
                {
                    self.send_status(core, now, key, new);
                }
            }
            (Some(old), None) if self.ending.contains(key) || object::is_deleting(old) && self.is_end_wanted(key) => {
                self.copy_gone(key);
                if key.kind == Kind::Application {
                    self.send_gone(core, now, key, Some(old));
                }
            }
            (_, None) => {}
        }
        self.repair_if_wrong(core, key);
    }

    fn is_end_wanted(&self, key: &Key) -> bool {
        self.ending.contains(key) || !self.copies.contains_key(key)
    }

    fn repair_if_wrong(&mut self, core: &mut Core, key: &Key) {
        let existing = core.store.get(key).map(AsRef::as_ref);
        if !core.is_busy(key) && !matches!(self.plan_repair(key, existing), Plan::Nothing) {
            core.note(Note::Repaired { key: key.clone() });
            core.ask(key, Why::Repair);
        }
    }

    pub(super) fn plan_repair(&self, key: &Key, existing: Option<&Value>) -> Plan {
        if !self.is_managed() || self.ending.contains(key) {
            return Plan::Nothing;
        }
        match self.copies.get(key) {
            Some(copy) => mapping::revert_tampering(&self.side, key.kind, copy, existing),
            None => Plan::Nothing,
        }
    }
}

fn has_status(object: &Value) -> bool {
    object["status"].as_object().is_some_and(|status| !status.is_empty())
}
