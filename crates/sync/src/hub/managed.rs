//! A managed agent: the hub's objects are the truth, their status is the agent's.

use thane_api::event::Type;

use super::Hub;
use crate::failure::Class;
use crate::lane::Lane;
use crate::link::{Core, Incoming, Settled, Why};
use crate::mapping::{self, Pending};
use crate::object::{self, Key, Kind, Object};
use crate::resync::DIGEST;
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
                if key.kind == Kind::Application && mapping::is_terminated(old, new) {
                    self.send_terminate(core, now, key, new);
                } else if object::uid(old) != object::uid(new) || mapping::is_news_for_agent(key.kind, old, new) {
                    self.send_object(core, now, key, new, Type::SpecUpdate);
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
    pub(super) fn is_operation_delivered(&self, core: &Core, key: &Key) -> bool {
        // Our own agents echo the id, which is more exact.
        let echoes = core.peer.as_ref().is_some_and(|peer| peer.can(DIGEST));
        !echoes && !core.outbox.is_waiting_for(&Lane::of(key), &Type::SetOperation)
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
            (Type::Delete, Settled::Written) => {
                self.ended.insert(key.clone());
            }
            // The agent has something that the hub has not, or not in that form.
            (Type::StatusUpdate, Settled::Refused(Class::Recoverable)) => self.correct(core, now, key, incoming),
            _ => {}
        }
    }

    fn correct(&mut self, core: &mut Core, now: Now, key: &Key, incoming: &Incoming) {
        if core.outbox.is_lane_busy(&Lane::of(key)) {
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
    if key.kind == Kind::Application
        && matches!(mapping::pending_operation(new), Pending::Unstamped(_) | Pending::Stale)
    {
        core.ask(key, Why::Stamp);
    }
}
