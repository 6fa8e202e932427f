//! A managed agent: the hub's objects are the truth, their status is the agent's.

use thane_api::event::Type;

use super::Hub;
use crate::failure::Class;
use crate::lane::Lane;
use crate::link::{Core, Incoming, Settled, Why};
use crate::mapping::{self, Pending};
use crate::object::{self, Key, Kind, Object};
use crate::store::Change;
use crate::time::Now;

impl Hub {
    pub(super) fn managed_changed(&mut self, core: &mut Core, now: Now, key: &Key, change: &Change) {
        match (&change.old, &change.new) {
            (None, Some(new)) => {
                self.ended.remove(key);
                self.send_object(core, now, key, new, Type::Create);
                operation_changed(core, key, new);
            }
            (Some(old), Some(new)) => {
                let is_another = object::uid(old) != object::uid(new);
                if is_another {
                    self.ended.remove(key);
                }
                if is_another || mapping::is_news_for_agent(key.kind, old, new) {
                    self.send_object(core, now, key, new, Type::SpecUpdate);
                }
                if key.kind == Kind::Application && !is_another && mapping::is_terminated(old, new) {
                    self.send_terminate(core, now, key, new);
                }
                operation_changed(core, key, new);
            }
            (Some(old), None) => {
                // The agent has told that its copy is gone; there is nothing left to tell it.
                if !self.ended.remove(key) {
                    self.send_delete(core, now, key, old);
                }
            }
            (None, None) => {}
        }
    }

    /// Whether the agent is known to have the operation that the hub's copy asks for.
    pub(super) fn is_operation_delivered(&self, core: &Core, key: &Key, incoming: &Incoming) -> bool {
        // Our own agents echo the id, which is more exact.
        if self.echoes {
            return false;
        }
        // What was given up on was not delivered; and a status may overtake the acknowledgement.
        let is_acknowledged = !core.is_fresh() && !core.outbox.is_waiting_for(&Lane::of(key), &Type::SetOperation);
        is_acknowledged || core.store.get(key).is_some_and(|existing| mapping::shows_run(existing, &incoming.body))
    }

    pub(super) fn managed_settled(
        &mut self,
        core: &mut Core,
        now: Now,
        key: &Key,
        incoming: &Incoming,
        settled: &Settled,
    ) {
        match (&incoming.event.kind, settled) {
            // Once it is gone, which a watch is still to tell, nothing more is said about it.
            (Type::Delete, Settled::Written) if core.store.get(key).is_some() => {
                self.ended.insert(key.clone());
            }
            // The agent has lost what the hub still wants it to have.
            (Type::Delete, Settled::Unchanged) => {
                let wanted = core.store.get(key).filter(|object| !object::is_deleting(object)).cloned();
                let lost =
                    wanted.filter(|object| object::source_uid(&incoming.body) == Some(object::origin_uid(object)));
                if let Some(object) = lost {
                    self.send_object(core, now, key, &object, Type::Create);
                }
            }
            // The agent has something that the hub has not, or not in that form.
            (Type::StatusUpdate, Settled::Refused(Class::Recoverable)) => self.correct(core, now, key, incoming),
            (Type::StatusUpdate, Settled::Unchanged | Settled::Written) => {
                self.deliver_operation(core, now, key, incoming);
            }
            _ => {}
        }
    }

    /// A wish to end an operation, or an operation, that the agent says it has not got, and that is not on its way, travels again.
    pub(super) fn deliver_operation(&self, core: &mut Core, now: Now, key: &Key, incoming: &Incoming) {
        let Some(object) = core.store.get(key) else { return };
        if mapping::is_to_end(object, &incoming.body)
            && !core.outbox.is_waiting_for(&Lane::of(key), &Type::TerminateOperation)
        {
            let object = Object::clone(object);
            return self.send_terminate(core, now, key, &object);
        }
        let Pending::Stamped(id) = mapping::pending_operation(object) else { return };
        let is_there = object::annotation(&incoming.body, object::OPERATION_ID) == Some(&id);
        if self.echoes && !is_there && !core.outbox.is_waiting_for(&Lane::of(key), &Type::SetOperation) {
            self.send_operation(core, now, key);
        }
    }

    fn correct(&mut self, core: &mut Core, now: Now, key: &Key, incoming: &Incoming) {
        let lane = Lane::of(key);
        let is_on_its_way =
            [Type::Create, Type::SpecUpdate, Type::Delete].iter().any(|kind| core.outbox.is_waiting_for(&lane, kind));
        if is_on_its_way {
            return;
        }
        match core.store.get(key).cloned() {
            Some(object) => self.send_object(core, now, key, &object, Type::SpecUpdate),
            None => {
                let uid = object::source_uid(&incoming.body).unwrap_or_default().to_owned();
                self.send_orphan_delete(core, now, key, &uid);
            }
        }
    }
}

/// An operation that appears gets an id before it travels; an id whose operation is over goes.
pub(super) fn operation_changed(core: &mut Core, key: &Key, new: &Object) {
    if needs_stamp(key, Some(new)) {
        core.ask(key, Why::Stamp);
    }
}

/// Whether an operation has no id yet, or an id is left over.
pub(super) fn needs_stamp(key: &Key, object: Option<&Object>) -> bool {
    let pending = object.filter(|_| key.kind == Kind::Application).map(|object| mapping::pending_operation(object));
    matches!(pending, Some(Pending::Unstamped(_) | Pending::Stale))
}
