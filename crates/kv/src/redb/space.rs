//! The tables of the file and how the engine writes them.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use redb::{ReadableTable, Table, TableDefinition, WriteTransaction};

use crate::engine::{Numbers, Space};
use crate::fault::Fault;
use crate::record::{RecordRef, encode_changes, encode_entry};
use crate::store::{Entry, Event, LeaseId, Revision};

/// Key to entry, as it is now.
pub(super) const CURRENT: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("current");
/// Revision to all its changes.
pub(super) const LOG: TableDefinition<'_, Revision, &[u8]> = TableDefinition::new("log");
/// Lease to milliseconds to live, and lease followed by key to nothing for each key on it.
pub(super) const LEASES: TableDefinition<'_, &[u8], u64> = TableDefinition::new("leases");
/// Single numbers by name.
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

pub(super) const FORMAT: &str = "format";
pub(super) const REVISION: &str = "revision";
pub(super) const COMPACTED: &str = "compacted";
pub(super) const LAST_LEASE: &str = "last_lease";

/// The tables inside a write transaction.
pub(super) struct Tables<'t> {
    txn: &'t WriteTransaction,
    current: Table<'t, &'static [u8], &'static [u8]>,
    log: Table<'t, Revision, &'static [u8]>,
    buffers: &'t mut Buffers,
    changed: Changed,
}

/// What a batch has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Changed {
    Nothing,
    /// Entries and their log, and what follows from the log and may as well be done again later.
    Logged,
    /// Something that cannot be told from the log.
    More,
}

/// Memory that is used again from batch to batch.
#[derive(Default)]
pub(super) struct Buffers {
    entry: Vec<u8>,
    /// The log records of the batch, one after the other.
    tail: Vec<u8>,
    /// Their revisions and where they end.
    ends: Vec<(Revision, usize)>,
    /// How many of them are in the table.
    flushed: usize,
}

impl Buffers {
    /// The first revision of the batch, if it made one.
    pub(super) fn first_revision(&self) -> Option<Revision> {
        self.ends.first().map(|(revision, _)| *revision)
    }

    /// The log records of the batch in order of their revisions, which are dense.
    pub(super) fn records(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        starts.zip(&self.ends).map(|(start, (_, end))| &self.tail[start..*end])
    }

    fn clear(&mut self) {
        self.tail.clear();
        self.ends.clear();
        self.flushed = 0;
    }
}

impl<'t> Tables<'t> {
    pub(super) fn open(txn: &'t WriteTransaction, buffers: &'t mut Buffers) -> Result<Self, Fault> {
        let current = txn.open_table(CURRENT).map_err(fault)?;
        let log = txn.open_table(LOG).map_err(fault)?;
        buffers.clear();
        Ok(Self { txn, current, log, buffers, changed: Changed::Nothing })
    }

    /// Writes what is held back and tells what there is to commit.
    pub(super) fn finish(mut self) -> Result<Changed, Fault> {
        self.flush()?;
        Ok(self.changed)
    }

    fn note(&mut self, changed: Changed) {
        self.changed = self.changed.max(changed);
    }

    /// Puts the log records of the batch into their table, all at once because that is far cheaper.
    fn flush(&mut self) -> Result<(), Fault> {
        let Buffers { tail, ends, flushed, .. } = &mut *self.buffers;
        let mut start = flushed.checked_sub(1).map_or(0, |last| ends[last].1);
        let fresh = &ends[*flushed..];
        if let [(revision, end)] = fresh {
            self.log.insert(*revision, &tail[start..*end]).map_err(fault)?;
        } else if !fresh.is_empty() {
            let mut cursor = self.log.upper_bound_mut(Bound::<Revision>::Unbounded).map_err(fault)?;
            for (revision, end) in fresh {
                cursor.insert_before(*revision, &tail[start..*end]).map_err(fault)?;
                start = *end;
            }
            cursor.close().map_err(fault)?;
        }
        *flushed = ends.len();
        Ok(())
    }
}

/// What a failure of redb means for us.
pub(super) fn fault(error: impl Into<redb::Error>) -> Fault {
    match error.into() {
        redb::Error::Corrupted(reason) => Fault::Damaged(reason),
        error @ (redb::Error::TableTypeMismatch { .. } | redb::Error::TypeDefinitionChanged { .. }) => {
            Fault::Damaged(error.to_string())
        }
        error => Fault::Medium(error.to_string()),
    }
}

/// The row that stands for a lease, or for a key on it.
pub(super) fn lease_row(id: LeaseId, key: &[u8]) -> Vec<u8> {
    [&id.to_be_bytes(), key].concat()
}

impl Space for Tables<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Entry>, Fault> {
        let Some(found) = self.current.get(key).map_err(fault)? else { return Ok(None) };
        let record = RecordRef::decode(found.value())?;
        Ok(Some(record.to_entry(bytes::Bytes::copy_from_slice(key), false)))
    }

    fn set(&mut self, entry: &Entry) -> Result<(), Fault> {
        self.note(Changed::Logged);
        encode_entry(&mut self.buffers.entry, entry);
        self.current.insert(&*entry.key, self.buffers.entry.as_slice()).map_err(fault)?;
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), Fault> {
        self.note(Changed::Logged);
        self.current.remove(key).map_err(fault)?;
        Ok(())
    }

    fn append(&mut self, revision: Revision, log_bytes: u64, events: &[Arc<Event>]) -> Result<(), Fault> {
        self.note(Changed::Logged);
        let Buffers { tail, ends, .. } = &mut *self.buffers;
        encode_changes(tail, log_bytes, events);
        ends.push((revision, tail.len()));
        Ok(())
    }

    fn trim(&mut self, through: Revision, budget: usize) -> Result<bool, Fault> {
        self.flush()?;
        let first = match self.log.first().map_err(fault)? {
            Some((first, _)) => first.value(),
            None => return Ok(false),
        };
        if first > through {
            return Ok(false);
        }
        self.note(Changed::Logged);
        // Revisions in the log are dense, so a range of them is as good as a count.
        let last = first.saturating_add(budget as u64).min(through);
        self.log.retain_in(first..=last, |_, _| false).map_err(fault)?;
        Ok(last < through)
    }

    fn save(&mut self, numbers: Numbers) -> Result<(), Fault> {
        self.note(Changed::Logged);
        let mut meta = self.txn.open_table(META).map_err(fault)?;
        meta.insert(REVISION, numbers.revision).map_err(fault)?;
        meta.insert(COMPACTED, numbers.compacted).map_err(fault)?;
        meta.insert(LAST_LEASE, numbers.last_lease).map_err(fault)?;
        Ok(())
    }

    fn set_lease(&mut self, id: LeaseId, ttl: Duration) -> Result<(), Fault> {
        self.note(Changed::More);
        let mut leases = self.txn.open_table(LEASES).map_err(fault)?;
        let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        leases.insert(lease_row(id, b"").as_slice(), millis).map_err(fault)?;
        Ok(())
    }

    fn remove_lease(&mut self, id: LeaseId) -> Result<(), Fault> {
        self.note(Changed::More);
        let mut leases = self.txn.open_table(LEASES).map_err(fault)?;
        let (start, end) = (lease_row(id, b""), lease_row(id.saturating_add(1), b""));
        leases.retain_in(start.as_slice()..end.as_slice(), |_, _| false).map_err(fault)
    }

    fn attach(&mut self, id: LeaseId, key: &[u8]) -> Result<(), Fault> {
        self.note(Changed::More);
        let mut leases = self.txn.open_table(LEASES).map_err(fault)?;
        leases.insert(lease_row(id, key).as_slice(), 0).map_err(fault)?;
        Ok(())
    }

    fn detach(&mut self, id: LeaseId, key: &[u8]) -> Result<(), Fault> {
        self.note(Changed::More);
        let mut leases = self.txn.open_table(LEASES).map_err(fault)?;
        leases.remove(lease_row(id, key).as_slice()).map_err(fault)?;
        Ok(())
    }
}
