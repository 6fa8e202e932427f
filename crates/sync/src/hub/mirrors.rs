//! An autonomous agent: its objects are the truth, the hub has mirrors of them.

use std::sync::Arc;

use serde_json::Value;
use thane_api::event::Type;

use super::Hub;
use super::managed::operation_changed;
use crate::link::{Core, Incoming, Note, Settled, Why};
use crate::mapping::{self, Plan};
use crate::object::{self, Key, Kind, REFRESH};
use crate::store::Change;
use crate::time::Now;

impl Hub {
    /// After a start the hub's copies are all that is known of what the agent has.
    pub(super) fn remember_mirrors(&mut self, core: &Core) {
        self.mirrors.clear();
        if self.is_autonomous() {
            let mirrors = core.store.iter().filter(|(_, object)| object::source_uid(object).is_some());
            self.mirrors = mirrors.map(|(key, object)| (key.clone(), Arc::clone(object))).collect();
        }
    }

    pub(super) fn mirror_settled(
        &mut self,
        core: &mut Core,
        now: Now,
        key: &Key,
        incoming: &Incoming,
        settled: &Settled,
    ) {
        if matches!(settled, Settled::Refused(_)) {
            return;
        }
        match (&incoming.event.kind, core.store.get(key)) {
            (Type::Create | Type::SpecUpdate, Some(object)) if !object::is_deleting(object) => {
                self.mirrors.insert(key.clone(), Arc::clone(object));
                self.deliver_operation(core, now, key, incoming);
            }
            // Somebody is deleting the mirror: it is made again when it is gone.
            (Type::Create | Type::SpecUpdate, _) => {
                if let Plan::Create(mirror) = self.plan_mirror(key.kind, &incoming.body, None, true, now) {
                    self.mirrors.insert(key.clone(), Arc::new(mirror));
                }
            }
            // The agent ended another one of that name; whether it still has this one only it knows.
            (Type::Delete, Some(object)) if is_another(incoming, object) => {
                self.ask_for(core, now, key);
            }
            (Type::Delete, _) => {
                self.mirrors.remove(key);
            }
            _ => {}
        }
    }

    pub(super) fn plan_mirror(
        &self,
        kind: Kind,
        body: &Value,
        existing: Option<&Value>,
        delivered: bool,
        now: Now,
    ) -> Plan {
        match kind {
            Kind::Application => {
                mapping::mirror_application(&self.side, &self.agent, body, existing, delivered, now.wall)
            }
            Kind::AppProject | Kind::Repository => {
                mapping::mirror_project(&self.side, &self.agent, body, existing, now.wall)
            }
        }
    }

    /// What people change on a mirror is put back; what they ask for travels down.
    pub(super) fn mirror_changed(&mut self, core: &mut Core, now: Now, key: &Key, change: &Change) {
        let old = change.old.as_deref();
        if let (Kind::Application, Some(new)) = (key.kind, &change.new) {
            if old.is_some_and(|old| mapping::is_terminated(old, new)) {
                self.send_terminate(core, now, key, new);
            }
            if wants_refresh(old, new) {
                self.send_object(core, now, key, new, Type::SpecUpdate);
            }
            operation_changed(core, key, new);
        }
        let existing = core.store.get(key).map(AsRef::as_ref);
        if !core.is_busy(key) && !core.is_behind(key) && !matches!(self.plan_repair(key, existing), Plan::Nothing) {
            core.note(Note::Repaired { key: key.clone() });
            core.ask(key, Why::Repair);
        }
    }

    pub(super) fn plan_repair(&self, key: &Key, existing: Option<&Value>) -> Plan {
        let Some(mirror) = self.mirrors.get(key).filter(|_| self.is_autonomous()) else { return Plan::Nothing };
        match existing {
            Some(existing) => mapping::revert_mirror(mirror, existing),
            None => mapping::revert_mirror_deletion(key.kind, mirror),
        }
    }
}

/// Whether a deletion is of another source than the mirror's.
fn is_another(incoming: &Incoming, mirror: &Value) -> bool {
    let gone = object::uid(&incoming.body);
    !gone.is_empty() && object::source_uid(mirror).is_some_and(|source| source != gone)
}

/// Whether someone asks for a refresh who did not before.
fn wants_refresh(old: Option<&Value>, new: &Value) -> bool {
    // Argo CD takes an empty refresh for one.
    let asked = |object: &Value| object["metadata"]["annotations"][REFRESH].as_str().map(str::to_owned);
    asked(new).is_some() && asked(new) != old.and_then(asked)
}
