//! What users were told, and what may therefore never be seen.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use thane_discovery::model::{Index, Status};
use thane_discovery::topic::{Row, Topic, TopicData};

/// An instance: the service's name and the port, which is another with every registration.
pub(super) type Instance = (String, u16);

/// What a user knows about one thing that only it writes.
#[derive(Debug, Clone)]
pub(super) struct Belief<T> {
    /// As it was last told.
    last: Option<T>,
    /// Asked for, and nobody said what came of it.
    unsure: Vec<Option<T>>,
}

impl<T> Default for Belief<T> {
    fn default() -> Self {
        Self { last: None, unsure: Vec::new() }
    }
}

impl<T: PartialEq + Clone> Belief<T> {
    /// Asks for it to be so.
    pub(super) fn ask(&mut self, value: Option<T>) {
        self.unsure.push(value);
    }

    /// It is so; what was asked for before may still arrive late.
    pub(super) fn told(&mut self, value: Option<T>) {
        if let Some(place) = self.unsure.iter().position(|other| *other == value) {
            self.unsure.remove(place);
        }
        self.last = value;
    }

    /// It is so, and nothing asked for before can change that.
    pub(super) fn settled(&mut self, value: Option<T>) {
        self.unsure.clear();
        self.last = value;
    }

    /// It was refused.
    pub(super) fn refused(&mut self) {
        self.unsure.pop();
    }

    /// Whether it is certain, and certainly something else.
    pub(super) fn denies(&self, value: Option<&T>) -> bool {
        self.unsure.is_empty() && self.last.as_ref() != value
    }

    pub(super) fn allows(&self, value: Option<&T>) -> bool {
        self.last.as_ref() == value || self.unsure.iter().any(|other| other.as_ref() == value)
    }
}

/// What somebody sees at the end.
#[derive(Default, Clone)]
pub(super) struct View {
    pub(super) topics: BTreeMap<Topic, Arc<TopicData>>,
    pub(super) services: BTreeMap<String, Instance>,
    pub(super) checks: BTreeMap<String, Status>,
    pub(super) pending: usize,
}

/// A lock in the hands of a session, and until when its holder may believe so.
struct Hold {
    session: String,
    until: Duration,
}

/// An instance as the registry showed it over time.
#[derive(Default)]
struct Trace {
    present: Option<u16>,
    newest: u16,
}

/// How often what happened, in all runs.
pub(super) type Tally = Arc<Mutex<BTreeMap<&'static str, u64>>>;

/// What users were told.
#[derive(Default)]
pub(super) struct Book {
    tally: Tally,
    /// Set when users stop, so that things can settle.
    pub(super) calm: AtomicBool,
    numbers: AtomicU64,
    /// What should not have happened.
    pub(super) wrong: Mutex<Vec<String>>,
    pub(super) services: Mutex<BTreeMap<(String, String), Belief<Instance>>>,
    pub(super) keys: Mutex<BTreeMap<String, Belief<u64>>>,
    /// How often the counter was surely, and perhaps, incremented.
    pub(super) counted: Mutex<(u64, u64)>,
    pub(super) views: Mutex<BTreeMap<String, View>>,
    holds: Mutex<BTreeMap<String, Hold>>,
    seen: Mutex<HashMap<(String, Topic), Index>>,
    contents: Mutex<HashMap<(Topic, Index), u64>>,
    traces: Mutex<BTreeMap<(String, String), Trace>>,
}

impl Book {
    pub(super) fn new(tally: &Tally) -> Arc<Self> {
        Arc::new(Self { tally: Arc::clone(tally), ..Self::default() })
    }

    /// Something happened.
    pub(super) fn tell(&self, what: &'static str) {
        *self.tally.lock().entry(what).or_default() += 1;
    }

    /// What was registered with an agent is lost with its data.
    pub(super) fn forget(&self, node: &str) {
        self.services.lock().retain(|(of, _), _| of != node);
    }

    /// A number that nobody had before.
    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    pub(super) fn complain(&self, what: &str) {
        let at = turmoil::sim_elapsed().unwrap_or_default();
        self.wrong.lock().push(format!("{:.3} s: {what}", at.as_secs_f64()));
    }

    /// Somebody read a topic: its index is not below what the same reader saw before, and stands for one content.
    pub(super) fn read(&self, reader: &str, topic: &Topic, data: &TopicData) {
        let mut seen = self.seen.lock();
        let newest = seen.entry((reader.to_owned(), topic.clone())).or_default();
        if data.index < *newest {
            self.complain(&format!("{reader}: {topic:?} went back from {newest} to {}", data.index));
        }
        *newest = data.index.max(*newest);
        drop(seen);
        let mut hasher = DefaultHasher::new();
        serde_json::to_string(&data.rows).unwrap().hash(&mut hasher);
        let hash = hasher.finish();
        let known = *self.contents.lock().entry((topic.clone(), data.index)).or_insert(hash);
        if known != hash {
            self.complain(&format!("{reader}: {topic:?} at {} is not what others saw: {:?}", data.index, data.rows));
        }
    }

    /// Somebody got a lock, and may believe to have it until then.
    pub(super) fn hold(&self, lock: &str, session: &str, until: Duration) {
        let now = turmoil::sim_elapsed().unwrap_or_default();
        let mut holds = self.holds.lock();
        if let Some(other) = holds.get(lock)
            && other.session != session
            && other.until > now
        {
            let left = other.until.saturating_sub(now);
            self.complain(&format!("{session} got {lock}, which {} still has for {left:?}", other.session));
        }
        holds.insert(lock.to_owned(), Hold { session: session.to_owned(), until });
    }

    /// A holder's session was renewed.
    pub(super) fn renew(&self, session: &str, until: Duration) {
        let mut holds = self.holds.lock();
        holds.values_mut().filter(|hold| hold.session == session).for_each(|hold| hold.until = until.max(hold.until));
    }

    /// A holder lets go, or knows that it has lost it.
    pub(super) fn let_go(&self, session: &str) {
        self.holds.lock().retain(|_, hold| hold.session != session);
    }

    /// All instances as the registry has them now: none that went, or was replaced, comes back.
    pub(super) fn watch(&self, data: &TopicData) {
        let mut traces = self.traces.lock();
        let now: BTreeMap<(String, String), u16> = data.rows.iter().filter_map(instance).collect();
        for (_, trace) in traces.iter_mut().filter(|(key, _)| !now.contains_key(*key)) {
            trace.present = None;
        }
        for (key, port) in now {
            let trace = traces.entry(key.clone()).or_default();
            if port < trace.newest || (port == trace.newest && trace.present.is_none()) {
                self.complain(&format!("{key:?} came back with port {port} after {}", trace.newest));
            }
            (trace.present, trace.newest) = (Some(port), port);
        }
    }
}

fn instance(row: &Row) -> Option<((String, String), u16)> {
    match row {
        Row::Instance(it) => {
            let service = &it.service.value;
            Some(((it.node.value.name.clone(), service.id.clone()), service.port))
        }
        _ => None,
    }
}
