//! What this side will not or cannot do: counted, acknowledged, and told to whoever can put it right.

use std::time::Duration;

use serde_json::Value;
use thane_api::event::{Event, TRACE_PARENT, Type};

use super::{Link, Note, Side};
use crate::failure::Class;
use crate::mapping::{self, Refusal};
use crate::object::Kind;
use crate::time::Now;

impl<S: Side> Link<S> {
    /// An event that is refused before it has a place: counted, and acknowledged so that it does not come again.
    pub(super) fn turn_away(&mut self, event: &Event, refusal: &Refusal) {
        self.core.outbox.push_untracked(event.acknowledgement());
        self.note_refusal(event, refusal, Duration::ZERO);
    }

    /// It is not tried again, but somebody may wait for it: what an object is to be, and may not be here.
    pub(super) fn remember_turned(&mut self, kind: Kind, event: &Event, refusal: &Refusal) {
        let is_wish = matches!(event.kind, Type::Create | Type::SpecUpdate | Type::SetOperation);
        let body: Option<Value> = serde_json::from_slice(&event.data).ok();
        let key = body.and_then(|body| mapping::key_of(kind, &body).ok());
        match key {
            Some(key) if is_wish && refusal.class() == Class::Permanent => {
                self.core.troubles.turn_away(key, &refusal.message);
            }
            Some(key) if event.kind == Type::Delete => self.core.troubles.let_in(|| Some(key)),
            _ => {}
        }
    }

    pub(super) fn note_refusal(&mut self, event: &Event, refusal: &Refusal, took: Duration) {
        let (target, kind) = (event.target.clone(), event.kind.clone());
        let (class, message) = (refusal.class(), refusal.message.clone());
        let trace = event.extensions.get(TRACE_PARENT).cloned();
        self.core.note(Note::Refused { target, kind, trace, class, message, took });
    }

    /// Whoever can put it right hears of what cannot be done, once for all that has changed.
    pub(super) fn tell_troubles(&mut self, now: Now) {
        if self.core.troubles.take_news() {
            let report = self.core.troubles.report();
            if !self.side.troubled(&mut self.core, now, report) {
                self.core.troubles.keep_news();
            }
        }
    }
}
