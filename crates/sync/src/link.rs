//! One side of one connection: what both sides do alike. A `Side` says what its own rules are.

mod clock;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use thane_api::event::{Event, Target, Type};

use crate::failure::{Backoff, Class};
use crate::inbox::{self, Inbox, Verdict};
use crate::mapping::{Plan, Refusal};
use crate::object::{self, Key, Kind};
use crate::outbox::{self, Lane, Outbox, Outgoing, Pushed};
use crate::resync::PONG;
use crate::store::{Change, Seen, Store};
use crate::time::Now;
use crate::work::{Failure, Outcome, Ticket, Works, Write};

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
            hold: Duration::from_secs(10 * 60),
            compare_every: Some(Duration::from_secs(5 * 60)),
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
    /// A namespace that must be there before what follows is written.
    Namespace(String),
    /// An event for whoever serves live access.
    Deliver(Event),
    /// Something to count, and to log where it is worth a line.
    Note(Note),
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// An event had its effect, or needed none.
    Applied { target: Target, kind: Type, sent_at: Option<String>, wrote: bool },
    /// An event cannot have its effect as things are.
    Refused { target: Target, kind: Type, class: Class, message: String },
    /// A write failed and is tried again.
    Failed { key: Key, class: Class, message: String },
    /// The peer has processed an event.
    Acknowledged { target: Target, kind: Type, waited: Duration, attempts: u32 },
    /// Something of the peer's was changed here and is put back.
    Repaired { key: Key },
    /// There was no room for an event; both sides will compare.
    Overflow,
    /// The peer was away too long; what waited for it is gone and both sides will compare.
    GaveUp { events: usize },
    /// Both sides compare what they have.
    Compare { reason: &'static str },
    /// They differed in that many objects of so many.
    Drift { differing: usize, of: usize },
    /// A figure about the agent's cluster.
    ClusterInfo { applications: i64, apis: i64, resources: i64 },
}

/// Why something is being done about an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Why {
    /// The peer sent this; the body is read already.
    Inbound(Box<Incoming>),
    /// It is not as the peer's source of truth has it.
    Repair,
    /// An operation gets its id, or loses one that is over.
    Stamp(String),
}

/// An event about an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Incoming {
    /// The event.
    pub event: Event,
    /// Its body.
    pub body: Value,
}

/// How a job about an object ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Settled {
    /// It needed nothing.
    Unchanged,
    /// It was written.
    Written,
    /// It cannot be as things are.
    Refused,
}

/// The rules of one side.
pub trait Side {
    /// Which of this side's objects an event is about; why it may not be otherwise.
    fn key(&self, core: &Core, kind: Kind, event: &Event, body: &Value) -> Result<Key, Refusal>;
    /// What to write, given what is there.
    fn plan(&self, core: &Core, key: &Key, why: &Why) -> Plan;
    /// An object changed, not by our own hand.
    fn changed(&mut self, core: &mut Core, now: Now, key: &Key, change: &Change);
    /// A job ended.
    fn settled(&mut self, core: &mut Core, now: Now, key: &Key, why: &Why, settled: &Settled);
    /// Whether the object is as it should be; if not, a repair begins.
    fn is_right(&self, core: &Core, key: &Key) -> bool;
    /// A message that compares what both sides have.
    fn compare(&mut self, core: &mut Core, now: Now, event: &Event) -> Result<(), Refusal>;
    /// The peer is there; `fresh` when nothing is known of what it has.
    fn connected(&mut self, core: &mut Core, now: Now, fresh: bool);
    /// It is time to compare.
    fn compare_due(&mut self, core: &mut Core, now: Now);
}

/// What both sides keep about a connection.
#[derive(Debug)]
pub struct Core {
    /// This side's objects.
    pub store: Store,
    /// The peer, while it is connected.
    pub peer: Option<Peer>,
    /// What goes out.
    pub outbox: Outbox,
    options: Options,
    inbox: Inbox,
    works: Works<Why>,
    /// Events whose object is busy with something else.
    waiting: BTreeMap<Key, Box<Incoming>>,
    /// Events that were refused and are tried again, slowly, until something newer comes.
    troubles: BTreeMap<Key, Trouble>,
    effects: Vec<Effect>,
    /// Repairs asked for while rules were being applied.
    repairs: Vec<(Key, Why)>,
    held_until: Option<Duration>,
    compare_at: Option<Duration>,
    /// Nothing is known of what the peer has.
    fresh: bool,
    messages: u64,
    salt: String,
}

/// An object that could not be made right.
#[derive(Debug, Clone, PartialEq)]
pub struct Trouble {
    /// What the matter is.
    pub message: String,
    incoming: Option<Box<Incoming>>,
    attempts: u32,
    retry_at: Duration,
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
            troubles: BTreeMap::new(),
            effects: Vec::new(),
            repairs: Vec::new(),
            held_until: None,
            compare_at: None,
            fresh: true,
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

    /// Sends an event, unless there is no room or the peer will be compared with anyway.
    pub fn push(&mut self, now: Now, outgoing: Outgoing) {
        if self.fresh && self.peer.is_none() {
            return;
        }
        if self.outbox.push(now, outgoing) == Pushed::Overflow {
            self.fresh = true;
            self.compare_at = Some(now.monotonic);
            self.note(Note::Overflow);
        }
    }

    /// Notes that something happened.
    pub fn note(&mut self, note: Note) {
        self.effects.push(Effect::Note(note));
    }

    /// Asks for a namespace.
    pub fn namespace(&mut self, name: &str) {
        self.effects.push(Effect::Namespace(name.to_owned()));
    }

    /// Asks for a job about an object, unless one is under way.
    pub fn ask(&mut self, key: &Key, why: Why) {
        if !self.works.has(key) && !self.repairs.iter().any(|(asked, _)| asked == key) {
            self.repairs.push((key.clone(), why));
        }
    }

    /// Whether a job about the object is under way.
    pub fn is_busy(&self, key: &Key) -> bool {
        self.works.has(key) || self.waiting.contains_key(key)
    }

    /// Everything that could not be made right, and why.
    pub fn troubles(&self) -> impl Iterator<Item = (&Key, &str)> {
        self.troubles.iter().map(|(key, trouble)| (key, trouble.message.as_str()))
    }

    /// Both sides will compare when they next can.
    pub fn forget_peer_state(&mut self) {
        self.fresh = true;
    }

    /// Whether nothing is on its way in either direction.
    pub fn is_quiet(&self) -> bool {
        self.outbox.is_empty() && self.works.is_empty() && self.waiting.is_empty()
    }
}

/// The lane of an object.
pub fn lane(key: &Key) -> Lane {
    Lane::new(format!("{}/{}/{}", key.kind.name(), key.namespace, key.name))
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
    pub fn initial(&mut self, key: &Key, object: object::Object) {
        self.core.store.see(key, Seen::Applied(object));
    }

    /// Something a watch saw.
    pub fn seen(&mut self, now: Now, key: &Key, seen: Seen) {
        if let Some(seen) = self.core.works.defer(key, seen) {
            self.take(now, key, seen);
        }
        self.begin_repairs(now);
    }

    fn take(&mut self, now: Now, key: &Key, seen: Seen) {
        let Some(change) = self.core.store.see(key, seen) else { return };
        self.side.changed(&mut self.core, now, key, &change);
        if change.new.is_none() && self.core.works.is_lingering(key) {
            self.advance(now, key);
        }
    }

    /// An event from the peer.
    pub fn received(&mut self, now: Now, event: Event) {
        match &event.target {
            Target::Processed => self.acknowledged(now, &event),
            Target::Heartbeat => self.heartbeat(now, &event),
            _ => {
                let (key, body) = match Kind::of_target(&event.target) {
                    Some(kind) => match self.read(kind, &event) {
                        Ok((key, body)) => (Some(key), body),
                        Err(refusal) => return self.turn_away(now, event, &refusal),
                    },
                    None => (None, Value::Null),
                };
                let lane = key.as_ref().map_or_else(|| Lane::new(format!("_/{}", event.resource_id)), lane);
                self.admit(now, lane, event, key, body);
            }
        }
        self.begin_repairs(now);
    }

    fn read(&self, kind: Kind, event: &Event) -> Result<(Key, Value), Refusal> {
        let body: Value =
            serde_json::from_slice(&event.data).map_err(|error| Refusal::permanent(format!("its body: {error}")))?;
        let key = self.side.key(&self.core, kind, event, &body)?;
        Ok((key, body))
    }

    fn admit(&mut self, now: Now, lane: Lane, event: Event, key: Option<Key>, body: Value) {
        let received = self.core.inbox.receive(now, lane.clone(), event);
        for superseded in received.superseded {
            self.core.outbox.reply(now, superseded.acknowledgement());
        }
        match received.verdict {
            Verdict::Start(event) => match key {
                Some(key) => self.begin_inbound(now, key, Box::new(Incoming { event, body })),
                None => self.handle(now, &lane, &event),
            },
            Verdict::Acknowledge(ack) => self.core.outbox.reply(now, ack),
            Verdict::Waits | Verdict::Repeat => {}
        }
    }

    /// An event that is refused before it has a place: counted, and acknowledged so that it does not come again.
    fn turn_away(&mut self, now: Now, event: Event, refusal: &Refusal) {
        self.core.outbox.reply(now, event.acknowledgement());
        self.core.note(Note::Refused {
            target: event.target,
            kind: event.kind,
            class: refusal.class,
            message: refusal.message.clone(),
        });
    }

    fn acknowledged(&mut self, now: Now, event: &Event) {
        if let Some(done) = self.core.outbox.acknowledge(now, &event.resource_id, &event.event_id) {
            self.core.note(Note::Acknowledged {
                target: done.target,
                kind: done.kind,
                waited: done.waited,
                attempts: done.attempts,
            });
        }
    }

    fn heartbeat(&mut self, now: Now, event: &Event) {
        let answers = self.core.peer.as_ref().is_some_and(|peer| peer.can(PONG));
        if event.kind == Type::Ping && answers {
            let mut pong = event.acknowledgement();
            (pong.target, pong.kind) = (Target::Heartbeat, Type::Pong);
            self.core.outbox.reply(now, pong);
        }
    }

    /// An event that is not about an object: done at once.
    fn handle(&mut self, now: Now, lane: &Lane, event: &Event) {
        let handled = match &event.target {
            Target::ResourceResync => self.side.compare(&mut self.core, now, event),
            Target::ClusterCacheInfo => self.cluster_info(event),
            Target::Resource | Target::Redis | Target::ContainerLog | Target::Terminal => {
                self.core.effects.push(Effect::Deliver(event.clone()));
                Ok(())
            }
            other => Err(Refusal::permanent(format!("nothing is known about {other:?}"))),
        };
        if let Err(refusal) = handled {
            let (target, kind) = (event.target.clone(), event.kind.clone());
            self.core.note(Note::Refused { target, kind, class: refusal.class, message: refusal.message });
        }
        self.release(now, lane);
    }

    fn cluster_info(&mut self, event: &Event) -> Result<(), Refusal> {
        let body: Value =
            serde_json::from_slice(&event.data).map_err(|error| Refusal::permanent(format!("its body: {error}")))?;
        let figure = |name: &str| body[name].as_i64().unwrap_or_default();
        self.core.note(Note::ClusterInfo {
            applications: figure("applicationsCount"),
            apis: figure("apisCount"),
            resources: figure("resourcesCount"),
        });
        Ok(())
    }

    /// An event of that lane is done: it is acknowledged and what waited behind it begins.
    fn release(&mut self, now: Now, lane: &Lane) {
        let done = self.core.inbox.done(now, lane, true);
        if let Some(ack) = done.ack {
            self.core.outbox.reply(now, ack);
        }
        for event in done.next {
            match Kind::of_target(&event.target) {
                None => {
                    let lane = Lane::new(format!("_/{}", event.resource_id));
                    self.handle(now, &lane, &event);
                }
                // It was readable when it came; whose it is may have changed since.
                Some(kind) => match self.read(kind, &event) {
                    Ok((key, body)) => self.begin_inbound(now, key, Box::new(Incoming { event, body })),
                    Err(refusal) => self.turn_away(now, event, &refusal),
                },
            }
        }
    }

    fn begin_inbound(&mut self, now: Now, key: Key, incoming: Box<Incoming>) {
        self.core.troubles.remove(&key);
        if self.core.works.has(&key) {
            self.core.waiting.insert(key, incoming);
            return;
        }
        self.core.works.begin(key.clone(), Why::Inbound(incoming));
        self.advance(now, &key);
    }

    fn begin_repairs(&mut self, now: Now) {
        // A repair may ask for another one; each object has at most one job, so this ends.
        while let Some((key, why)) = self.core.repairs.pop() {
            if !self.core.works.has(&key) {
                self.core.works.begin(key.clone(), why);
                self.advance(now, &key);
            }
        }
    }

    /// Plans a job on what is there now.
    fn advance(&mut self, now: Now, key: &Key) {
        let Some(why) = self.core.works.why(key) else { return };
        let plan = self.side.plan(&self.core, key, why);
        let write = match plan {
            Plan::Nothing => return self.finish(now, key, &Settled::Unchanged),
            Plan::Refuse(refusal) => return self.refused(now, key, refusal),
            Plan::Create(object) => Write::Create(object),
            Plan::Replace(object) => Write::Replace(object),
            Plan::Delete { uid, resource_version, propagation } => {
                Write::Delete { uid, resource_version, propagation }
            }
            Plan::Recreate { uid, propagation } => {
                if self.core.store.get(key).is_some_and(|object| object::is_deleting(object)) {
                    return self.core.works.linger(key);
                }
                self.core.works.continues(key);
                Write::Delete { uid, resource_version: None, propagation }
            }
        };
        let ticket = self.core.works.write(key);
        self.core.effects.push(Effect::Write(ticket, key.clone(), write));
    }

    /// A write has ended.
    pub fn written(&mut self, now: Now, ticket: Ticket, outcome: Outcome) {
        let Some(ended) = self.core.works.ended(ticket) else { return };
        let key = ended.key;
        match outcome {
            Outcome::Written(object) => {
                self.core.store.see(&key, Seen::Applied(object));
                self.after_write(now, &key, ended.continues);
            }
            Outcome::Gone => {
                self.core.store.see(&key, Seen::Gone(None));
                self.after_write(now, &key, ended.continues);
            }
            Outcome::Stale(current) => {
                self.core.store.see(&key, current.map_or(Seen::Gone(None), Seen::Applied));
                if self.core.works.stale(now.monotonic, &key) {
                    self.advance(now, &key);
                }
            }
            Outcome::Failed(failure) => self.write_failed(now, &key, failure),
        }
        if let Some(seen) = ended.seen {
            self.seen(now, &key, seen);
        }
        self.begin_repairs(now);
    }

    fn after_write(&mut self, now: Now, key: &Key, continues: bool) {
        if continues { self.advance(now, key) } else { self.finish(now, key, &Settled::Written) }
    }

    fn write_failed(&mut self, now: Now, key: &Key, failure: Failure) {
        let Failure { class, message } = failure;
        self.core.note(Note::Failed { key: key.clone(), class, message: message.clone() });
        match class {
            Class::Temporary => {
                self.core.works.failed(now.monotonic, key, class);
            }
            Class::Permanent => self.refused(now, key, Refusal { class, message }),
            Class::Recoverable => {
                self.core.fresh = true;
                self.refused(now, key, Refusal { class, message });
            }
        }
    }

    /// Gives up on a job for now: the peer is told that it was processed, and it is tried again slowly.
    fn refused(&mut self, now: Now, key: &Key, refusal: Refusal) {
        let Some(why) = self.core.works.why(key).cloned() else { return };
        let attempts = self.core.troubles.get(key).map_or(0, |trouble| trouble.attempts);
        let delay = Backoff::of(Class::Permanent).delay(attempts, attempts.into());
        let incoming = match why {
            Why::Inbound(incoming) => {
                let (target, kind) = (incoming.event.target.clone(), incoming.event.kind.clone());
                let message = refusal.message.clone();
                self.core.note(Note::Refused { target, kind, class: refusal.class, message });
                Some(incoming)
            }
            Why::Repair | Why::Stamp(_) => None,
        };
        let retry_at = now.monotonic + delay;
        let trouble = Trouble { message: refusal.message, incoming, attempts: attempts + 1, retry_at };
        self.finish(now, key, &Settled::Refused);
        if !self.core.is_busy(key) {
            self.core.troubles.insert(key.clone(), trouble);
        }
    }

    fn finish(&mut self, now: Now, key: &Key, settled: &Settled) {
        let Some(why) = self.core.works.finish(key) else { return };
        if *settled != Settled::Refused {
            self.core.troubles.remove(key);
        }
        self.side.settled(&mut self.core, now, key, &why, settled);
        if let Why::Inbound(incoming) = &why {
            if *settled != Settled::Refused {
                let event = &incoming.event;
                self.core.note(Note::Applied {
                    target: event.target.clone(),
                    kind: event.kind.clone(),
                    sent_at: event.extensions.get(thane_api::event::SENT_AT).cloned(),
                    wrote: *settled == Settled::Written,
                });
            }
            self.release(now, &lane(key));
        }
        if let Some(incoming) = self.core.waiting.remove(key) {
            self.begin_inbound(now, key.clone(), incoming);
        } else if *settled != Settled::Refused && !self.core.works.has(key) && !self.side.is_right(&self.core, key) {
            self.core.ask(key, Why::Repair);
        }
    }
}
