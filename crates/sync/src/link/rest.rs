//! A job that has to wait holds up nobody: no other object, and nothing newer about its own.

use thane_api::event::{Event, Type};

use super::trouble::Matter;
use super::{Link, Side, Why};
use crate::failure::Class;
use crate::lane::Lane;
use crate::object::Key;
use crate::time::Now;

/// What becomes of a job that gives way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Nothing: what is newer says it all.
    Dropped,
    /// It is acknowledged, and tried again later.
    PutOff,
}

impl<S: Side> Link<S> {
    /// A job has begun to wait.
    pub(super) fn rest(&mut self, now: Now, key: &Key) {
        self.make_way(now, key);
        if self.core.works.is_resting(key) && matches!(self.core.works.why(key), Some(Why::Inbound(_))) {
            let next = self.core.inbox.pause(&Lane::of(key));
            self.start(now, next);
        }
    }

    /// A job that waits gives way to what came after it, where it need not go first.
    pub(super) fn make_way(&mut self, now: Now, key: &Key) {
        let Some(way) = self.way(key) else { return };
        let Some(why) = self.core.works.finish(key) else { return };
        if matches!(why, Why::Inbound(_)) {
            if way == Way::PutOff {
                let message = "it failed for now, and something newer came".to_owned();
                self.core.troubles.add(now, key, why, Class::Temporary, message);
            }
            self.release(now, &Lane::of(key), Some(key));
        } else {
            // Whatever of it is still to be done is found when the newer event is done, or when it is its turn again.
            self.core.troubles.put_off(now, key, Matter::of(&why));
        }
        if let Some(incoming) = self.core.waiting.remove(key) {
            self.core.ready.push_front((key.clone(), incoming));
        }
    }

    fn way(&self, key: &Key) -> Option<Way> {
        let core = &self.core;
        if !core.works.is_resting(key) {
            return None;
        }
        let Some(Why::Inbound(old)) = core.works.why(key) else {
            return core.waiting.contains_key(key).then_some(Way::PutOff);
        };
        let lane = Lane::of(key);
        let first = core.inbox.awaited_by(&lane).next()?;
        let is_pointless =
            |newer: &Event| newer.resource_id == old.event.resource_id && ends(&newer.kind, &old.event.kind);
        if is_pointless(first)
            || core.inbox.awaited_by(&lane).any(|newer| newer.kind == Type::Delete && is_pointless(newer))
        {
            return Some(Way::Dropped);
        }
        // Operations keep their order among themselves.
        let is_other = Matter::of_type(&first.kind) != Matter::of_type(&old.event.kind) || is_state(&old.event.kind);
        let has_room = core.troubles.has_room(key, Matter::of_type(&old.event.kind));
        (is_other && has_room && core.works.is_stuck(key)).then_some(Way::PutOff)
    }
}

/// Whether an event of that type makes an older one about the same object pointless.
fn ends(newer: &Type, older: &Type) -> bool {
    match newer {
        Type::Delete => true,
        Type::Create | Type::SpecUpdate => matches!(older, Type::Create | Type::SpecUpdate),
        Type::StatusUpdate => *older == Type::StatusUpdate,
        Type::SetOperation => *older == Type::TerminateOperation,
        _ => false,
    }
}

fn is_state(kind: &Type) -> bool {
    matches!(kind, Type::Create | Type::SpecUpdate | Type::StatusUpdate)
}
