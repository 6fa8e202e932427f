//! Writes to this side's API: one at a time per object, planned again until what was wanted holds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use crate::failure::{Backoff, Class};
use crate::mapping::Propagation;
use crate::object::{Key, Object};
use crate::store::Seen;

/// Which write an outcome belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// One write; the API refuses it when the object is no longer the one it was planned on.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// A new object.
    Create(Value),
    /// The whole object, with the resource version it was planned on.
    Replace(Value),
    /// The end of an object.
    Delete {
        /// The uid it must have.
        uid: String,
        /// What happens to what it owns.
        propagation: Propagation,
    },
}

/// How a write ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The object is now like this; after a deletion it may linger.
    Written(Object),
    /// The object is gone.
    Gone,
    /// The object is not the one the write was planned on; this is what is there.
    Stale(Option<Object>),
    /// It did not happen.
    Failed(Failure),
}

impl Outcome {
    /// Nobody will say how it ended; looking again tells.
    pub fn lost() -> Self {
        Self::Failed(Failure { class: Class::Temporary, message: "the write was broken off".to_owned() })
    }
}

/// Why a write did not happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure it is.
    pub class: Class,
    /// What the API said.
    pub message: String,
}

/// Writes of one job in a row before it waits for things to calm down.
const WRITES_MAX: u32 = 6;

/// Failures in a row, over some seconds, after which what is newer need not wait for a job.
const STUCK_AFTER: u32 = 6;

/// What is being done about objects; `J` says why.
#[derive(Debug)]
pub struct Works<J> {
    jobs: BTreeMap<Key, Job<J>>,
    tickets: BTreeMap<Ticket, Key>,
    waits: BTreeSet<(Duration, Key)>,
    issued: u64,
}

#[derive(Debug)]
struct Job<J> {
    why: J,
    state: State,
    backoff: Backoff,
    /// Failures since it began.
    failures: u32,
    /// Writes since it began or last waited.
    writes: u32,
    /// Whether there is more to do after the write under way.
    continues: bool,
    /// Whether the write under way is a deletion.
    is_delete: bool,
    /// What watches saw meanwhile; looked at when the write has ended.
    seen: Option<Seen>,
}

/// A write that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// The object.
    pub key: Key,
    /// Whether there is more to do.
    pub continues: bool,
    /// Whether it was a deletion.
    pub is_delete: bool,
    /// What watches saw of it meanwhile.
    pub seen: Option<Seen>,
}

#[derive(Debug, PartialEq)]
enum State {
    /// To be planned at once.
    Ready,
    /// A write is under way.
    Writing(Ticket),
    /// To be planned at that time.
    Waiting(Duration),
    /// To be planned when the object is gone.
    Lingering,
}

impl<J> Default for Works<J> {
    fn default() -> Self {
        Self { jobs: BTreeMap::new(), tickets: BTreeMap::new(), waits: BTreeSet::new(), issued: 0 }
    }
}

impl<J> Works<J> {
    /// Begins; the caller plans it next. There must be none for that key.
    pub fn begin(&mut self, key: Key, why: J) {
        let backoff = Backoff::new(seed(&key));
        let job = Job {
            why,
            state: State::Ready,
            backoff,
            failures: 0,
            writes: 0,
            continues: false,
            is_delete: false,
            seen: None,
        };
        let before = self.jobs.insert(key, job);
        assert!(before.is_none(), "one job per object");
    }

    /// Whether something is being done about the object.
    pub fn has(&self, key: &Key) -> bool {
        self.jobs.contains_key(key)
    }

    /// Why something is being done about it.
    pub fn why(&self, key: &Key) -> Option<&J> {
        self.jobs.get(key).map(|job| &job.why)
    }

    /// Whether nothing happens about it until time has passed or the object has changed.
    pub fn is_resting(&self, key: &Key) -> bool {
        let job = self.jobs.get(key);
        job.is_some_and(|job| matches!(job.state, State::Waiting(_) | State::Lingering))
    }

    /// Whether it has failed so often that its end is not near.
    pub fn is_stuck(&self, key: &Key) -> bool {
        let job = self.jobs.get(key);
        job.is_some_and(|job| matches!(job.state, State::Waiting(_)) && job.failures >= STUCK_AFTER)
    }

    /// How many objects something is being done about.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether nothing is being done.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// A ticket for a write that now goes out; `continues` when it is not the last of its job. None when there have been
    /// so many in a row that the job waits instead.
    pub fn write(&mut self, now: Duration, key: &Key, write: &Write, continues: bool) -> Option<Ticket> {
        let job = self.jobs.get_mut(key).expect("only a job that has begun writes");
        assert!(!matches!(job.state, State::Writing(_)), "one write at a time");
        job.writes += 1;
        if job.writes > WRITES_MAX {
            self.failed(now, key);
            return None;
        }
        self.issued += 1;
        let ticket = Ticket(self.issued);
        job.state = State::Writing(ticket);
        job.continues = continues;
        job.is_delete = matches!(write, Write::Delete { .. });
        self.tickets.insert(ticket, key.clone());
        Some(ticket)
    }

    /// Waits until the object is gone.
    pub fn linger(&mut self, key: &Key) {
        if let Some(job) = self.jobs.get_mut(key) {
            job.state = State::Lingering;
        }
    }

    /// Takes a write that has ended.
    pub fn ended(&mut self, ticket: Ticket) -> Option<Ended> {
        let key = self.tickets.remove(&ticket)?;
        let job = self.jobs.get_mut(&key)?;
        job.state = State::Ready;
        let is_delete = job.is_delete;
        Some(Ended { key, continues: std::mem::take(&mut job.continues), is_delete, seen: job.seen.take() })
    }

    /// Notes a failure that passes; the job is planned again later.
    pub fn failed(&mut self, now: Duration, key: &Key) {
        let Some(job) = self.jobs.get_mut(key) else { return };
        let at = now + job.backoff.next(Class::Temporary);
        job.writes = 0;
        job.failures = job.failures.saturating_add(1);
        job.state = State::Waiting(at);
        self.waits.insert((at, key.clone()));
    }

    /// Keeps what a watch saw while a write is under way; gives it back otherwise.
    pub fn defer(&mut self, key: &Key, seen: Seen) -> Option<Seen> {
        match self.jobs.get_mut(key) {
            Some(job) if matches!(job.state, State::Writing(_)) => {
                job.seen = Some(seen);
                None
            }
            _ => Some(seen),
        }
    }

    /// The object has changed: whether a job waited and is to be planned now.
    pub fn wake(&mut self, key: &Key) -> bool {
        let Some(job) = self.jobs.get_mut(key) else { return false };
        match job.state {
            State::Waiting(at) => {
                self.waits.remove(&(at, key.clone()));
            }
            State::Lingering => {}
            State::Ready | State::Writing(_) => return false,
        }
        job.state = State::Ready;
        true
    }

    /// Ends a job and says why it was begun.
    pub fn finish(&mut self, key: &Key) -> Option<J> {
        let job = self.jobs.remove(key)?;
        if let State::Writing(ticket) = job.state {
            self.tickets.remove(&ticket);
        }
        if let State::Waiting(at) = job.state {
            self.waits.remove(&(at, key.clone()));
        }
        Some(job.why)
    }

    /// Jobs whose wait is over; each is to be planned.
    pub fn due(&mut self, now: Duration) -> Vec<Key> {
        let mut due = Vec::new();
        while let Some((at, _)) = self.waits.first() {
            if *at > now {
                break;
            }
            let Some((at, key)) = self.waits.pop_first() else { break };
            if let Some(job) = self.jobs.get_mut(&key)
                && job.state == State::Waiting(at)
            {
                job.state = State::Ready;
                due.push(key);
            }
        }
        due
    }

    /// When the next wait is over.
    pub fn next_due(&self) -> Option<Duration> {
        self.waits.first().map(|(at, _)| *at)
    }
}

/// A number of its own for each object, so that retries of many do not come at once.
pub(crate) fn seed(key: &Key) -> u64 {
    let bytes = key.namespace.bytes().chain([0]).chain(key.name.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
