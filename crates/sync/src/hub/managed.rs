//! A managed agent: the hub's objects are the truth, their status is the agent's.

use thane_api::event::Type;

use super::Hub;
use crate::link::{Core, Settled, Why, lane};
use crate::mapping::{self, Terminating};
use crate::object::{Key, Kind, Object};
use crate::store::Change;
use crate::time::Now;

impl Hub {
    pub(super) fn managed_changed(&mut self, core: &mut Core, now: Now, key: &Key, change: &Change) {
        match (&change.old, &change.new) {
            (None, Some(new)) => {
                self.ended.remove(key);
                self.send_object(core, now, key, new, Type::Create);
                self.operation_changed(core, now, key, None, new);
            }
            (Some(old), Some(new)) if crate::object::uid(old) != crate::object::uid(new) => {
                // Deleted and made anew while nobody looked: the agent decides by the uid.
                self.send_object(core, now, key, new, Type::SpecUpdate);
                self.operation_changed(core, now, key, None, new);
            }
            (Some(old), Some(new)) => {
                if key.kind == Kind::Application && mapping::terminating(old, new) == Terminating::Begins {
                    self.send_terminate(core, now, key, new);
                } else if mapping::differs_for_agent(key.kind, old, new) {
                    self.send_object(core, now, key, new, Type::SpecUpdate);
                }
                self.operation_changed(core, now, key, Some(old), new);
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

    /// An operation that appears gets an id before it travels; an id whose operation is over goes.
    fn operation_changed(&mut self, core: &mut Core, now: Now, key: &Key, old: Option<&Object>, new: &Object) {
        if key.kind != Kind::Application {
            return;
        }
        let had = old.is_some_and(|old| mapping::has_operation(old));
        let has = mapping::has_operation(new);
        if has && !had {
            let id = core.unique();
            core.ask(key, Why::Stamp(id));
        } else if !has && mapping::operation_id(new).is_some() {
            core.ask(key, Why::Stamp(String::new()));
        }
        let _ = now;
    }

    /// Whether the agent is known to have the operation that the hub's copy asks for.
    pub(super) fn is_operation_delivered(&self, core: &Core, key: &Key) -> bool {
        // Our own agents echo the id, which is more exact.
        !core.peer.as_ref().is_some_and(|peer| peer.can(crate::resync::DIGEST))
            && !core.outbox.is_lane_waiting_for(&lane(key), &Type::SetOperation)
    }

    pub(super) fn inbound_settled(&mut self, core: &mut Core, key: &Key, kind: &Type, settled: &Settled) {
        if self.is_autonomous() {
            return self.mirror_settled(core, key, kind, settled);
        }
        if *kind == Type::Delete && *settled == Settled::Written {
            self.ended.insert(key.clone());
        }
    }
}
