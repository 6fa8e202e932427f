//! A managed agent: copies of the hub's objects, and their status on its way back.

use std::sync::Arc;

use serde_json::Value;
use thane_api::event::Type;

use super::{Agent, is_copy};
use crate::link::{Core, Incoming, Note, Settled, Why};
use crate::mapping::{self, Mode, Plan};
use crate::object::{self, Key, Kind};
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
        for (key, object) in core.store.iter().filter(|(_, object)| is_copy(object)) {
            self.copies.insert(key.clone(), Arc::clone(object));
            if object::is_deleting(object) {
                self.ending.insert(key.clone());
            }
        }
    }

    /// The hub's event has had its effect.
    pub(super) fn copy_settled(
        &mut self,
        core: &mut Core,
        now: Now,
        key: &Key,
        incoming: &Incoming,
        settled: &Settled,
    ) {
        if let Settled::Refused(_) = settled {
            return Self::complain(core, now, key, incoming);
        }
        if *settled == Settled::Gone {
            let mut gone = incoming.body.clone();
            let source = object::origin_uid(&gone).to_owned();
            object::set_annotation(&mut gone, object::SOURCE_UID, source);
            self.copy_gone(key);
            return self.send_gone(core, now, key, &gone);
        }
        let existing = core.store.get(key).cloned();
        if existing.is_some() {
            self.lost.remove(key);
        }
        match (&incoming.event.kind, existing) {
            (Type::Delete, None) => self.copy_gone(key),
            (Type::Delete, Some(object)) if object::is_deleting(&object) => {
                self.ending.insert(key.clone());
            }
            // The hub ended another one of that name; whether it still wants this one only it knows.
            (Type::Delete, Some(object)) if is_copy(&object) => {
                self.ask_for(core, now, key);
            }
            (Type::Create | Type::SpecUpdate, Some(object)) if is_copy(&object) => {
                // If only someone here deletes it, it is made again.
                if object::is_deleting(&object) && object::is_deleting(&incoming.body) {
                    self.ending.insert(key.clone());
                } else {
                    self.ending.remove(key);
                }
                self.copies.insert(key.clone(), Arc::clone(&object));
                if *settled == Settled::Written && !object["status"].is_null() {
                    // What is there may be news to a hub that has just adopted it.
                    Self::send_status(core, now, key, &object);
                }
            }
            // Deleted at the hub's wish, without anything to hold it.
            (Type::Create | Type::SpecUpdate, None) => {
                self.copy_gone(key);
                self.send_gone(core, now, key, &incoming.body);
            }
            (Type::SetOperation | Type::TerminateOperation, Some(object)) => {
                Self::send_status(core, now, key, &object);
            }
            _ => {}
        }
    }

    fn copy_gone(&mut self, key: &Key) {
        self.copies.remove(key);
        self.lost.remove(key);
        self.ending.remove(key);
    }

    /// Something changed here: Argo CD at work, or someone who should not.
    pub(super) fn copy_changed(&mut self, core: &mut Core, now: Now, key: &Key, change: &Change) {
        let is_ours = [&change.old, &change.new].into_iter().flatten().any(|object| is_copy(object));
        if !is_ours && !self.copies.contains_key(key) {
            return;
        }
        match (&change.old, &change.new) {
            (old, Some(new)) => {
                let is_news =
                    old.as_ref().is_none_or(|old| mapping::is_news_for_hub(key.kind, Mode::Managed, old, new));
                if key.kind == Kind::Application && is_news {
                    Self::send_status(core, now, key, new);
                }
            }
            (Some(old), None) if self.ending.contains(key) => {
                self.copy_gone(key);
                self.send_gone(core, now, key, old);
            }
            (Some(old), None) => {
                if self.copies.contains_key(key) {
                    self.lost.insert(key.clone(), Arc::clone(old));
                }
            }
            (None, None) => {}
        }
        let existing = core.store.get(key).map(AsRef::as_ref);
        if !core.is_busy(key) && !core.is_behind(key) && !matches!(self.plan_repair(key, existing), Plan::Nothing) {
            core.note(Note::Repaired { key: key.clone() });
            core.ask(key, Why::Repair);
        }
    }

    pub(super) fn plan_repair(&self, key: &Key, existing: Option<&Value>) -> Plan {
        if !self.is_managed() || self.ending.contains(key) {
            return Plan::Nothing;
        }
        match (self.copies.get(key), existing) {
            (Some(copy), Some(existing)) => mapping::revert_tampering(key.kind, copy, existing),
            (Some(copy), None) => {
                mapping::revert_deletion(&self.side, key.kind, copy, self.lost.get(key).unwrap_or(copy))
            }
            (None, _) => Plan::Nothing,
        }
    }
}
