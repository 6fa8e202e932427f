//! One side of one connection: what both sides do alike. A `Side` says what its own rules are.

mod cause;
mod clock;
mod core;
mod note;
mod refusals;
mod report;
mod rest;
mod trouble;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use thane_api::event::{Event, Target, Type};

pub use self::core::Core;
pub use note::Note;
pub use report::{Item, Report, TROUBLES, Whose};
use trouble::Matter;
pub use trouble::Trouble;

use crate::failure::Class;
use crate::inbox::{self, Verdict};
use crate::lane::Lane;
use crate::mapping::{self, Plan, Propagation, Reason, Refusal};
use crate::object::{self, Key, Kind, Object};
use crate::outbox::{self, Body, Outgoing};
use crate::resync::PONG;
use crate::store::{Change, Seen};
use crate::time::Now;
use crate::work::{Failure, Outcome, Ticket, Write};

/// Bounds and intervals of one connection.
#[derive(Debug, Clone)]
pub struct Options {
    /// What goes out.
    pub outbox: outbox::Options,
    /// What comes in.
    pub inbox: inbox::Options,
    /// How long what goes out is kept for a peer that is away.
    pub hold: Duration,
    /// How often both sides compare what they have; none for only when they connect.
    pub compare_every: Option<Duration>,
    /// Share of objects that differ, in percent, from which everything is sent again.
    pub drift_percent: u8,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            outbox: outbox::Options::default(),
            inbox: inbox::Options::default(),
            hold: Duration::from_mins(10),
            compare_every: Some(Duration::from_mins(5)),
            drift_percent: 50,
        }
    }
}

/// The other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Peer {
    /// What it can do beyond upstream's protocol; upstream's own has none.
    pub capabilities: BTreeSet<String>,
}

impl Peer {
    /// Whether it can do that.
    pub fn can(&self, capability: &str) -> bool {
        self.capabilities.contains(capability)
    }
}

/// What is to be done outside.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// A write to this side's API; its outcome comes back with the ticket.
    Write(Ticket, Key, Write),
    /// An event for whoever serves live access, as it came; it has been acknowledged.
    Pass(Event),
    /// What cannot be done about this peer's objects, here or at the peer, as it is now.
    Troubles(Whose, Report),
    /// Something to count, and to log where it is worth a line.
    Note(Note),
}

/// Why something is being done about an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Why {
    /// The peer sent this; the body is read already.
    Inbound(Box<Incoming>),
    /// The peer sent this, it was refused, and it is tried again.
    Retry(Box<Incoming>),
    /// It is not as the peer's source of truth has it.
    Repair,
    /// An operation gets its id, or loses one that is over.
    Stamp,
}

impl Why {
    /// The peer's event, if it is one.
    pub fn incoming(&self) -> Option<&Incoming> {
        match self {
            Self::Inbound(incoming) | Self::Retry(incoming) => Some(incoming),
            Self::Repair | Self::Stamp => None,
        }
    }
}

/// An event about an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Incoming {
    /// The event.
    pub event: Event,
    /// Its body.
    pub body: Value,
    /// When its turn came, on the monotonic clock.
    pub begun: Duration,
}

/// How a job about an object ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Settled {
    /// It needed nothing.
    Unchanged,
    /// It was written.
    Written,
    /// It needed nothing, and the sender waits to hear that the object is gone.
    Gone,
    /// It cannot be as things are.
    Refused(Class),
}

/// The rules of one side.
pub trait Side {
    /// Which of this side's objects an event is about; why it may not be otherwise.
    fn key(&self, core: &Core, kind: Kind, event: &Event, body: &Value) -> Result<Key, Refusal>;
    /// What to write, given what is there.
    fn plan(&self, core: &Core, now: Now, key: &Key, why: &Why) -> Plan;
    /// An object changed, not by our own hand.
    fn changed(&mut self, core: &mut Core, now: Now, key: &Key, change: &Change);
    /// A job ended.
    fn settled(&mut self, core: &mut Core, now: Now, key: &Key, why: &Why, settled: &Settled);
    /// A job ended that an event of an earlier stream had begun.
    fn done_late(&mut self, core: &mut Core, now: Now, key: &Key);
    /// What is to be done about the object as it is now, if anything: asked when a job about it has ended.
    fn wants(&self, core: &Core, key: &Key) -> Option<Why>;
    /// A namespace that must be there before that write, and may be made.
    fn namespace_first(&self, key: &Key, write: &Write) -> Option<String>;
    /// A message that compares what both sides have.
    fn compare(&mut self, core: &mut Core, now: Now, event: &Event) -> Result<(), Refusal>;
    /// The peer is there; `fresh` when nothing is known of what it has.
    fn connected(&mut self, core: &mut Core, now: Now, fresh: bool);
    /// Something was lost, or someone asks: both sides are to compare everything now.
    fn compare_now(&mut self, core: &mut Core, now: Now);
    /// It is time to compare.
    fn compare_due(&mut self, core: &mut Core, now: Now);
    /// What this side cannot do has changed: whether whoever should know could be told.
    fn troubled(&mut self, core: &mut Core, now: Now, report: Report) -> bool;
}

/// A message that compares what both sides have; those of one lane keep their order.
pub(crate) fn message(id: String, lane: Lane, kind: Type, data: bytes::Bytes) -> Outgoing {
    Outgoing {
        lane,
        target: Target::ResourceResync,
        kind,
        resource_id: id.clone(),
        event_id: id,
        subject: None,
        body: Body::Json(data),
        extensions: BTreeMap::new(),
        needs: Vec::new(),
    }
}

/// An event about an object, as its sender has it.
pub(crate) fn about(key: &Key, object: &Value, kind: Type, body: Value) -> Outgoing {
    let (name, uid) = (object::name(object), object::uid(object));
    Outgoing {
        lane: Lane::of(key),
        target: key.kind.target(),
        kind,
        resource_id: format!("{name}_{uid}"),
        event_id: format!("{name}_{uid}_{}", object::resource_version(object)),
        subject: Some(format!("{}/{name}", object::namespace(object))),
        body: Body::Object(object::Object::new(body)),
        extensions: BTreeMap::new(),
        needs: Vec::new(),
    }
}

/// One side of one connection.
#[derive(Debug)]
pub struct Link<S> {
    /// What both sides keep.
    pub core: Core,
    /// This side's own rules and memory.
    pub side: S,
}

impl<S: Side> Link<S> {
    /// A link with that side's rules.
    pub fn new(side: S, options: Options, salt: String) -> Self {
        Self { core: Core::new(options, salt), side }
    }

    /// An object as it was when this process started: it is known, nothing happened.
    pub fn initial(&mut self, key: &Key, object: Object) {
        self.watched(key, &Seen::Applied(Object::clone(&object)));
        self.core.store.see(key, Seen::Applied(object));
    }

    fn watched(&mut self, key: &Key, seen: &Seen) {
        if let Some(version) = seen.version() {
            self.core.store.watched(key.kind, version);
        }
    }

    /// Something a watch saw.
    pub fn seen(&mut self, now: Now, key: &Key, seen: Seen) {
        self.watched(key, &seen);
        if let Some(seen) = self.core.works.defer(key, seen) {
            self.take(now, key, seen);
        }
        self.run(now);
    }

    /// Everything of a kind that is there, at that version; what is known besides is gone.
    pub fn relisted(&mut self, now: Now, kind: Kind, list_version: u64, listed: BTreeMap<Key, Object>) {
        self.listed(now, kind, list_version, |key| listed.contains_key(key));
        for (key, object) in listed {
            self.seen(now, &key, Seen::Applied(object));
        }
    }

    /// Everything of a kind was listed, at that version: what is known and not in it is gone.
    pub fn listed(&mut self, now: Now, kind: Kind, list_version: u64, is_there: impl Fn(&Key) -> bool) {
        self.core.store.listed(kind, list_version);
        let all = self.core.store.iter().filter(|(key, _)| key.kind == kind && !is_there(key));
        let gone: Vec<Key> = all.map(|(key, _)| key.clone()).collect();
        for key in gone {
            self.seen(now, &key, Seen::Gone(Some(list_version)));
        }
    }

    fn take(&mut self, now: Now, key: &Key, seen: Seen) {
        if let Some(change) = self.core.store.see(key, seen) {
            self.changed(now, key, &change);
        }
    }

    fn changed(&mut self, now: Now, key: &Key, change: &Change) {
        self.side.changed(&mut self.core, now, key, change);
        if self.core.works.wake(key) {
            self.advance(now, key);
        }
    }

    /// An event from the peer.
    pub fn received(&mut self, now: Now, event: Event) {
        match &event.target {
            Target::Processed => self.acknowledged(now, &event),
            Target::Heartbeat => self.heartbeat(&event),
            Target::Resource | Target::Redis | Target::ContainerLog | Target::Terminal => self.pass(now, event),
            _ => {
                let (key, body) = match Kind::of_target(&event.target) {
                    Some(kind) => match self.read(kind, &event) {
                        Ok((key, body)) => {
                            self.core.troubles.let_in(|| mapping::key_of(kind, &body).ok());
                            (Some(key), body)
                        }
                        Err(refusal) => {
                            self.turn_away(&event, &refusal);
                            self.remember_turned(kind, &event, &refusal);
                            return self.run(now);
                        }
                    },
                    None => (None, Value::Null),
                };
                let lane = key.as_ref().map_or_else(|| message_lane(&event), Lane::of);
                self.admit(now, &lane, event, key, body);
            }
        }
        self.run(now);
    }

    fn read(&self, kind: Kind, event: &Event) -> Result<(Key, Value), Refusal> {
        let body: Value = serde_json::from_slice(&event.data).map_err(|error| unreadable(&error.to_string()))?;
        let key = self.side.key(&self.core, kind, event, &body)?;
        Ok((key, body))
    }

    fn admit(&mut self, now: Now, lane: &Lane, event: Event, key: Option<Key>, body: Value) {
        match self.core.inbox.receive(now, lane.clone(), event) {
            Verdict::Start(event) => match key {
                Some(key) => self.begin_inbound(now, &key, Box::new(Incoming { event, body, begun: now.monotonic })),
                None => self.handle(now, lane, &event),
            },
            Verdict::Acknowledge(ack) => self.core.outbox.push_untracked(ack),
            Verdict::Waits { superseded } => {
                if let Some(ack) = superseded {
                    self.core.outbox.push_untracked(ack);
                }
                if let Some(key) = key {
                    self.make_way(now, &key);
                }
            }
            Verdict::Repeat | Verdict::Full => {}
        }
    }

    fn acknowledged(&mut self, now: Now, event: &Event) {
        if let Some(done) = self.core.outbox.acknowledge(now, &event.resource_id, &event.event_id) {
            self.core.note(Note::Acknowledged {
                target: done.target,
                kind: done.kind,
                trace: done.trace,
                waited: done.waited,
                attempts: done.attempts,
            });
        }
    }

    fn heartbeat(&mut self, event: &Event) {
        let answers = self.core.peer.as_ref().is_some_and(|peer| peer.can(PONG));
        if event.kind == Type::Ping && answers {
            let mut pong = event.acknowledgement();
            (pong.target, pong.kind) = (Target::Heartbeat, Type::Pong);
            self.core.outbox.push_untracked(pong);
        }
    }

    /// An event that is none of ours: it waits for nothing here, and nothing here waits for it.
    fn pass(&mut self, now: Now, event: Event) {
        let (is_new, ack) = self.core.inbox.pass(now, &event);
        if let Some(ack) = ack {
            self.core.outbox.push_untracked(ack);
        }
        if is_new {
            self.core.effects.push(Effect::Pass(event));
        }
    }

    /// An event that is not about an object: done at once.
    fn handle(&mut self, now: Now, lane: &Lane, event: &Event) {
        self.handle_once(now, event);
        self.release(now, lane, None);
    }

    fn handle_once(&mut self, now: Now, event: &Event) {
        let handled = match &event.target {
            Target::ResourceResync => self.side.compare(&mut self.core, now, event),
            Target::ClusterCacheInfo => self.cluster_info(event),
            other => Err(Refusal::new(Reason::Invalid, format!("nothing is known about {}", other.as_str()))),
        };
        if let Err(refusal) = handled {
            self.note_refusal(event, &refusal, Duration::ZERO);
        }
    }

    fn cluster_info(&mut self, event: &Event) -> Result<(), Refusal> {
        let body: Value = serde_json::from_slice(&event.data).map_err(|error| unreadable(&error.to_string()))?;
        let figure = |name: &str| body[name].as_i64().unwrap_or_default();
        self.core.note(Note::ClusterInfo {
            applications: figure("applicationsCount"),
            apis: figure("apisCount"),
            resources: figure("resourcesCount"),
        });
        Ok(())
    }

    /// An event of that lane is done: it is acknowledged and what waited behind it begins.
    fn release(&mut self, now: Now, lane: &Lane, key: Option<&Key>) {
        let next = self.done(now, lane, key);
        self.start(now, next);
    }

    fn done(&mut self, now: Now, lane: &Lane, key: Option<&Key>) -> Option<(Lane, Event)> {
        let done = self.core.inbox.done(now, lane, true);
        if let Some(key) = key.filter(|_| done.is_late) {
            self.side.done_late(&mut self.core, now, key);
        }
        if let Some(ack) = done.ack {
            self.core.outbox.push_untracked(ack);
        }
        done.next
    }

    /// Starts what may start now; what is over at once lets the next start.
    fn start(&mut self, now: Now, mut next: Option<(Lane, Event)>) {
        while let Some((lane, event)) = next {
            match Kind::of_target(&event.target).map(|kind| self.read(kind, &event)) {
                None => self.handle_once(now, &event),
                // It was readable when it came; whose it is may have changed since.
                Some(Ok((key, body))) if Lane::of(&key) == lane => {
                    self.core.ready.push_back((key, Box::new(Incoming { event, body, begun: now.monotonic })));
                    return;
                }
                Some(Ok(_)) => {
                    let refusal = Refusal::new(Reason::NotYours, "it has moved elsewhere");
                    self.note_refusal(&event, &refusal, Duration::ZERO);
                }
                Some(Err(refusal)) => self.note_refusal(&event, &refusal, Duration::ZERO),
            }
            next = self.done(now, &lane, None);
        }
    }

    fn begin_inbound(&mut self, now: Now, key: &Key, incoming: Box<Incoming>) {
        self.core.troubles.supersede(key, &incoming.event.kind);
        if self.core.works.has(key) {
            self.core.waiting.insert(key.clone(), incoming);
            return self.make_way(now, key);
        }
        self.core.works.begin(key.clone(), Why::Inbound(incoming));
        self.advance(now, key);
    }

    /// Begins what became possible: events that waited, and repairs. One may lead to the next.
    fn run(&mut self, now: Now) {
        loop {
            if let Some((key, incoming)) = self.core.ready.pop_front() {
                self.begin_inbound(now, &key, incoming);
            } else if let Some((key, why)) = self.core.repairs.pop() {
                if !self.core.is_busy(&key) {
                    self.core.works.begin(key.clone(), why);
                    self.advance(now, &key);
                }
            } else {
                return self.tell_troubles(now);
            }
        }
    }

    /// Plans a job on what is there now.
    fn advance(&mut self, now: Now, key: &Key) {
        let Some(why) = self.core.works.why(key) else { return };
        if let Why::Inbound(_) = why {
            self.core.inbox.resume(&Lane::of(key));
        }
        let (write, continues) = match self.side.plan(&self.core, now, key, why) {
            Plan::Nothing => return self.finish(now, key, &Settled::Unchanged),
            Plan::ConfirmGone => return self.finish(now, key, &Settled::Gone),
            Plan::Refuse(refusal) => return self.refused(now, key, &refusal),
            Plan::Create(object) => (Write::Create(object), false),
            Plan::Replace(object) => (Write::Replace(object), false),
            Plan::ReplaceThenDelete(object, _) => (Write::Replace(object), true),
            Plan::Delete(which, propagation) => (Write::Delete { uid: which.uid, propagation }, false),
            Plan::Recreate { delete, .. } => {
                (Write::Delete { uid: delete.uid, propagation: Propagation::Background }, true)
            }
        };
        match self.core.works.write(now.monotonic, key, &write, continues) {
            Some(ticket) => self.core.effects.push(Effect::Write(ticket, key.clone(), write)),
            None => {
                let message = "it does not come to rest".to_owned();
                self.core.note(Note::Failed { key: key.clone(), class: Class::Temporary, message });
                self.rest(now, key);
            }
        }
    }

    /// A write has ended.
    pub fn written(&mut self, now: Now, ticket: Ticket, outcome: Outcome) {
        let Some(ended) = self.core.works.ended(ticket) else { return };
        let key = ended.key;
        match outcome {
            // A deletion takes along what others had changed before.
            Outcome::Written(object) if ended.is_delete => {
                self.take(now, &key, Seen::Applied(object));
                self.after_write(now, &key, ended.continues);
            }
            // With its last finalizer it was gone.
            Outcome::Written(object) if object::is_deleting(&object) && !object::is_held(&object) => {
                self.core.store.see(&key, Seen::Applied(object));
                self.core.store.end(&key);
                self.after_write(now, &key, ended.continues);
            }
            Outcome::Written(object) => {
                self.core.store.see(&key, Seen::Applied(object));
                self.after_write(now, &key, ended.continues);
            }
            Outcome::Gone => {
                self.core.store.end(&key);
                self.after_write(now, &key, ended.continues);
            }
            // Somebody else has written: that is news, even if a watch tells it once more.
            Outcome::Stale(current) => {
                let change = match current {
                    // Nothing is newer: it was read after the write was refused.
                    Some(object) => self.core.store.look(&key, object),
                    None => self.core.store.end(&key),
                };
                if let Some(change) = change {
                    self.changed(now, &key, &change);
                }
                self.advance(now, &key);
            }
            Outcome::Failed(failure) => self.write_failed(now, &key, failure),
        }
        if let Some(seen) = ended.seen {
            self.seen(now, &key, seen);
        }
        self.run(now);
    }

    fn after_write(&mut self, now: Now, key: &Key, continues: bool) {
        if continues { self.advance(now, key) } else { self.finish(now, key, &Settled::Written) }
    }

    fn write_failed(&mut self, now: Now, key: &Key, failure: Failure) {
        let Failure { class, message } = failure;
        self.core.note(Note::Failed { key: key.clone(), class, message: message.clone() });
        match class {
            Class::Temporary => {
                self.core.works.failed(now.monotonic, key);
                self.rest(now, key);
            }
            Class::Permanent | Class::Recoverable => self.give_up_on(now, key, class, message),
        }
    }

    /// A plan says that it cannot be: what passes is waited for, anything else is given up for now.
    fn refused(&mut self, now: Now, key: &Key, refusal: &Refusal) {
        let class = refusal.class();
        if class == Class::Temporary && !refusal.reason.is_worth_overtaking() {
            if self.core.store.get(key).is_some_and(|object| object::is_deleting(object)) {
                self.core.works.linger(key);
            } else {
                self.core.works.failed(now.monotonic, key);
            }
            return self.rest(now, key);
        }
        if let Some(incoming) = self.core.works.why(key).and_then(Why::incoming) {
            let (event, took) = (incoming.event.clone(), now.monotonic.saturating_sub(incoming.begun));
            self.note_refusal(&event, refusal, took);
        }
        if refusal.reason.is_worth_a_retry() {
            self.give_up_on(now, key, class, refusal.message.clone());
        } else {
            if let Some(why) = self.core.works.why(key) {
                self.core.troubles.remove(key, Matter::of(why));
            }
            self.finish(now, key, &Settled::Refused(class));
        }
    }

    /// Gives up on a job for now: the peer is told that it was processed, and it is tried again slowly.
    fn give_up_on(&mut self, now: Now, key: &Key, class: Class, message: String) {
        if let Some(why) = self.core.works.why(key).cloned() {
            self.core.troubles.add(now, key, why, class, message);
        }
        self.finish(now, key, &Settled::Refused(class));
    }

    fn finish(&mut self, now: Now, key: &Key, settled: &Settled) {
        let Some(why) = self.core.works.finish(key) else { return };
        let is_refused = matches!(settled, Settled::Refused(_));
        if !is_refused {
            self.core.troubles.remove(key, Matter::of(&why));
        }
        self.side.settled(&mut self.core, now, key, &why, settled);
        if let Some(incoming) = why.incoming().filter(|_| !is_refused) {
            let took = now.monotonic.saturating_sub(incoming.begun);
            self.core.applied(&incoming.event, *settled == Settled::Written, took);
        }
        if matches!((&why, settled), (Why::Retry(_), Settled::Written)) {
            // It is an old wish by now; its sender may have forgotten it.
            self.side.done_late(&mut self.core, now, key);
        }
        if let Why::Inbound(_) = &why {
            self.release(now, &Lane::of(key), Some(key));
        }
        if let Some(incoming) = self.core.waiting.remove(key) {
            self.core.ready.push_front((key.clone(), incoming));
        } else if (!is_refused || why.incoming().is_some())
            && let Some(next) = self.side.wants(&self.core, key)
        {
            self.core.ask(key, next);
        }
    }
}

fn unreadable(error: &str) -> Refusal {
    Refusal::new(Reason::Invalid, format!("its body: {error}"))
}

/// Messages wait for none but others of the same id.
fn message_lane(event: &Event) -> Lane {
    Lane::new(format!("_/{}", event.resource_id))
}
