//! An autonomous agent: its objects are the truth, the hub has mirrors of them.

use std::sync::Arc;

use serde_json::Value;
use thane_api::event::Type;

use super::{Hub, is_mirror};
use crate::link::{Core, Note, Settled, Why};
use crate::mapping::{self, Plan, Refusal, Terminating};
use crate::object::{Key, Kind};
use crate::store::Change;
use crate::time::Now;

impl Hub {
    pub(super) fn plan_mirror(&self, key: &Key, body: &Value, existing: Option<&Value>) -> Plan {
        match key.kind {
            Kind::Application => mapping::mirror_application(&self.side, &self.agent, &self.cluster, body, existing),
            Kind::AppProject => mapping::mirror_project(&self.side, &self.agent, body, existing),
            Kind::Repository => Plan::Refuse(Refusal::permanent("repositories of an autonomous agent stay with it")),
        }
    }

    /// After a start the hub's copies are all that is known of what the agent has.
    pub(super) fn remember_mirrors(&mut self, core: &Core) {
        self.mirrors.clear();
        if self.is_autonomous() {
            let mirrors = core.store.iter().filter(|(_, object)| is_mirror(object));
            self.mirrors = mirrors.map(|(key, object)| (key.clone(), Arc::clone(object))).collect();
        }
    }

    pub(super) fn mirror_settled(&mut self, core: &mut Core, key: &Key, kind: &Type, settled: &Settled) {
        if *settled == Settled::Refused {
            return;
        }
        match (kind, core.store.get(key)) {
            (Type::Create | Type::SpecUpdate, Some(object)) => {
                self.mirrors.insert(key.clone(), Arc::clone(object));
            }
            (Type::Delete, _) => {
                self.mirrors.remove(key);
            }
            _ => {}
        }
    }

    /// What people change on a mirror is put back; what they ask for travels down.
    pub(super) fn mirror_changed(&mut self, core: &mut Core, now: Now, key: &Key, change: &Change) {
        if let (Kind::Application, Some(new)) = (key.kind, &change.new) {
            let old = change.old.as_ref();
            if old.is_some_and(|old| mapping::terminating(old, new) == Terminating::Begins) {
                self.send_terminate(core, now, key, new);
            } else if mapping::has_operation(new) && !old.is_some_and(|old| mapping::has_operation(old)) {
                let id = core.unique();
                core.ask(key, Why::Stamp(id));
            } else if mapping::wants_refresh(old.map(AsRef::as_ref), new) {
                self.send_object(core, now, key, new, Type::SpecUpdate);
            }
        }
        let existing = core.store.get(key).map(AsRef::as_ref);
        if !core.is_busy(key) && !matches!(self.plan_repair(key, existing), Plan::Nothing) {
            core.note(Note::Repaired { key: key.clone() });
            core.ask(key, Why::Repair);
        }
    }

    pub(super) fn plan_repair(&self, key: &Key, existing: Option<&Value>) -> Plan {
        if !self.is_autonomous() {
            return Plan::Nothing;
        }
        match self.mirrors.get(key) {
            Some(mirror) => mapping::revert_mirror(mirror, existing),
            None => Plan::Nothing,
        }
    }
}
