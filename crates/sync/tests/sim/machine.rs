//! Both kinds of links behind one face.

use std::time::Duration;

use thane_api::event::Event;
use thane_sync::Now;
use thane_sync::link::{Core, Effect, Link, Side};
use thane_sync::work::{Outcome, Ticket};

pub(crate) trait Machine {
    fn core(&self) -> &Core;
    fn received(&mut self, now: Now, event: Event);
    fn written(&mut self, now: Now, ticket: Ticket, outcome: Outcome);
    fn tick(&mut self, now: Now);
    fn due(&mut self, now: Now, room: usize) -> Vec<Event>;
    fn effects(&mut self) -> Vec<Effect>;
    fn is_full(&self) -> bool;
    fn next_wake(&self, now: Now) -> Option<Duration>;
    fn next_tick(&self) -> Option<Duration>;
    fn disconnected(&mut self, now: Now);
    fn resync(&mut self, now: Now);
}

impl<S: Side> Machine for Link<S> {
    fn core(&self) -> &Core {
        &self.core
    }
    fn received(&mut self, now: Now, event: Event) {
        Link::received(self, now, event);
    }
    fn written(&mut self, now: Now, ticket: Ticket, outcome: Outcome) {
        Link::written(self, now, ticket, outcome);
    }
    fn tick(&mut self, now: Now) {
        Link::tick(self, now);
    }
    fn due(&mut self, now: Now, room: usize) -> Vec<Event> {
        Link::due(self, now, room)
    }
    fn effects(&mut self) -> Vec<Effect> {
        Link::effects(self)
    }
    fn is_full(&self) -> bool {
        Link::is_full(self)
    }
    fn next_wake(&self, now: Now) -> Option<Duration> {
        Link::next_wake(self, now)
    }
    fn next_tick(&self) -> Option<Duration> {
        Link::next_tick(self)
    }
    fn disconnected(&mut self, now: Now) {
        Link::disconnected(self, now);
    }
    fn resync(&mut self, now: Now) {
        Link::resync(self, now);
    }
}
