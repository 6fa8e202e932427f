//! What one peer still has to be told: bounded, newest state wins, one in flight per lane, sent again until acknowledged.

mod outgoing;
mod pace;
mod query;
mod schedule;
mod stages;
#[cfg(test)]
mod tests;
mod unsent;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use thane_api::event::{Event, TRACE_PARENT, Target, Type};

pub use self::outgoing::{Body, Outgoing};
use self::pace::Pace;
use self::schedule::Schedule;
use self::stages::{Stage, Work};
use crate::lane::Lane;
use crate::time::Now;

/// Events that are sent once may wait in this many times the number of the others.
const UNTRACKED_FACTOR: usize = 4;
/// Room kept for them when none waits, so that a burst does not cost memory for ever.
const UNTRACKED_KEPT: usize = 16;

/// Bounds and waits of an outbox.
#[derive(Debug, Clone)]
pub struct Options {
    /// Events that may wait or be in flight: one per object of a large agent.
    pub queue_max: usize,
    /// Wait for an acknowledgement before an event is sent a second time.
    pub retry_first: Duration,
    /// Longest wait for an acknowledgement.
    pub retry_max: Duration,
    /// Events in flight at once: what fits into a round trip.
    pub window: usize,
    /// How fast events may be sent, if limited.
    pub rate: Option<Rate>,
    /// How long an event is held for what it needs.
    pub needs_wait: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queue_max: 10_000,
            retry_first: Duration::from_secs(5),
            retry_max: Duration::from_mins(2),
            window: 1_000,
            rate: None,
            needs_wait: Duration::from_secs(10),
        }
    }
}

/// A limit on events sent; acknowledgements and signs of life are free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Events per second in the long run.
    pub per_second: u32,
    /// Events at once after a pause.
    pub burst: u32,
}

/// What became of an event that was pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// It waits its turn.
    Queued,
    /// It took the place of something older.
    Replaced,
    /// There is no room: it is not queued, and the peer needs a resync.
    Overflow,
}

/// An event that the peer has processed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acknowledged {
    /// What it was about.
    pub target: Target,
    /// What it said.
    pub kind: Type,
    /// What it kept its order with.
    pub lane: Lane,
    /// Its W3C trace context.
    pub trace: Option<String>,
    /// Time since it was pushed.
    pub waited: Duration,
    /// How often it was sent.
    pub attempts: u32,
}

/// Events on their way to one peer; it outlives the connections to it.
#[derive(Debug)]
pub struct Outbox {
    options: Options,
    salt: String,
    /// When the stream was opened, while there is one.
    connected: Option<Duration>,
    lanes: BTreeMap<Lane, Work>,
    /// Lanes with something in flight, by its event id.
    flying: BTreeMap<String, Lane>,
    /// When everything that waits or flies was pushed, by position.
    pushed: BTreeMap<u64, Duration>,
    /// Those of them that compare.
    comparing: BTreeSet<u64>,
    schedule: Schedule,
    pace: Pace,
    untracked: VecDeque<Event>,
    untracked_dropped: u64,
    positions: u64,
    ids: u64,
    /// In flight and not yet sent so often that it no longer counts.
    window_used: usize,
    /// Whether a repetition is next when both one and a new event could be sent.
    repeat_next: bool,
}

impl Outbox {
    /// An empty one, not connected; `salt` makes its event ids differ from those before a restart.
    pub fn new(options: Options, salt: String) -> Self {
        let pace = Pace::new(options.rate);
        Self {
            options,
            salt,
            connected: None,
            lanes: BTreeMap::new(),
            flying: BTreeMap::new(),
            pushed: BTreeMap::new(),
            comparing: BTreeSet::new(),
            schedule: Schedule::default(),
            pace,
            untracked: VecDeque::new(),
            untracked_dropped: 0,
            positions: 0,
            ids: 0,
            window_used: 0,
            repeat_next: false,
        }
    }

    /// Takes an event to send. After `Overflow` the caller marks the peer for resync.
    pub fn push(&mut self, now: Now, out: Outgoing) -> Pushed {
        self.push_within(now, out, None)
    }

    /// Takes an event of a comparison. So many of them have places of their own: what is found to differ must still fit.
    pub fn push_comparison(&mut self, now: Now, out: Outgoing, most: usize) -> Pushed {
        self.push_within(now, out, Some(most))
    }

    fn push_within(&mut self, now: Now, out: Outgoing, comparison: Option<usize>) -> Pushed {
        if !out.is_tracked() {
            self.push_untracked(out.into_event());
            return Pushed::Queued;
        }
        let replaced = if out.kind == Type::Delete { self.drop_for_deletion(&out) } else { false };
        let Some(out) = self.merge(out) else { return Pushed::Replaced };
        let is_full = match comparison {
            Some(most) => self.comparing.len() >= most,
            None => self.len() - self.comparing.len() >= self.options.queue_max,
        };
        if is_full {
            return Pushed::Overflow;
        }
        if comparison.is_some() {
            self.comparing.insert(self.positions);
        }
        self.append(now, out);
        if replaced { Pushed::Replaced } else { Pushed::Queued }
    }

    /// Takes an event that is sent once, before all others: an acknowledgement, a ping, a pong. At the bound the
    /// oldest of them goes, because the peer repeats what it misses an answer to.
    pub fn push_untracked(&mut self, event: Event) {
        if self.untracked.len() >= self.options.queue_max.saturating_mul(UNTRACKED_FACTOR) {
            self.untracked.pop_front();
            self.untracked_dropped += 1;
        }
        self.untracked.push_back(event);
    }

    /// The peer has processed an event. Only what is in flight under exactly that id counts.
    pub fn acknowledge(&mut self, now: Now, resource_id: &str, event_id: &str) -> Option<Acknowledged> {
        let lane = self.flying.get(event_id)?.clone();
        let work = self.lanes.get(&lane)?;
        let Stage::Flying(flight) = &work.stage else { return None };
        if flight.event.resource_id != resource_id {
            return None;
        }
        let mut flight = self.land(&lane)?;
        Some(Acknowledged {
            trace: flight.event.extensions.remove(TRACE_PARENT),
            target: flight.event.target,
            kind: flight.event.kind,
            lane,
            waited: now.monotonic.saturating_sub(flight.pushed),
            attempts: flight.attempts,
        })
    }

    /// A stream is open: everything in flight is due again, and nothing has been held yet.
    pub fn connected(&mut self, now: Now) {
        self.connected = Some(now.monotonic);
        self.schedule.forget_retries();
        for lane in self.flying.values() {
            let Some(Work { stage: Stage::Flying(flight), .. }) = self.lanes.get_mut(lane) else { continue };
            flight.transmissions = 0;
            flight.replaced = 0;
            flight.due = now.monotonic;
            self.schedule.retry(flight.due, flight.position, lane.clone());
        }
        self.window_used = self.flying.len();
        for lane in self.schedule.release_held() {
            self.make_ready(lane);
        }
    }

    /// The stream is gone: nothing is sent, and what is sent only once is of no use any more.
    pub fn disconnected(&mut self, _now: Now) {
        self.connected = None;
        self.untracked = VecDeque::new();
    }

    /// What to write on the stream now, at most `room` events.
    pub fn due(&mut self, now: Now, room: usize) -> Vec<Event> {
        let Some(since) = self.connected else { return Vec::new() };
        let mut events: Vec<Event> = self.untracked.drain(..room.min(self.untracked.len())).collect();
        if self.untracked.is_empty() {
            self.untracked.shrink_to(UNTRACKED_KEPT);
        }
        while let Some(lane) = self.schedule.release_expired(now.monotonic) {
            self.make_ready(lane);
        }
        while events.len() < room && self.pace.allows(now.monotonic) {
            let repeated = if self.repeat_next { self.repeat(now) } else { None };
            let event = repeated.or_else(|| self.send_next(now, since)).or_else(|| self.repeat(now));
            let Some(event) = event else { break };
            self.repeat_next = !self.repeat_next;
            self.pace.take(now.monotonic);
            events.push(event);
        }
        events
    }

    /// The monotonic time at which `due` has something next; `None`: nothing waits for time. Not later than `now`
    /// right after `due` means that only room was lacking.
    pub fn next_due(&self, now: Now) -> Option<Duration> {
        self.connected?;
        if !self.untracked.is_empty() {
            return Some(now.monotonic);
        }
        let new = (self.has_window() && self.schedule.has_ready()).then_some(now.monotonic);
        let sendable = earlier(new, self.schedule.next_retry()).map(|at| at.max(self.pace.free_at()));
        earlier(sendable, self.schedule.next_release()).map(|at| at.max(now.monotonic))
    }

    /// Whether anything of this lane waits or is in flight.
    pub fn is_lane_busy(&self, lane: &Lane) -> bool {
        self.lanes.contains_key(lane)
    }

    /// Gives everything up; how many events that were to be acknowledged, by what they said.
    pub fn clear(&mut self) -> BTreeMap<(Target, Type), usize> {
        let mut given_up = BTreeMap::new();
        for Work { unsent, stage } in std::mem::take(&mut self.lanes).into_values() {
            let flying = if let Stage::Flying(flight) = stage { Some(flight.event) } else { None };
            let flying = flying.map(|event| (event.target, event.kind));
            let unsent = unsent.iter().map(|entry| (entry.out.target.clone(), entry.out.kind.clone()));
            for event in flying.into_iter().chain(unsent) {
                *given_up.entry(event).or_default() += 1;
            }
        }
        self.flying.clear();
        self.pushed.clear();
        self.comparing.clear();
        self.schedule = Schedule::default();
        self.untracked = VecDeque::new();
        self.window_used = 0;
        given_up
    }

    /// Events that wait or are in flight.
    pub fn len(&self) -> usize {
        self.pushed.len()
    }

    /// Whether everything that was to be acknowledged is.
    pub fn is_empty(&self) -> bool {
        self.pushed.is_empty()
    }

    /// Events that were sent and are not acknowledged.
    pub fn in_flight(&self) -> usize {
        self.flying.len()
    }

    /// Age of the oldest event that waits or is in flight.
    pub fn oldest(&self, now: Now) -> Option<Duration> {
        self.pushed.first_key_value().map(|(_, pushed)| now.monotonic.saturating_sub(*pushed))
    }

    /// Acknowledgements and signs of life that were dropped at the bound so far.
    pub fn untracked_dropped(&self) -> u64 {
        self.untracked_dropped
    }
}

fn earlier(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    a.into_iter().chain(b).min()
}
