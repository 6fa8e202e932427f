//! What one peer has told us and is not processed yet: in order per lane, lanes in parallel, repeats recognised.

mod seen;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use thane_api::event::{Event, Type};

use self::seen::{Identity, Progress, Seen};
use crate::lane::Lane;
use crate::time::Now;

/// Bounds of an inbox.
#[derive(Debug, Clone)]
pub struct Options {
    /// Ids of events remembered to recognise repeats.
    pub remembered_max: usize,
    /// Events that may wait.
    pub queue_max: usize,
    /// Lanes at work at once.
    pub concurrency: usize,
    /// Lanes that may wait with what they have begun, beside those at work; beyond that they hold up others.
    pub paused_max: usize,
    /// How soon after an acknowledgement a repeat is answered with another: before that they have crossed.
    pub reack_after: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            remembered_max: 10_000,
            queue_max: 1_000,
            concurrency: 64,
            paused_max: 1_000,
            reack_after: Duration::from_secs(2),
        }
    }
}

/// What to do with an event that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Process it now, then call `done`.
    Start(Event),
    /// It is processed later. `superseded` is the acknowledgement, to be sent now, of one that it took the place of.
    Waits {
        /// The acknowledgement of the event that is not processed any more.
        superseded: Option<Event>,
    },
    /// It came before and is at work, or its acknowledgement is on its way: nothing to do.
    Repeat,
    /// It came before and was processed: send this acknowledgement again.
    Acknowledge(Event),
    /// There is no room: it is not taken, and its sender repeats it.
    Full,
}

/// What follows from an event having been processed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The acknowledgement to send, if the stream it came on is still there.
    pub ack: Option<Event>,
    /// Whether it came on an earlier stream than the one that is open: its sender may have compared in between.
    pub is_late: bool,
    /// What to process next, of this or another lane.
    pub next: Option<(Lane, Event)>,
}

/// Events from one peer; it outlives the connections to it.
#[derive(Debug)]
pub struct Inbox {
    options: Options,
    /// Counts openings and closings of the stream.
    stream: u64,
    is_open: bool,
    seen: Seen,
    lanes: BTreeMap<Lane, Work>,
    /// When the events that wait arrived.
    arrived: BTreeMap<Identity, u64>,
    /// Lanes that could start if fewer were at work, by the arrival of their first event.
    ready: BTreeMap<u64, Lane>,
    arrivals: u64,
    waiting: usize,
    at_work: usize,
    paused: usize,
}

#[derive(Debug, Default)]
struct Work {
    current: Option<Current>,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Current {
    identity: Identity,
    stream: u64,
    ack: Option<Event>,
    /// Whether it can do nothing for now, and leaves its place to others.
    is_paused: bool,
}

#[derive(Debug)]
struct Waiting {
    arrival: u64,
    identity: Identity,
    stream: u64,
    event: Event,
}

impl Inbox {
    /// An empty one without a stream.
    pub fn new(options: Options) -> Self {
        let seen = Seen::new(options.remembered_max);
        Self {
            options,
            stream: 0,
            is_open: false,
            seen,
            lanes: BTreeMap::new(),
            arrived: BTreeMap::new(),
            ready: BTreeMap::new(),
            arrivals: 0,
            waiting: 0,
            at_work: 0,
            paused: 0,
        }
    }

    /// A new stream: ids of the old one are forgotten; what was received is still processed.
    pub fn opened(&mut self) {
        self.stream += 1;
        self.is_open = true;
        self.seen.clear();
    }

    /// The stream is gone: what came on it is still processed, but not acknowledged.
    pub fn closed(&mut self) {
        self.stream += 1;
        self.is_open = false;
        self.seen.clear();
    }

    /// Takes an event that came on the current stream; acknowledgements and signs of life are not for here.
    pub fn receive(&mut self, now: Now, lane: Lane, event: Event) -> Verdict {
        let identity = Identity::of(&event);
        match self.seen.progress(&identity) {
            Some(Progress::Open) => return Verdict::Repeat,
            Some(Progress::Acknowledged(at)) => {
                if now.monotonic.saturating_sub(at) < self.options.reack_after {
                    return Verdict::Repeat;
                }
                self.seen.set(&identity, Progress::Acknowledged(now.monotonic));
                return Verdict::Acknowledge(event.acknowledgement());
            }
            None => {}
        }
        let waiting = Waiting { arrival: self.arrivals, identity, stream: self.stream, event };
        if let Some(index) = self.place_for(&lane, &waiting) {
            return Verdict::Waits { superseded: self.supersede(now, &lane, index, waiting) };
        }
        let is_idle = !self.lanes.contains_key(&lane);
        if is_idle && self.has_slot() {
            self.seen.open(waiting.identity.clone());
            return Verdict::Start(self.start(lane, waiting));
        }
        if self.is_full() {
            return Verdict::Full;
        }
        self.wait(lane, waiting);
        Verdict::Waits { superseded: None }
    }

    /// Takes an event that is handed on at once: whether it is new, and the acknowledgement to send.
    pub fn pass(&mut self, now: Now, event: &Event) -> (bool, Option<Event>) {
        let identity = Identity::of(event);
        let is_new = match self.seen.progress(&identity) {
            Some(Progress::Acknowledged(at)) if now.monotonic.saturating_sub(at) < self.options.reack_after => {
                return (false, None);
            }
            Some(_) => false,
            None => {
                self.seen.open(identity.clone());
                true
            }
        };
        self.seen.set(&identity, Progress::Acknowledged(now.monotonic));
        (is_new, Some(event.acknowledgement()))
    }

    /// The event that a lane was at work on is finished; without `ack` its sender is to repeat it.
    ///
    /// # Panics
    /// If the lane is not at work.
    pub fn done(&mut self, now: Now, lane: &Lane, ack: bool) -> Done {
        let current = self.lanes.get_mut(lane).and_then(|work| work.current.take());
        assert!(current.is_some(), "done with an event of a lane that is not at work");
        if current.as_ref().is_some_and(|current| current.is_paused) {
            self.paused -= 1;
        } else {
            self.at_work -= 1;
        }
        let is_late = current.as_ref().is_some_and(|current| self.is_open && current.stream != self.stream);
        let ack = current.and_then(|current| self.finish(now, current, ack));
        match self.lanes.get(lane).and_then(|work| work.waiting.front()) {
            Some(first) => {
                self.ready.insert(first.arrival, lane.clone());
            }
            None => {
                self.lanes.remove(lane);
            }
        }
        Done { ack, is_late, next: self.start_next() }
    }

    /// What a lane is at work on has to wait: others may start in its place, what follows in its own lane may not.
    /// What to process next.
    pub fn pause(&mut self, lane: &Lane) -> Option<(Lane, Event)> {
        let current = self.lanes.get_mut(lane).and_then(|work| work.current.as_mut());
        let current = current.filter(|current| !current.is_paused && self.paused < self.options.paused_max)?;
        current.is_paused = true;
        self.paused += 1;
        self.at_work -= 1;
        self.start_next()
    }

    /// What waited goes on, at once: more may be at work then than would be started.
    pub fn resume(&mut self, lane: &Lane) {
        let current = self.lanes.get_mut(lane).and_then(|work| work.current.as_mut());
        if let Some(current) = current.filter(|current| current.is_paused) {
            current.is_paused = false;
            self.paused -= 1;
            self.at_work += 1;
        }
    }

    /// Whether to stop reading the stream until something is done.
    pub fn is_full(&self) -> bool {
        self.waiting >= self.options.queue_max
    }

    /// Whether anything waits in this lane.
    pub fn is_awaited(&self, lane: &Lane) -> bool {
        self.awaited_by(lane).next().is_some()
    }

    /// What waits for what this lane is at work on, in order.
    pub fn awaited_by(&self, lane: &Lane) -> impl Iterator<Item = &Event> {
        self.lanes.get(lane).into_iter().flat_map(|work| work.waiting.iter().map(|waiting| &waiting.event))
    }

    /// Events that wait.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Lanes at work.
    pub fn at_work(&self) -> usize {
        self.at_work
    }

    /// Lanes that have begun something and wait with it.
    pub fn paused(&self) -> usize {
        self.paused
    }

    /// Where in its lane the event waits that a new one takes the place of: the same one, or an older state.
    fn place_for(&self, lane: &Lane, new: &Waiting) -> Option<usize> {
        let work = self.lanes.get(lane)?;
        let same = self.arrived.get(&new.identity).and_then(|arrival| work.position_of(*arrival));
        same.or_else(|| work.position_of_older(&new.event.kind))
    }

    /// Lets a new event take the place of one that waits, whose acknowledgement it gives.
    fn supersede(&mut self, now: Now, lane: &Lane, index: usize, new: Waiting) -> Option<Event> {
        let place = self.lanes.get_mut(lane)?.waiting.get_mut(index)?;
        let arrival = place.arrival;
        let old = std::mem::replace(place, Waiting { arrival, ..new });
        let identity = place.identity.clone();
        self.arrived.remove(&old.identity);
        self.arrived.insert(identity.clone(), arrival);
        self.seen.open(identity.clone());
        if old.identity == identity || !self.is_current(old.stream) {
            return None;
        }
        self.seen.set(&old.identity, Progress::Acknowledged(now.monotonic));
        Some(old.event.acknowledgement())
    }

    fn wait(&mut self, lane: Lane, waiting: Waiting) {
        let arrival = waiting.arrival;
        self.arrivals += 1;
        self.waiting += 1;
        self.seen.open(waiting.identity.clone());
        self.arrived.insert(waiting.identity.clone(), arrival);
        let work = self.lanes.entry(lane.clone()).or_default();
        work.waiting.push_back(waiting);
        if work.current.is_none() && work.waiting.len() == 1 {
            self.ready.insert(arrival, lane);
        }
    }

    fn start_next(&mut self) -> Option<(Lane, Event)> {
        if !self.has_slot() {
            return None;
        }
        let (_, lane) = self.ready.pop_first()?;
        let waiting = self.lanes.get_mut(&lane)?.waiting.pop_front()?;
        self.waiting -= 1;
        self.arrived.remove(&waiting.identity);
        let event = self.start(lane.clone(), waiting);
        Some((lane, event))
    }

    fn start(&mut self, lane: Lane, waiting: Waiting) -> Event {
        let Waiting { identity, stream, event, .. } = waiting;
        let ack = event.wants_acknowledgement().then(|| event.acknowledgement());
        self.lanes.entry(lane).or_default().current = Some(Current { identity, stream, ack, is_paused: false });
        self.at_work += 1;
        event
    }

    fn has_slot(&self) -> bool {
        self.at_work < self.options.concurrency.max(1)
    }

    /// Remembers what came of an event; its acknowledgement, if it is to be sent.
    fn finish(&mut self, now: Now, current: Current, ack: bool) -> Option<Event> {
        if !self.is_current(current.stream) {
            return None;
        }
        if !ack {
            self.seen.forget(&current.identity);
            return None;
        }
        self.seen.set(&current.identity, Progress::Acknowledged(now.monotonic));
        current.ack
    }

    fn is_current(&self, stream: u64) -> bool {
        self.is_open && stream == self.stream
    }
}

impl Work {
    fn position_of(&self, arrival: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&arrival, |old| old.arrival).ok()
    }

    /// The waiting event that one of this type makes pointless: the older state among the last ones, so that
    /// nothing moves across an operation or a deletion.
    fn position_of_older(&self, kind: &Type) -> Option<usize> {
        let last_states = self.waiting.iter().enumerate().rev().take_while(|(_, old)| is_state(&old.event.kind));
        let mut same_type = last_states.filter(|(_, old)| old.event.kind == *kind);
        same_type.next().map(|(index, _)| index)
    }
}

fn is_state(kind: &Type) -> bool {
    matches!(kind, Type::SpecUpdate | Type::StatusUpdate)
}
