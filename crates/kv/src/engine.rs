//! The rules of the store, apart from where it keeps its bytes: comparing, numbering revisions, making events, ending
//! leases, compacting.
//!
//! Requests are first checked ([`Engine::check`] and its like answer the caller's mistakes and change nothing) and then
//! applied; applying fails only when the medium does.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::fault::Fault;
use crate::history::{History, Mark};
use crate::lease::Leases;
use crate::options::{HistoryLimits, Limits};
use crate::record::event_bytes;
use crate::store::{Compare, Entry, Error, Event, LeaseId, LeaseStatus, Mutation, Result, Revision, Txn, TxnOutcome};

mod check;

pub(crate) use check::check_shape;

/// Log overhead per revision beyond its events' own bytes, for the history's byte bound.
const LOG_RECORD_BYTES: u64 = 32;

/// The numbers a store keeps beside its entries and its log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) revision: Revision,
    pub(crate) compacted: Revision,
    pub(crate) last_lease: LeaseId,
}

/// Where the engine keeps entries, log and leases while it applies a batch. What it is told becomes durable when its
/// owner commits it.
pub(crate) trait Space {
    fn get(&self, key: &[u8]) -> Result<Option<Entry>, Fault>;
    fn set(&mut self, entry: &Entry) -> Result<(), Fault>;
    fn remove(&mut self, key: &[u8]) -> Result<(), Fault>;
    /// Appends the changes of a revision to the log.
    fn append(&mut self, revision: Revision, log_bytes: u64, events: &[Arc<Event>]) -> Result<(), Fault>;
    /// Removes at most `budget` log records up to `through`, oldest first, and tells whether some are left.
    fn trim(&mut self, through: Revision, budget: usize) -> Result<bool, Fault>;
    /// Keeps the numbers. The revision also follows from the log, so they are not saved with every append.
    fn save(&mut self, numbers: Numbers) -> Result<(), Fault>;
    fn set_lease(&mut self, id: LeaseId, ttl: Duration) -> Result<(), Fault>;
    fn remove_lease(&mut self, id: LeaseId) -> Result<(), Fault>;
    fn attach(&mut self, id: LeaseId, key: &[u8]) -> Result<(), Fault>;
    fn detach(&mut self, id: LeaseId, key: &[u8]) -> Result<(), Fault>;
}

/// The state the rules need in memory.
#[derive(Debug)]
pub(crate) struct Engine {
    limits: Limits,
    numbers: Numbers,
    leases: Leases,
    history: History,
    log_bytes: u64,
    untrimmed: bool,
    events: Vec<Arc<Event>>,
}

impl Engine {
    pub(crate) fn new(limits: Limits, history: HistoryLimits, numbers: Numbers, leases: Leases) -> Self {
        let history = History::new(history);
        Self { limits, numbers, leases, history, log_bytes: 0, untrimmed: false, events: Vec::new() }
    }

    /// Tells the engine of history found when a store was opened.
    pub(crate) fn recall(&mut self, mark: Mark) {
        self.log_bytes = self.log_bytes.max(mark.log_bytes);
        self.history.note(mark);
        self.untrimmed = true;
    }

    pub(crate) fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// The events made since this was last asked, in order.
    pub(crate) fn take_events(&mut self) -> Vec<Arc<Event>> {
        std::mem::take(&mut self.events)
    }

    /// Whether log records wait to be removed.
    pub(crate) fn is_untrimmed(&self) -> bool {
        self.untrimmed
    }

    /// When there is next something to do without being asked.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        let deadlines = [self.leases.next_deadline(), self.history.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Whether [`Engine::maintain`] would do something.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        self.untrimmed || self.next_deadline().is_some_and(|deadline| deadline <= now)
    }

    /// Compares and writes a checked transaction.
    pub(crate) fn apply(&mut self, space: &mut impl Space, txn: Txn) -> Result<TxnOutcome, Fault> {
        let mut current = Vec::with_capacity(txn.compares.len());
        for compare in &txn.compares {
            current.push(space.get(compare.key())?);
        }
        let hold = txn.compares.iter().zip(&current).all(|(compare, entry)| holds(compare, entry.as_ref()));
        if !hold {
            return Ok(TxnOutcome::Conflict { revision: self.numbers.revision, current });
        }
        let mut previous = Vec::with_capacity(txn.mutations.len());
        for mutation in &txn.mutations {
            // The usual transaction compares the key it writes: no second lookup then.
            let known = txn.compares.iter().position(|compare| compare.key() == mutation.key());
            previous.push(match known {
                Some(index) => current[index].clone(),
                None => space.get(mutation.key())?,
            });
        }
        self.write(space, txn.mutations, &previous)?;
        Ok(TxnOutcome::Committed { revision: self.numbers.revision, previous })
    }

    /// Makes a checked lease.
    pub(crate) fn grant(&mut self, space: &mut impl Space, ttl: Duration, now: Duration) -> Result<LeaseId, Fault> {
        self.numbers.last_lease += 1;
        let id = self.numbers.last_lease;
        space.set_lease(id, ttl)?;
        space.save(self.numbers)?;
        self.leases.insert(id, ttl, now);
        Ok(id)
    }

    pub(crate) fn keep_alive(&mut self, id: LeaseId, now: Duration) -> Result<LeaseStatus> {
        self.leases.renew(id, now).ok_or(Error::LeaseNotFound(id))
    }

    /// Ends a lease and deletes its keys in one revision.
    pub(crate) fn revoke(&mut self, space: &mut impl Space, id: LeaseId) -> Result<(), Fault> {
        let Some(keys) = self.leases.remove(id) else { return Ok(()) };
        space.remove_lease(id)?;
        let mut previous = Vec::with_capacity(keys.len());
        for key in &keys {
            previous.push(space.get(key)?);
        }
        let mutations = keys.into_iter().map(|key| Mutation::Delete { key }).collect();
        self.write(space, mutations, &previous)
    }

    /// Drops history up to a checked revision. The log itself shrinks in the course of [`Engine::maintain`].
    pub(crate) fn compact(&mut self, space: &mut impl Space, revision: Revision) -> Result<Revision, Fault> {
        if revision > self.numbers.compacted {
            self.numbers.compacted = revision;
            self.history.compacted(revision);
            self.untrimmed = true;
            space.save(self.numbers)?;
        }
        Ok(self.numbers.compacted)
    }

    /// Ends at most `leases` leases whose time is over. To be called before the requests of a batch, so that none of
    /// them sees a key that should be gone.
    pub(crate) fn expire(&mut self, space: &mut impl Space, now: Duration, leases: usize) -> Result<(), Fault> {
        for _ in 0..leases {
            let Some(id) = self.leases.expired(now) else { break };
            self.revoke(space, id)?;
        }
        Ok(())
    }

    /// Drops history beyond its bounds and removes at most `trim` log records.
    pub(crate) fn maintain(&mut self, space: &mut impl Space, now: Duration, trim: usize) -> Result<(), Fault> {
        let present = Mark { time: now, revision: self.numbers.revision, log_bytes: self.log_bytes };
        if present.revision > self.numbers.compacted {
            self.history.note(present);
        }
        if let Some(revision) = self.history.overdue(present) {
            self.compact(space, revision)?;
        }
        if self.untrimmed {
            self.untrimmed = space.trim(self.numbers.compacted, trim)?;
        }
        Ok(())
    }

    fn write(
        &mut self,
        space: &mut impl Space,
        mutations: Vec<Mutation>,
        previous: &[Option<Entry>],
    ) -> Result<(), Fault> {
        let revision = self.numbers.revision + 1;
        let start = self.events.len();
        for (mutation, previous) in mutations.into_iter().zip(previous) {
            let Some(event) = change(mutation, previous.clone(), revision) else { continue };
            match &event.entry {
                Some(entry) => space.set(entry)?,
                None => space.remove(&event.key)?,
            }
            self.move_lease(space, &event)?;
            self.log_bytes += event_bytes(&event) as u64;
            self.events.push(Arc::new(event));
        }
        if self.events.len() > start {
            self.log_bytes += LOG_RECORD_BYTES;
            self.numbers.revision = revision;
            space.append(revision, self.log_bytes, &self.events[start..])?;
        }
        Ok(())
    }

    fn move_lease(&mut self, space: &mut impl Space, event: &Event) -> Result<(), Fault> {
        let lease = |entry: &Option<Entry>| entry.as_ref().and_then(|entry| entry.lease);
        let (old, new) = (lease(&event.previous), lease(&event.entry));
        if old == new {
            return Ok(());
        }
        if let Some(old) = old.filter(|old| self.leases.contains(*old)) {
            self.leases.detach(old, &event.key);
            space.detach(old, &event.key)?;
        }
        if let Some(new) = new {
            self.leases.attach(new, event.key.clone());
            space.attach(new, &event.key)?;
        }
        Ok(())
    }
}

fn holds(compare: &Compare, entry: Option<&Entry>) -> bool {
    match compare {
        Compare::ModRevision(_, revision) => entry.map_or(0, |entry| entry.mod_revision) == *revision,
        Compare::Exists(_) => entry.is_some(),
    }
}

/// What a mutation does to a key; nothing when an absent key is deleted.
fn change(mutation: Mutation, previous: Option<Entry>, revision: Revision) -> Option<Event> {
    match mutation {
        Mutation::Put { key, value, lease } => {
            let create_revision = previous.as_ref().map_or(revision, |entry| entry.create_revision);
            let version = previous.as_ref().map_or(0, |entry| entry.version) + 1;
            let key: Bytes = key;
            let entry = Entry { key: key.clone(), value, create_revision, mod_revision: revision, version, lease };
            Some(Event { key, revision, entry: Some(entry), previous })
        }
        Mutation::Delete { key } => {
            previous.map(|previous| Event { key, revision, entry: None, previous: Some(previous) })
        }
    }
}
