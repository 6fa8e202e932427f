//! What one peer still has to be told: bounded, newest state wins, one in flight per lane, sent again until acknowledged.

mod pace;
mod schedule;
#[cfg(test)]
mod tests;
mod unsent;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use thane_api::event::{Event, SENT_AT, Target, Type};

use self::pace::Pace;
use self::schedule::Schedule;
use self::unsent::{Entry, Unsent};
use crate::jitter;
use crate::lane::Lane;
use crate::object::Object;
use crate::time::Now;

/// How much longer each wait for an acknowledgement is than the one before.
const RETRY_FACTOR: u32 = 4;
/// Sent this often on one stream, an event no longer keeps those waiting that need it.
const NEED_TRANSMISSIONS: u32 = 2;
/// Sent this often on one stream, an event no longer counts for the window: what a peer cannot take must not block the rest.
const WINDOW_TRANSMISSIONS: u32 = 3;
/// Events that are sent once may wait in this many times the number of the others.
const UNTRACKED_FACTOR: usize = 4;

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

/// The payload of an event, serialised when it is sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Nothing.
    Empty,
    /// An object, shared with whoever else has it.
    Object(Object),
    /// JSON as it is.
    Json(Bytes),
}

impl Body {
    fn into_bytes(self) -> Bytes {
        match self {
            Self::Empty => Bytes::new(),
            Self::Json(bytes) => bytes,
            Self::Object(object) => {
                serde_json::to_vec(&*object).expect("a JSON value in memory always has a text form").into()
            }
        }
    }
}

/// An event that is to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Outgoing {
    /// What it keeps its order with.
    pub lane: Lane,
    /// What it is about.
    pub target: Target,
    /// What it says.
    pub kind: Type,
    /// The wire's name of what it is about.
    pub resource_id: String,
    /// The start of its id; a suffix that no other event has is added, unless it is sent only once.
    pub event_id: String,
    /// `<namespace>/<name>` of the object, where it is about one.
    pub subject: Option<String>,
    /// Its payload.
    pub body: Body,
    /// Further attributes.
    pub extensions: BTreeMap<String, String>,
    /// Lanes that are to be empty before it is sent.
    pub needs: Vec<Lane>,
}

impl Outgoing {
    /// Whether it is repeated until the peer has it; as `Event::wants_acknowledgement`.
    fn is_tracked(&self) -> bool {
        !matches!(self.target, Target::Processed | Target::Heartbeat)
    }

    fn into_event(self) -> Event {
        Event {
            target: self.target,
            kind: self.kind,
            resource_id: self.resource_id,
            event_id: self.event_id,
            subject: self.subject,
            data: self.body.into_bytes(),
            extensions: self.extensions,
        }
    }
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

/// A lane that is not empty.
#[derive(Debug)]
struct Work {
    unsent: Unsent,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Its first unsent event may go as soon as there is room.
    Ready,
    /// Its first unsent event needs what is in lane `by`.
    Held { by: Lane, until: Duration },
    /// An event was sent and is not acknowledged.
    Flying(Box<Flight>),
}

#[derive(Debug)]
struct Flight {
    event: Event,
    position: u64,
    pushed: Duration,
    attempts: u32,
    /// Attempts on this stream.
    transmissions: u32,
    due: Duration,
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
        if !out.is_tracked() {
            self.push_untracked(out.into_event());
            return Pushed::Queued;
        }
        let replaced = if out.kind == Type::Delete { self.drop_for_deletion(&out) } else { false };
        let out = match self.merge(out) {
            Ok(()) => return Pushed::Replaced,
            Err(out) => out,
        };
        if self.len() >= self.options.queue_max {
            return Pushed::Overflow;
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
        let flight = self.land(&lane)?;
        Some(Acknowledged {
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
        self.untracked.clear();
    }

    /// What to write on the stream now, at most `room` events.
    pub fn due(&mut self, now: Now, room: usize) -> Vec<Event> {
        let Some(since) = self.connected else { return Vec::new() };
        let mut events: Vec<Event> = self.untracked.drain(..room.min(self.untracked.len())).collect();
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

    /// Gives everything up; how many events that were to be acknowledged.
    pub fn clear(&mut self) -> usize {
        let given_up = self.len();
        self.lanes.clear();
        self.flying.clear();
        self.pushed.clear();
        self.schedule = Schedule::default();
        self.untracked.clear();
        self.window_used = 0;
        given_up
    }

    /// Events that wait or are in flight.
    pub fn len(&self) -> usize {
        self.pushed.len()
    }

    /// Whether everything has been acknowledged and nothing waits to be sent.
    pub fn is_empty(&self) -> bool {
        self.pushed.is_empty() && self.untracked.is_empty()
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

/// How it works inside: every change of a lane's stage goes through here.
impl Outbox {
    /// Drops what a deletion makes pointless; whether there was anything.
    fn drop_for_deletion(&mut self, deletion: &Outgoing) -> bool {
        let Some(work) = self.lanes.get_mut(&deletion.lane) else { return false };
        let head = work.unsent.first_position();
        let dropped = work.unsent.drop_for_deletion(&deletion.resource_id);
        for position in &dropped {
            self.pushed.remove(position);
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
    fn merge(&mut self, out: Outgoing) -> Result<(), Outgoing> {
        let Some(work) = self.lanes.get_mut(&out.lane) else { return Err(out) };
        let lane = out.lane.clone();
        work.unsent.merge(out)?;
        if let Stage::Held { by, until } = &work.stage {
            self.schedule.unhold(&lane, by, *until);
            self.make_ready(lane);
        }
        Ok(())
    }

    fn append(&mut self, now: Now, out: Outgoing) {
        let position = self.positions;
        self.positions += 1;
        self.pushed.insert(position, now.monotonic);
        let lane = out.lane.clone();
        let entry = Entry { position, pushed: now.monotonic, out };
        if let Some(work) = self.lanes.get_mut(&lane) {
            work.unsent.append(entry);
        } else {
            self.lanes.insert(lane.clone(), Work { unsent: Unsent::of(entry), stage: Stage::Ready });
            self.schedule.ready(position, lane);
        }
    }

    /// Ends the flight of a lane.
    fn land(&mut self, lane: &Lane) -> Option<Flight> {
        let work = self.lanes.get_mut(lane)?;
        let Stage::Flying(flight) = std::mem::replace(&mut work.stage, Stage::Ready) else {
            unreachable!("only a lane with a flight is landed");
        };
        self.flying.remove(&flight.event.event_id);
        self.pushed.remove(&flight.position);
        self.schedule.unretry(flight.due, flight.position);
        if flight.transmissions < WINDOW_TRANSMISSIONS {
            self.window_used -= 1;
        }
        self.settle(lane);
        Some(*flight)
    }

    /// A lane without a flight, and scheduled for nothing, is ready or gone.
    fn settle(&mut self, lane: &Lane) {
        if self.lanes.get(lane).is_some_and(|work| work.unsent.first_position().is_some()) {
            self.make_ready(lane.clone());
            return;
        }
        self.lanes.remove(lane);
        self.release_waiting_for(lane);
    }

    fn release_waiting_for(&mut self, lane: &Lane) {
        for waiting in self.schedule.release_waiting_for(lane) {
            self.make_ready(waiting);
        }
    }

    fn make_ready(&mut self, lane: Lane) {
        let Some(work) = self.lanes.get_mut(&lane) else { return };
        let Some(position) = work.unsent.first_position() else { return };
        work.stage = Stage::Ready;
        self.schedule.ready(position, lane);
    }

    fn has_window(&self) -> bool {
        self.window_used < self.options.window
    }

    /// Sends the next event for the first time, if any may go.
    fn send_next(&mut self, now: Now, since: Duration) -> Option<Event> {
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
    fn held_by(&self, lane: &Lane, now: Now, since: Duration) -> Option<(Lane, Duration)> {
        let entry = self.lanes.get(lane)?.unsent.first()?;
        let until = entry.pushed.max(since).saturating_add(self.options.needs_wait);
        if until <= now.monotonic {
            return None;
        }
        let by = entry.out.needs.iter().find(|need| *need != lane && self.is_worth_waiting_for(need))?;
        Some((by.clone(), until))
    }

    fn is_worth_waiting_for(&self, lane: &Lane) -> bool {
        self.lanes.get(lane).is_some_and(|work| match &work.stage {
            Stage::Flying(flight) => flight.transmissions < NEED_TRANSMISSIONS,
            Stage::Ready | Stage::Held { .. } => true,
        })
    }

    fn launch(&mut self, lane: &Lane, now: Now) -> Option<Event> {
        let work = self.lanes.get_mut(lane)?;
        let Entry { position, pushed, out } = work.unsent.take_first()?;
        let mut event = out.into_event();
        event.event_id = format!("{}_{}{}", event.event_id, self.salt, self.ids);
        self.ids += 1;
        event.extensions.insert(SENT_AT.to_owned(), format!("{:.9}", now.wall));
        let due = now.monotonic.saturating_add(self.options.wait(&event.event_id, 0));
        self.flying.insert(event.event_id.clone(), lane.clone());
        self.schedule.retry(due, position, lane.clone());
        self.window_used += 1;
        let flight = Flight { event: event.clone(), position, pushed, attempts: 1, transmissions: 1, due };
        work.stage = Stage::Flying(Box::new(flight));
        Some(event)
    }

    /// Sends an event again whose acknowledgement is overdue.
    fn repeat(&mut self, now: Now) -> Option<Event> {
        let lane = self.schedule.pop_retry(now.monotonic)?;
        let Some(Work { stage: Stage::Flying(flight), .. }) = self.lanes.get_mut(&lane) else {
            unreachable!("only a lane with a flight is scheduled for a retry");
        };
        flight.due = now.monotonic.saturating_add(self.options.wait(&flight.event.event_id, flight.transmissions));
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
    fn wait(&self, event_id: &str, transmissions: u32) -> Duration {
        jitter::wait(self.retry_first, RETRY_FACTOR, self.retry_max, transmissions, event_id.as_bytes())
    }
}

fn earlier(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    a.into_iter().chain(b).min()
}
