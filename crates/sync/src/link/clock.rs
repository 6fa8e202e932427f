//! What happens because time passes, and because the peer comes and goes.

use std::time::Duration;

use thane_api::event::Event;

use super::{Effect, Link, Note, Peer, Side, Why};
use crate::time::Now;

/// How long a comparison waits for traffic to end.
const QUIET_AGAIN: Duration = Duration::from_secs(1);

impl<S: Side> Link<S> {
    /// The peer is connected.
    pub fn connected(&mut self, now: Now, peer: Peer) {
        self.core.peer = Some(peer);
        self.core.held_until = None;
        self.core.inbox.opened();
        self.core.outbox.connected(now);
        let fresh = std::mem::take(&mut self.core.fresh);
        self.side.connected(&mut self.core, now, fresh);
        self.core.compare_at = self.core.options.compare_every.map(|every| now.monotonic + every);
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
        let due = self.core.troubles.iter().filter(|(_, trouble)| trouble.retry_at <= now.monotonic);
        let due: Vec<_> = due.map(|(key, trouble)| (key.clone(), trouble.incoming.clone())).collect();
        for (key, incoming) in due {
            if self.core.is_busy(&key) {
                continue;
            }
            // The memory of how often it failed stays until it succeeds.
            if let Some(trouble) = self.core.troubles.get_mut(&key) {
                trouble.retry_at = Duration::MAX;
            }
            let why = incoming.map_or(Why::Repair, Why::Retry);
            self.core.works.begin(key.clone(), why);
            self.advance(now, &key);
        }
    }

    fn compare(&mut self, now: Now) {
        let is_due = self.core.fresh || self.core.compare_at.is_some_and(|at| at <= now.monotonic);
        if self.core.peer.is_none() || !is_due {
            return;
        }
        if !self.core.is_quiet() {
            // What is on its way would look like a difference.
            self.core.compare_at = Some(now.monotonic + QUIET_AGAIN);
            return;
        }
        self.core.compare_at = self.core.options.compare_every.map(|every| now.monotonic + every);
        if std::mem::take(&mut self.core.fresh) {
            return self.side.connected(&mut self.core, now, true);
        }
        self.side.compare_due(&mut self.core, now);
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
        let core = &self.core;
        let troubles = core.troubles.values().map(|trouble| trouble.retry_at).min();
        let compare = core.peer.as_ref().and(core.compare_at);
        let times = [core.outbox.next_due(now), core.works.next_due(), core.held_until, troubles, compare];
        times.into_iter().flatten().min().filter(|at| *at != Duration::MAX)
    }

    /// Asks for a comparison with the peer now, or when it is back.
    pub fn resync(&mut self, now: Now) {
        if self.core.peer.is_some() {
            self.core.note(Note::Compare { reason: "asked" });
            self.side.connected(&mut self.core, now, true);
        } else {
            self.core.fresh = true;
        }
        self.run(now);
    }
}
