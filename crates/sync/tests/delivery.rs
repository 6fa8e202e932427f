//! An outbox and an inbox with a bad connection between them, against a model of what has to come out of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use proptest::prelude::*;
use thane_api::event::{Event, Target, Type};
use thane_sync::inbox::{self, Inbox, Verdict};
use thane_sync::outbox::{self, Body, Outbox, Outgoing, Pushed, Rate};
use thane_sync::{Lane, Now};

const LANES: usize = 5;

#[derive(Debug, Clone)]
enum Op {
    Push {
        lane: usize,
        kind: Type,
        needs: bool,
    },
    /// The sender writes what is due.
    Send {
        room: usize,
    },
    /// The next event on the wire is lost, read, or read twice.
    Read {
        times: usize,
    },
    /// A lane finishes what it is at work on.
    Finish {
        pick: usize,
        success: bool,
    },
    /// One of the acknowledgements on their way, not necessarily the first, is lost, read, or read twice.
    Acknowledge {
        pick: usize,
        times: usize,
    },
    /// An acknowledgement that nothing asked for, or of something long ago.
    ForeignAcknowledge {
        pick: usize,
    },
    Pass {
        millis: u64,
    },
    Disconnect,
    Connect,
}

fn op() -> impl Strategy<Value = Op> {
    use Type::{Create, Delete, Error, SetOperation, SpecUpdate, StatusUpdate, TerminateOperation};
    let kind = prop_oneof![
        2 => Just(Create),
        4 => Just(SpecUpdate),
        3 => Just(StatusUpdate),
        3 => Just(SetOperation),
        1 => Just(TerminateOperation),
        1 => Just(Error),
        2 => Just(Delete),
    ];
    let times = || prop_oneof![1 => Just(0_usize), 6 => Just(1), 1 => Just(2)];
    prop_oneof![
        8 => (0..LANES, kind, any::<bool>()).prop_map(|(lane, kind, needs)| Op::Push { lane, kind, needs }),
        6 => prop_oneof![0_usize..4, Just(usize::MAX)].prop_map(|room| Op::Send { room }),
        6 => times().prop_map(|times| Op::Read { times }),
        5 => (any::<usize>(), prop::bool::weighted(0.8)).prop_map(|(pick, success)| Op::Finish { pick, success }),
        5 => (any::<usize>(), times()).prop_map(|(pick, times)| Op::Acknowledge { pick, times }),
        1 => any::<usize>().prop_map(|pick| Op::ForeignAcknowledge { pick }),
        3 => prop_oneof![0_u64..200, 0_u64..20_000, 0_u64..3_600_000].prop_map(|millis| Op::Pass { millis }),
        1 => Just(Op::Disconnect),
        2 => Just(Op::Connect),
    ]
}

fn settings() -> impl Strategy<Value = (outbox::Options, inbox::Options)> {
    let rate = prop::option::of((1_u32..20, 1_u32..4).prop_map(|(per_second, burst)| Rate { per_second, burst }));
    let outbox = (1_usize..12, 1_usize..6, rate).prop_map(|(queue_max, window, rate)| outbox::Options {
        queue_max,
        window,
        rate,
        ..outbox::Options::default()
    });
    let inbox = (1_usize..6, 1_usize..4).prop_map(|(queue_max, concurrency)| inbox::Options {
        queue_max,
        concurrency,
        ..inbox::Options::default()
    });
    (outbox, inbox)
}

/// What one lane comes to: the newest of each state, and everything else in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Outcome {
    desired: Option<u32>,
    observed: Option<u32>,
    others: Vec<u32>,
}

impl Outcome {
    fn apply(&mut self, kind: &Type, version: u32) {
        match kind {
            Type::Create | Type::SpecUpdate => self.desired = Some(version),
            Type::StatusUpdate => self.observed = Some(version),
            Type::Delete => (self.desired, self.observed) = (None, None),
            _ if self.others.contains(&version) => {}
            _ => self.others.push(version),
        }
    }
}

struct World {
    at: Duration,
    limits: (outbox::Options, inbox::Options),
    outbox: Outbox,
    inbox: Inbox,
    is_up: bool,
    wire: VecDeque<Event>,
    acks: Vec<Event>,
    at_work: BTreeMap<Lane, Event>,
    versions: u32,
    /// How often each object was created.
    created: [u32; LANES],
    expected: BTreeMap<Lane, Outcome>,
    reached: BTreeMap<Lane, Outcome>,
    /// What has to be in flight.
    flying: BTreeMap<Lane, Event>,
    /// Everything ever sent.
    sent: Vec<Event>,
    /// The number of the last event that was started, by lane.
    started: BTreeMap<Lane, u64>,
    /// The last version of each type that was sent, by lane.
    sent_versions: BTreeMap<(Lane, Type), u32>,
    trace: Vec<String>,
}

fn lane(index: usize) -> Lane {
    Lane::new(index.to_string())
}

fn lane_of(event: &Event) -> Lane {
    Lane::new(event.resource_id.split('.').next().expect("a split has a first part"))
}

fn version(event: &Event) -> u32 {
    serde_json::from_slice(&event.data).expect("the payload is a number")
}

/// The number that the outbox gave it when it was first sent.
fn serial(event: &Event) -> u64 {
    event.event_id.rsplit('-').next().and_then(|number| number.parse().ok()).expect("the id ends with a number")
}

impl World {
    fn new(limits: (outbox::Options, inbox::Options)) -> Self {
        Self {
            at: Duration::from_secs(1),
            outbox: Outbox::new(limits.0.clone(), "s".to_owned()),
            inbox: Inbox::new(limits.1.clone()),
            limits,
            is_up: false,
            wire: VecDeque::new(),
            acks: Vec::new(),
            at_work: BTreeMap::new(),
            versions: 0,
            created: [0; LANES],
            expected: BTreeMap::new(),
            reached: BTreeMap::new(),
            flying: BTreeMap::new(),
            sent: Vec::new(),
            started: BTreeMap::new(),
            sent_versions: BTreeMap::new(),
            trace: Vec::new(),
        }
    }

    fn now(&self) -> Now {
        Now { monotonic: self.at, wall: Timestamp::UNIX_EPOCH + self.at }
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Push { lane, kind, needs } => self.push(lane, &kind, needs),
            Op::Send { room } => self.send(room),
            Op::Read { times } => {
                if let Some(event) = self.wire.pop_front() {
                    (0..times).for_each(|_| self.read(event.clone()));
                }
            }
            Op::Finish { pick, success } => {
                if let Some(lane) = self.at_work.keys().nth(pick % self.at_work.len().max(1)).cloned() {
                    self.finish(&lane, success);
                }
            }
            Op::Acknowledge { pick, times } => {
                if !self.acks.is_empty() {
                    let ack = self.acks.remove(pick % self.acks.len());
                    (0..times).for_each(|_| self.acknowledge(&ack.resource_id, &ack.event_id));
                }
            }
            Op::ForeignAcknowledge { pick } => {
                if !self.sent.is_empty() {
                    let old = self.sent[pick % self.sent.len()].clone();
                    let is_flying = self.flying.get(&lane_of(&old)) == Some(&old);
                    self.acknowledge(if is_flying { "other" } else { &old.resource_id }, &old.event_id);
                }
            }
            Op::Pass { millis } => self.at += Duration::from_millis(millis),
            Op::Disconnect => self.disconnect(),
            Op::Connect => self.connect(),
        }
        self.check_bounds();
    }

    fn push(&mut self, index: usize, kind: &Type, needs: bool) {
        self.versions += 1;
        let version = self.versions;
        if *kind == Type::Create {
            self.created[index] += 1;
        }
        let resource_id = format!("{index}.{}", self.created[index]);
        let out = Outgoing {
            lane: lane(index),
            target: Target::Application,
            kind: kind.clone(),
            resource_id: resource_id.clone(),
            event_id: version.to_string(),
            subject: None,
            body: Body::Json(Bytes::from(version.to_string())),
            extensions: BTreeMap::new(),
            needs: if needs { vec![lane(0), lane((index + 1) % LANES)] } else { Vec::new() },
        };
        let now = self.now();
        let pushed = self.outbox.push(now, out);
        self.trace.push(format!("{pushed:?}"));
        if pushed == Pushed::Overflow {
            assert!(self.outbox.len() >= self.limits.0.queue_max, "only a full queue overflows");
            return;
        }
        let expected = self.expected.entry(lane(index)).or_default();
        expected.apply(kind, version);
        if *kind == Type::Delete {
            expected.others.clear();
            self.flying.retain(|flying, event| {
                *flying != lane(index) || (event.kind == Type::Delete && event.resource_id != resource_id)
            });
        }
    }

    fn send(&mut self, room: usize) {
        let now = self.now();
        let events = self.outbox.due(now, room);
        assert!(events.len() <= room && (self.is_up || events.is_empty()));
        if room == usize::MAX {
            assert!(self.outbox.next_due(now).is_none_or(|at| at > self.at), "nothing is due after all was sent");
        }
        for event in &events {
            let lane = lane_of(event);
            if let Some(flying) = self.flying.get(&lane) {
                if flying == event {
                    continue;
                }
                let state = |event: &Event| match event.kind {
                    Type::Create | Type::SpecUpdate => Some(Type::SpecUpdate),
                    Type::StatusUpdate => Some(Type::StatusUpdate),
                    _ => None,
                };
                let is_newer = state(flying).is_some() && state(flying) == state(event);
                assert!(is_newer && version(flying) < version(event), "one in flight per lane, until a newer state");
            }
            assert!(self.sent.iter().all(|old| old.event_id != event.event_id), "an id is used once");
            let last = self.sent_versions.insert((lane.clone(), event.kind.clone()), version(event));
            assert!(last.is_none_or(|last| last < version(event)), "newer states and later operations follow");
            self.flying.insert(lane, event.clone());
            self.sent.push(event.clone());
        }
        self.trace.extend(events.iter().map(|event| format!("{event:?}")));
        self.wire.extend(events);
    }

    fn read(&mut self, event: Event) {
        let (now, lane) = (self.now(), lane_of(&event));
        let verdict = self.inbox.receive(now, lane.clone(), event);
        self.trace.push(format!("{verdict:?}"));
        match verdict {
            Verdict::Start(event) => self.start(lane, event),
            Verdict::Waits { superseded } => self.acks.extend(superseded),
            Verdict::Acknowledge(ack) => self.acks.push(ack),
            Verdict::Repeat => {}
            Verdict::Full => assert!(self.inbox.is_full()),
        }
    }

    fn start(&mut self, lane: Lane, event: Event) {
        let last = self.started.insert(lane.clone(), serial(&event));
        assert!(last.is_none_or(|last| last <= serial(&event)), "a lane goes forward");
        assert!(self.at_work.insert(lane, event).is_none(), "one at work per lane");
    }

    fn finish(&mut self, lane: &Lane, success: bool) {
        let event = self.at_work.remove(lane).expect("the lane is at work");
        if success {
            self.reached.entry(lane.clone()).or_default().apply(&event.kind, version(&event));
        }
        let now = self.now();
        let done = self.inbox.done(now, lane, success);
        self.trace.push(format!("{done:?}"));
        assert!(done.ack.is_none() || (success && self.is_up));
        self.acks.extend(done.ack);
        if let Some((lane, event)) = done.next {
            self.start(lane, event);
        }
    }

    fn acknowledge(&mut self, resource_id: &str, event_id: &str) {
        let is_meant = |event: &Event| event.resource_id == resource_id && event.event_id == event_id;
        let meant = self.flying.iter().find(|(_, event)| is_meant(event)).map(|(lane, _)| lane.clone());
        let (now, before) = (self.now(), self.outbox.len());
        let acknowledged = self.outbox.acknowledge(now, resource_id, event_id).map(|done| done.lane);
        assert_eq!(acknowledged, meant, "exactly what is in flight is acknowledged");
        assert_eq!(before - self.outbox.len(), usize::from(meant.is_some()), "and nothing else goes with it");
        if let Some(lane) = meant {
            self.flying.remove(&lane);
        }
    }

    fn disconnect(&mut self) {
        let now = self.now();
        self.is_up = false;
        self.wire.clear();
        self.acks.clear();
        self.outbox.disconnected(now);
        self.inbox.closed();
    }

    fn connect(&mut self) {
        let now = self.now();
        self.is_up = true;
        self.wire.clear();
        self.acks.clear();
        self.outbox.connected(now);
        self.inbox.opened();
    }

    fn check_bounds(&self) {
        let (outbox, inbox) = &self.limits;
        assert!(self.outbox.len() <= outbox.queue_max);
        assert_eq!(self.outbox.in_flight(), self.flying.len());
        assert!(self.flying.keys().all(|lane| self.outbox.is_lane_busy(lane)));
        assert_eq!(self.outbox.is_empty(), self.outbox.oldest(self.now()).is_none());
        assert!(self.inbox.len() <= inbox.queue_max);
        assert!(self.inbox.at_work() <= inbox.concurrency);
        assert_eq!(self.inbox.at_work(), self.at_work.len());
    }

    /// A good connection, for as long as it takes.
    fn heal(&mut self) {
        self.connect();
        for _ in 0..10_000 {
            self.send(usize::MAX);
            while !self.inbox.is_full() {
                let Some(event) = self.wire.pop_front() else { break };
                self.read(event);
            }
            while let Some(lane) = self.at_work.keys().next().cloned() {
                self.finish(&lane, true);
            }
            for ack in std::mem::take(&mut self.acks) {
                self.acknowledge(&ack.resource_id, &ack.event_id);
            }
            self.check_bounds();
            if self.outbox.is_empty() {
                return;
            }
            if self.wire.is_empty() {
                let next = self.outbox.next_due(self.now());
                self.at = next.expect("what is not acknowledged is due some time");
            }
        }
        panic!("it does not come to an end");
    }

    fn check_outcome(&self) {
        assert_eq!((self.outbox.len(), self.outbox.in_flight()), (0, 0));
        assert_eq!((self.inbox.len(), self.inbox.at_work()), (0, 0));
        assert_eq!(self.outbox.next_due(self.now()), None);
        for index in 0..LANES {
            assert!(!self.outbox.is_lane_busy(&lane(index)));
            let expected = self.expected.get(&lane(index)).cloned().unwrap_or_default();
            let mut reached = self.reached.get(&lane(index)).cloned().unwrap_or_default();
            assert!(reached.others.is_sorted(), "operations in order");
            // What a deletion made pointless may have arrived before it.
            let wanted: BTreeSet<u32> = expected.others.iter().copied().collect();
            reached.others.retain(|version| wanted.contains(version));
            assert_eq!(reached, expected, "lane {index}");
        }
    }
}

fn run(limits: &(outbox::Options, inbox::Options), ops: &[Op]) -> Vec<String> {
    let mut world = World::new(limits.clone());
    for op in ops {
        world.step(op.clone());
    }
    world.heal();
    world.check_outcome();
    world.trace
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everything_arrives_in_order_over_a_bad_connection(
        limits in settings(),
        ops in prop::collection::vec(op(), 0..250),
    ) {
        let trace = run(&limits, &ops);
        prop_assert_eq!(trace, run(&limits, &ops), "the same inputs give the same outputs");
    }
}
