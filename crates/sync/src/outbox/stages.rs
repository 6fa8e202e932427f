//! How a lane moves between ready, held and in flight.

use std::time::Duration;

use thane_api::event::{Event, SENT_AT, Type};

use super::unsent::{Entry, Unsent};
use super::{Options, Outbox, Outgoing};
use crate::jitter;
use crate::lane::Lane;
use crate::time::Now;

/// How much longer each wait for an acknowledgement is than the one before.
const RETRY_FACTOR: u32 = 4;
/// Sent this often on one stream, an event no longer keeps those waiting that need it.
const NEED_TRANSMISSIONS: u32 = 2;
/// Sent this often on one stream, an event no longer counts for the window: what a peer cannot take must not block the rest.
const WINDOW_TRANSMISSIONS: u32 = 3;
/// How often in a row something newer goes at once instead of what is not acknowledged; then it waits its time.
const HASTE_MAX: u32 = 3;
/// A lane that is not empty.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) unsent: Unsent,
    pub(super) stage: Stage,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// Its first unsent event may go as soon as there is room.
    Ready,
    /// Its first unsent event needs what is in lane `by`.
    Held { by: Lane, until: Duration },
    /// An event was sent and is not acknowledged.
    Flying(Box<Flight>),
}

#[derive(Debug)]
pub(super) struct Flight {
    pub(super) event: Event,
    pub(super) position: u64,
    pub(super) pushed: Duration,
    pub(super) attempts: u32,
    /// Attempts on this stream.
    pub(super) transmissions: u32,
    /// How many before it were not acknowledged and gave way to what is newer.
    pub(super) replaced: u32,
    pub(super) due: Duration,
}

impl Outbox {
    /// Drops what a deletion makes pointless; whether there was anything.
    pub(super) fn drop_for_deletion(&mut self, deletion: &Outgoing) -> bool {
        let Some(work) = self.lanes.get_mut(&deletion.lane) else { return false };
        let head = work.unsent.first_position();
        let dropped = work.unsent.drop_for_deletion(&deletion.resource_id);
        for position in &dropped {
            self.pushed.remove(position);
            self.comparing.remove(position);
        }
        let is_pointless = match &work.stage {
            Stage::Flying(flight) => {
                flight.event.kind != Type::Delete || flight.event.resource_id == deletion.resource_id
            }
            Stage::Ready => {
                self.schedule.unready(head);
                self.settle(&deletion.lane);
                false
            }
            Stage::Held { by, until } => {
                self.schedule.unhold(&deletion.lane, by, *until);
                self.settle(&deletion.lane);
                false
            }
        };
        (is_pointless && self.land(&deletion.lane).is_some()) || !dropped.is_empty()
    }

    /// Lets a newer event take the place of an unsent one; gives it back if there is none.
    pub(super) fn merge(&mut self, out: Outgoing) -> Option<Outgoing> {
        let Some(work) = self.lanes.get_mut(&out.lane) else { return Some(out) };
        let lane = out.lane.clone();
        if let Some(out) = work.unsent.merge(out) {
            return Some(out);
        }
        if let Stage::Held { by, until } = &work.stage {
            self.schedule.unhold(&lane, by, *until);
            self.make_ready(lane);
        }
        None
    }

    pub(super) fn append(&mut self, now: Now, out: Outgoing) {
        let position = self.positions;
        self.positions += 1;
        self.pushed.insert(position, now.monotonic);
        let lane = out.lane.clone();
        let entry = Entry { position, pushed: now.monotonic, out };
        if let Some(work) = self.lanes.get_mut(&lane) {
            work.unsent.append(entry);
            self.hasten(&lane, now);
        } else {
            self.lanes.insert(lane.clone(), Work { unsent: Unsent::of(entry), stage: Stage::Ready });
            self.schedule.ready(position, lane);
        }
    }

    /// Nothing of that position waits or flies any more.
    fn leave(&mut self, position: u64) {
        self.pushed.remove(&position);
        self.comparing.remove(&position);
    }

    /// Ends the flight of a lane.
    pub(super) fn land(&mut self, lane: &Lane) -> Option<Flight> {
        let work = self.lanes.get_mut(lane)?;
        let Stage::Flying(flight) = std::mem::replace(&mut work.stage, Stage::Ready) else {
            unreachable!("only a lane with a flight is landed");
        };
        self.flying.remove(&flight.event.event_id);
        self.leave(flight.position);
        self.schedule.unretry(flight.due, flight.position);
        if flight.transmissions < WINDOW_TRANSMISSIONS {
            self.window_used -= 1;
        }
        self.settle(lane);
        Some(*flight)
    }

    /// A lane without a flight, and scheduled for nothing, is ready or gone.
    pub(super) fn settle(&mut self, lane: &Lane) {
        if self.lanes.get(lane).is_some_and(|work| work.unsent.first_position().is_some()) {
            self.make_ready(lane.clone());
            return;
        }
        self.lanes.remove(lane);
        self.release_waiting_for(lane);
    }

    pub(super) fn release_waiting_for(&mut self, lane: &Lane) {
        for waiting in self.schedule.release_waiting_for(lane) {
            self.make_ready(waiting);
        }
    }

    pub(super) fn make_ready(&mut self, lane: Lane) {
        let Some(work) = self.lanes.get_mut(&lane) else { return };
        let Some(position) = work.unsent.first_position() else { return };
        work.stage = Stage::Ready;
        self.schedule.ready(position, lane);
    }

    pub(super) fn has_window(&self) -> bool {
        self.window_used < self.options.window.max(1)
    }

    /// Sends the next event for the first time, if any may go.
    pub(super) fn send_next(&mut self, now: Now, since: Duration) -> Option<Event> {
        while self.has_window() {
            let lane = self.schedule.pop_ready()?;
            if let Some((by, until)) = self.held_by(&lane, now, since) {
                self.schedule.hold(lane.clone(), by.clone(), until);
                if let Some(work) = self.lanes.get_mut(&lane) {
                    work.stage = Stage::Held { by, until };
                }
                continue;
            }
            return self.launch(&lane, now);
        }
        None
    }

    /// What the first event of a lane has to wait for, and until when at most: waiting starts with the connection,
    /// so that after a long absence an object still does not overtake what it needs.
    pub(super) fn held_by(&self, lane: &Lane, now: Now, since: Duration) -> Option<(Lane, Duration)> {
        let entry = self.lanes.get(lane)?.unsent.first()?;
        let until = entry.pushed.max(since).saturating_add(self.options.needs_wait);
        if until <= now.monotonic {
            return None;
        }
        let by = entry.out.needs.iter().find(|need| *need != lane && self.is_worth_waiting_for(need))?;
        Some((by.clone(), until))
    }

    pub(super) fn is_worth_waiting_for(&self, lane: &Lane) -> bool {
        self.lanes.get(lane).is_some_and(|work| match &work.stage {
            Stage::Flying(flight) => flight.transmissions.saturating_add(flight.replaced) < NEED_TRANSMISSIONS,
            Stage::Ready | Stage::Held { .. } => true,
        })
    }

    pub(super) fn launch(&mut self, lane: &Lane, now: Now) -> Option<Event> {
        let entry = self.lanes.get_mut(lane)?.unsent.take_first()?;
        self.fly(lane, now, entry, 0)
    }

    /// Sends something, `replaced` times in the place of what was not acknowledged: each has more time than the one before, so
    /// that a peer that is slow is heard in the end.
    fn fly(&mut self, lane: &Lane, now: Now, entry: Entry, replaced: u32) -> Option<Event> {
        let Entry { position, pushed, out } = entry;
        let work = self.lanes.get_mut(lane)?;
        let mut event = out.into_event();
        event.event_id = format!("{}_{}-{}", event.event_id, self.salt, self.ids);
        self.ids += 1;
        event.extensions.insert(SENT_AT.to_owned(), format!("{:.9}", now.wall));
        let due = now.monotonic.saturating_add(self.options.wait(&event.event_id, replaced));
        self.flying.insert(event.event_id.clone(), lane.clone());
        self.schedule.retry(due, position, lane.clone());
        self.window_used += 1;
        let flight = Flight { event: event.clone(), position, pushed, attempts: 1, transmissions: 1, replaced, due };
        work.stage = Stage::Flying(Box::new(flight));
        Some(event)
    }

    /// Something waits behind an event that was sent again already: if it makes that one pointless, it need not wait.
    pub(super) fn hasten(&mut self, lane: &Lane, now: Now) {
        let Some(Work { unsent, stage: Stage::Flying(flight) }) = self.lanes.get_mut(lane) else { return };
        let times = flight.transmissions.saturating_add(flight.replaced);
        let is_stuck = times >= NEED_TRANSMISSIONS && flight.replaced < HASTE_MAX && flight.due > now.monotonic;
        if is_stuck && unsent.newer(&flight.event.kind).is_some() {
            self.schedule.unretry(flight.due, flight.position);
            flight.due = now.monotonic;
            self.schedule.retry(flight.due, flight.position, lane.clone());
        }
    }

    /// Instead of an event that is not acknowledged the newest state goes out, if there is a newer one.
    fn replace_flight(&mut self, lane: &Lane, now: Now) -> Option<Event> {
        let Some(Work { unsent, stage: Stage::Flying(flight) }) = self.lanes.get(lane) else { return None };
        let needs = &unsent.newer(&flight.event.kind)?.out.needs;
        if needs.iter().any(|need| need != lane && self.is_worth_waiting_for(need)) {
            return None;
        }
        let Some(Work { unsent, stage: Stage::Flying(flight) }) = self.lanes.get_mut(lane) else { return None };
        let newer = unsent.take_newer(&flight.event.kind)?;
        self.flying.remove(&flight.event.event_id);
        let (position, is_in_window) = (flight.position, flight.transmissions < WINDOW_TRANSMISSIONS);
        // On this stream: what a new one begins with has lost no time.
        let replaced = if flight.transmissions == 0 { 0 } else { flight.replaced.saturating_add(1) };
        self.leave(position);
        if is_in_window {
            self.window_used -= 1;
        }
        let event = self.fly(lane, now, newer, replaced)?;
        if replaced > 0 {
            self.release_waiting_for(lane);
        }
        Some(event)
    }

    /// Sends an event again whose acknowledgement is overdue.
    pub(super) fn repeat(&mut self, now: Now) -> Option<Event> {
        let lane = self.schedule.pop_retry(now.monotonic)?;
        if let Some(newer) = self.replace_flight(&lane, now) {
            return Some(newer);
        }
        let Some(Work { stage: Stage::Flying(flight), .. }) = self.lanes.get_mut(&lane) else {
            unreachable!("only a lane with a flight is scheduled for a retry");
        };
        let times = flight.transmissions.saturating_add(flight.replaced);
        flight.due = now.monotonic.saturating_add(self.options.wait(&flight.event.event_id, times));
        flight.attempts = flight.attempts.saturating_add(1);
        flight.transmissions = flight.transmissions.saturating_add(1);
        self.schedule.retry(flight.due, flight.position, lane.clone());
        let (event, transmissions) = (flight.event.clone(), flight.transmissions);
        if transmissions == WINDOW_TRANSMISSIONS {
            self.window_used -= 1;
        }
        if transmissions == NEED_TRANSMISSIONS {
            self.release_waiting_for(&lane);
        }
        Some(event)
    }
}

impl Options {
    pub(super) fn wait(&self, event_id: &str, transmissions: u32) -> Duration {
        jitter::wait(self.retry_first, RETRY_FACTOR, self.retry_max, transmissions, event_id.as_bytes())
    }
}
