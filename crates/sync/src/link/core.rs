//! What both sides keep about a connection, and what their rules may do with it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use thane_api::event::{Event, TRACE_PARENT, Target, Type};

use super::cause::Causes;
use super::clock;
use super::trouble::{Matter, Troubles};
use super::{Effect, Incoming, Note, Options, Peer, Report, Whose, Why};
use crate::inbox::Inbox;
use crate::lane::Lane;
use crate::object::Key;
use crate::outbox::{Outbox, Outgoing, Pushed};
use crate::store::Store;
use crate::time::Now;
use crate::work::Works;

/// Events of a comparison for each object: what is asked, what is told, and an answer.
const PER_OBJECT: usize = 3;
/// Those that are about no object, or about one that only the peer has.
const BESIDE_OBJECTS: usize = 16;

/// What both sides keep about a connection.
#[derive(Debug)]
pub struct Core {
    /// This side's objects.
    pub store: Store,
    /// The peer, while it is connected.
    pub peer: Option<Peer>,
    /// What goes out.
    pub outbox: Outbox,
    pub(super) options: Options,
    pub(super) inbox: Inbox,
    pub(super) works: Works<Why>,
    /// Events whose object is busy with something else.
    pub(super) waiting: BTreeMap<Key, Box<Incoming>>,
    /// What was refused and is tried again, slowly, until something newer comes.
    pub(super) troubles: Troubles,
    /// What objects here go back to.
    pub(super) causes: Causes,
    /// Events whose turn has come.
    pub(super) ready: VecDeque<(Key, Box<Incoming>)>,
    pub(super) effects: Vec<Effect>,
    /// Repairs asked for while rules were being applied.
    pub(super) repairs: Vec<(Key, Why)>,
    pub(super) held_until: Option<Duration>,
    pub(super) compare_at: Option<Duration>,
    /// How often a comparison that is due was put off.
    pub(super) put_off: u32,
    /// Nothing is known of what the peer has.
    pub(super) fresh: bool,
    /// Whether a comparison is being begun.
    pub(super) is_comparing: bool,
    pub(super) messages: u64,
    pub(super) salt: String,
}

impl Core {
    /// A connection that has not been there yet; `salt` sets its event ids apart from those of earlier processes.
    pub fn new(options: Options, salt: String) -> Self {
        Self {
            store: Store::default(),
            peer: None,
            outbox: Outbox::new(options.outbox.clone(), salt.clone()),
            inbox: Inbox::new(options.inbox.clone()),
            options,
            works: Works::default(),
            waiting: BTreeMap::new(),
            troubles: Troubles::default(),
            causes: Causes::default(),
            ready: VecDeque::new(),
            effects: Vec::new(),
            repairs: Vec::new(),
            held_until: None,
            compare_at: None,
            put_off: 0,
            fresh: true,
            is_comparing: false,
            messages: 0,
            salt,
        }
    }

    /// Bounds and intervals.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// A text that no other event of ours has.
    pub fn unique(&mut self) -> String {
        self.messages += 1;
        format!("{}-{}", self.salt, self.messages)
    }

    /// A W3C trace context for each event, so that its way can be followed through both logs: what was observed of an
    /// object belongs to the trace of the event that made it so, anything else begins one of its own.
    fn trace(&mut self, outgoing: &Outgoing) -> String {
        let id = self.unique();
        let hash = Sha256::digest(id.as_bytes());
        let number = |from: usize| u64::from_be_bytes(std::array::from_fn(|at| hash[from + at]));
        let cause = if outgoing.kind == Type::StatusUpdate { self.causes.of(&outgoing.lane) } else { None };
        match cause {
            Some(trace) => format!("00-{trace}-{:016x}-01", number(16)),
            None => format!("00-{:016x}{:016x}-{:016x}-01", number(0), number(8), number(16)),
        }
    }

    /// The object is now as that event of the peer made it.
    pub(crate) fn goes_back_to(&mut self, key: &Key, event: &Event) {
        if let Some(trace) = event.extensions.get(TRACE_PARENT) {
            self.causes.remember(Lane::of(key), trace);
        }
    }

    /// Sends an event, unless there is no room or the peer will be compared with anyway.
    pub fn push(&mut self, now: Now, mut outgoing: Outgoing) {
        // What waits already must not outlive what was to follow it.
        if self.fresh && self.peer.is_none() && !self.outbox.is_lane_busy(&outgoing.lane) {
            return;
        }
        let trace = self.trace(&outgoing);
        outgoing.extensions.entry(TRACE_PARENT.to_owned()).or_insert(trace);
        let is_comparison = self.is_comparing || outgoing.target == Target::ResourceResync;
        let (target, kind) = (outgoing.target.clone(), outgoing.kind.clone());
        let pushed = if is_comparison {
            self.outbox.push_comparison(now, outgoing, self.comparison_max())
        } else {
            self.outbox.push(now, outgoing)
        };
        if pushed == Pushed::Overflow {
            self.fresh = true;
            let soon = now.monotonic + clock::QUIET_AGAIN;
            self.compare_at = Some(self.compare_at.map_or(soon, |at| at.min(soon)));
            self.note(Note::Overflow { target, kind });
        }
    }

    /// Events that compare and may wait, beside the others: if a comparison did not fit, the next would not either.
    pub fn comparison_max(&self) -> usize {
        self.options.outbox.queue_max.max(self.store.len().saturating_mul(PER_OBJECT) + BESIDE_OBJECTS)
    }

    /// Tells whoever runs this link what cannot be done.
    pub(crate) fn tell(&mut self, whose: Whose, report: Report) {
        self.effects.push(Effect::Troubles(whose, report));
    }

    /// Notes that something happened.
    pub fn note(&mut self, note: Note) {
        self.effects.push(Effect::Note(note));
    }

    pub(super) fn applied(&mut self, event: &Event, wrote: bool, took: Duration) {
        self.note(Note::Applied {
            target: event.target.clone(),
            kind: event.kind.clone(),
            sent_at: event.extensions.get(thane_api::event::SENT_AT).cloned(),
            trace: event.extensions.get(TRACE_PARENT).cloned(),
            wrote,
            took,
        });
    }

    /// Asks for a job about an object, unless one is under way.
    pub fn ask(&mut self, key: &Key, why: Why) {
        if !self.works.has(key) && !self.repairs.iter().any(|(asked, _)| asked == key) {
            self.repairs.push((key.clone(), why));
        }
    }

    /// Whether a job about the object is under way, or about to be: what is remembered of it may be old.
    pub fn is_busy(&self, key: &Key) -> bool {
        self.works.has(key) || self.waiting.contains_key(key) || self.inbox.is_awaited(&Lane::of(key))
    }

    /// Whether the object is not as the peer wants it because that could not be done: what is remembered of it is old.
    pub fn is_behind(&self, key: &Key) -> bool {
        self.troubles.has(key, Matter::Desired)
    }

    /// Everything that could not be made right, and why.
    pub fn troubles(&self) -> impl Iterator<Item = (&Key, &str)> {
        self.troubles.iter()
    }

    /// Those of them that only people can put right.
    pub fn report(&self) -> Report {
        self.troubles.report()
    }

    /// Both sides will compare when they next can.
    pub fn forget_peer_state(&mut self) {
        self.fresh = true;
    }

    /// Both sides will compare when it is quiet.
    pub(crate) fn compare_soon(&mut self, now: Now) {
        self.compare_at = Some(now.monotonic + clock::QUIET_AGAIN);
    }

    /// Whether nothing is known of what the peer has.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Events of the peer that wait for their turn.
    pub fn waiting_inbound(&self) -> usize {
        self.inbox.len() + self.waiting.len()
    }

    /// Whether nothing is on its way in either direction.
    pub fn is_quiet(&self) -> bool {
        self.outbox.is_empty() && self.works.is_empty() && self.waiting.is_empty() && self.ready.is_empty()
    }
}
