//! What happens because time passes, and because the peer comes and goes.

use std::time::Duration;

use thane_api::event::Event;

use super::{Core, Effect, Link, Note, Peer, Side};
use crate::time::Now;

/// How long a comparison waits for traffic to end.
pub(super) const QUIET_AGAIN: Duration = Duration::from_secs(1);
/// How often it waits: where traffic never ends, it compares all the same.
const PUT_OFF_MAX: u32 = 30;

impl<S: Side> Link<S> {
    /// The peer is connected.
    pub fn connected(&mut self, now: Now, peer: Peer) {
        self.core.peer = Some(peer);
        self.core.held_until = None;
        self.core.inbox.opened();
        self.core.outbox.connected(now);
        self.core.compare_at = self.core.options.compare_every.map(|every| now.monotonic + every);
        let fresh = std::mem::take(&mut self.core.fresh);
        self.comparing(|side, core| side.connected(core, now, fresh));
        self.run(now);
    }

    /// The peer is gone. What it sent is still processed; what waits for it is kept for a while.
    pub fn disconnected(&mut self, now: Now) {
        if self.core.peer.take().is_some() {
            self.core.inbox.closed();
            self.core.outbox.disconnected(now);
            self.core.held_until = Some(now.monotonic + self.core.options.hold);
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Now) {
        for key in self.core.works.due(now.monotonic) {
            self.advance(now, &key);
        }
        self.give_up(now);
        self.retry_troubles(now);
        self.compare(now);
        self.run(now);
    }

    fn give_up(&mut self, now: Now) {
        if self.core.held_until.is_some_and(|until| until <= now.monotonic) {
            self.core.held_until = None;
            self.core.fresh = true;
            let events = self.core.outbox.clear();
            self.core.note(Note::GaveUp { events });
        }
    }

    fn retry_troubles(&mut self, now: Now) {
        let core = &mut self.core;
        let due = core.troubles.due(now, |key| core.works.has(key) || core.waiting.contains_key(key));
        for (key, why) in due {
            self.core.works.begin(key.clone(), why);
            self.advance(now, &key);
        }
    }

    fn compare(&mut self, now: Now) {
        let is_due = self.core.compare_at.is_some_and(|at| at <= now.monotonic);
        if self.core.peer.is_none() || !is_due {
            return;
        }
        let has_room = self.core.outbox.len() <= self.core.options.outbox.queue_max / 2;
        if !self.core.is_quiet() && (self.core.put_off < PUT_OFF_MAX || !has_room) {
            // What is on its way would look like a difference.
            self.core.put_off = self.core.put_off.saturating_add(1);
            self.core.compare_at = Some(now.monotonic + QUIET_AGAIN);
            return;
        }
        self.core.put_off = 0;
        self.core.compare_at = self.core.options.compare_every.map(|every| now.monotonic + every);
        let fresh = std::mem::take(&mut self.core.fresh);
        self.comparing(|side, core| if fresh { side.compare_now(core, now) } else { side.compare_due(core, now) });
    }

    fn comparing(&mut self, compare: impl FnOnce(&mut S, &mut Core)) {
        self.core.is_comparing = true;
        compare(&mut self.side, &mut self.core);
        self.core.is_comparing = false;
    }

    /// Events to write on the stream now, at most `room`.
    pub fn due(&mut self, now: Now, room: usize) -> Vec<Event> {
        self.core.outbox.due(now, room)
    }

    /// What is to be done outside.
    pub fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.core.effects)
    }

    /// Whether the stream should not be read for now.
    pub fn is_full(&self) -> bool {
        self.core.inbox.is_full()
    }

    /// When `tick` or `due` is next worth calling.
    pub fn next_wake(&self, now: Now) -> Option<Duration> {
        let due = self.core.outbox.next_due(now).filter(|at| *at != Duration::MAX);
        [due, self.next_tick()].into_iter().flatten().min()
    }

    /// When `tick` is next worth calling, while the stream has no room and `due` is not.
    pub fn next_tick(&self) -> Option<Duration> {
        let core = &self.core;
        let compare = core.peer.as_ref().and(core.compare_at);
        let times = [core.works.next_due(), core.held_until, core.troubles.next_due(), compare];
        times.into_iter().flatten().min()
    }

    /// Asks for a comparison with the peer now, or when it is back.
    pub fn resync(&mut self, now: Now) {
        if self.core.peer.is_some() {
            self.core.note(Note::Compare { reason: "asked" });
            self.comparing(|side, core| side.compare_now(core, now));
        } else {
            self.core.fresh = true;
        }
        self.run(now);
    }
}
