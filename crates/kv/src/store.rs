//! The interface every backend offers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;

/// A point in the store's history. Zero is "before anything was written".
pub type Revision = u64;

/// Names a lease.
pub type LeaseId = u64;

/// Why the store could not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// History up to `compacted` is gone, so a read of a state before it or a watch from before it cannot be answered.
    #[error("revision {requested} was compacted; history starts after {compacted}")]
    Compacted {
        /// What was asked for.
        requested: Revision,
        /// The newest revision whose changes are gone; the state it led to can still be read.
        compacted: Revision,
    },
    /// The revision has not happened yet.
    #[error("revision {requested} is in the future; the newest is {current}")]
    Future {
        /// What was asked for.
        requested: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// No such lease: it expired, was revoked, or never was.
    #[error("lease {0} does not exist")]
    LeaseNotFound(LeaseId),
    /// A transaction, key or value is larger than the store accepts.
    #[error("{what} is {size} and may be at most {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// How large it is.
        size: usize,
        /// The bound.
        limit: usize,
    },
    /// A transaction that makes no sense, such as one that writes a key twice.
    #[error("invalid transaction: {0}")]
    Invalid(String),
    /// Too many writes are waiting. Nothing was written; try again.
    #[error("the write queue is full")]
    Busy,
    /// The store is shutting down or its writer ended. Whether the write happened is unknown.
    #[error("the store is closed")]
    Closed,
    /// Another process holds the data directory.
    #[error("{path} is in use by another process")]
    Locked {
        /// The file that is locked.
        path: String,
    },
    /// The file is damaged or not one of ours.
    #[error("{path} cannot be read as a thane data file: {reason}")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The disk or the remote store failed.
    #[error("storage failed: {0}")]
    Storage(String),
}

impl Error {
    /// Whether the same call may succeed later without a change by the caller.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Busy | Self::Storage(_))
    }
}

/// The result of a store call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A key with its value and the history numbers that belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// The revision that created the key (since it was last absent).
    pub create_revision: Revision,
    /// The revision that last wrote it.
    pub mod_revision: Revision,
    /// How often it was written since it was created, starting at 1.
    pub version: u64,
    /// The lease it hangs on.
    pub lease: Option<LeaseId>,
}

/// Which keys to read: `start` inclusive to `end` exclusive, in byte order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// First key that may be returned.
    pub start: Bytes,
    /// First key that may not; `None` means to the end of the key space.
    pub end: Option<Bytes>,
    /// At most so many entries; `None` means all.
    pub limit: Option<usize>,
    /// As of this revision; `None` means now.
    pub at: Option<Revision>,
    /// Leave values empty.
    pub keys_only: bool,
    /// Also count the keys behind the limit (costs a walk over them).
    pub count_rest: bool,
}

impl Query {
    /// All keys that begin with `prefix`, now.
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let start = prefix.into();
        let end = prefix_end(&start);
        Self { start, end, limit: None, at: None, keys_only: false, count_rest: false }
    }
}

/// The first key that does not begin with `prefix`, if there is one.
pub fn prefix_end(prefix: &[u8]) -> Option<Bytes> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Some(end.into());
        }
    }
    None
}

/// What a range read found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The revision the answer is true for.
    pub revision: Revision,
    /// The entries in key order.
    pub entries: Vec<Entry>,
    /// Whether the limit cut something off.
    pub more: bool,
    /// How many keys the limit cut off, if that was asked for.
    pub rest: Option<u64>,
}

/// A condition on the state a transaction finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compare {
    /// The key was last written at this revision; zero means it is absent.
    ModRevision(Bytes, Revision),
    /// The key exists.
    Exists(Bytes),
}

impl Compare {
    /// The key the condition is about.
    pub fn key(&self) -> &Bytes {
        match self {
            Self::ModRevision(key, _) | Self::Exists(key) => key,
        }
    }
}

/// A change to one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mutation {
    /// Write a value, optionally on a lease.
    Put {
        /// The key.
        key: Bytes,
        /// Its new value.
        value: Bytes,
        /// The lease it hangs on; a write without one detaches the key.
        lease: Option<LeaseId>,
    },
    /// Remove a key; removing an absent key changes nothing.
    Delete {
        /// The key.
        key: Bytes,
    },
}

impl Mutation {
    /// The key it changes.
    pub fn key(&self) -> &Bytes {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }
}

/// Conditions and, if all hold, changes: all of them or none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Txn {
    /// All must hold.
    pub compares: Vec<Compare>,
    /// What is then written, each key at most once.
    pub mutations: Vec<Mutation>,
}

/// What became of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TxnOutcome {
    /// The conditions held and the changes are durable.
    Committed {
        /// The revision of the changes (the current one if nothing changed).
        revision: Revision,
        /// What each mutation replaced, in their order.
        previous: Vec<Option<Entry>>,
    },
    /// A condition did not hold; nothing was written.
    Conflict {
        /// The revision at which that was seen.
        revision: Revision,
        /// The present entry of each compared key, in their order.
        current: Vec<Option<Entry>>,
    },
}

/// One key's change, as a watcher sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The key.
    pub key: Bytes,
    /// The revision of the change.
    pub revision: Revision,
    /// What it is now; `None` after a deletion.
    pub entry: Option<Entry>,
    /// What it was before.
    pub previous: Option<Entry>,
}

/// Everything a watcher has missed up to `revision`; never part of a revision.
#[derive(Debug, Clone)]
pub struct WatchBatch {
    /// The watcher has now seen all matching events up to and including this revision.
    pub revision: Revision,
    /// The matching events in order; empty when the batch only reports progress.
    pub events: Vec<Arc<Event>>,
}

/// An open watch: batches in revision order, without gaps, until an error ends it.
///
/// A slow reader costs bounded memory: its queue is dropped and it reads the store's history instead; when that was
/// compacted meanwhile the watch ends with [`Error::Compacted`].
pub trait Watch: Send {
    /// Waits for the next batch. Cancel safe.
    fn next(&mut self) -> BoxFuture<'_, Result<WatchBatch>>;

    /// A batch that is ready now, if any, without waiting; also reports progress without events.
    fn try_next(&mut self) -> Result<Option<WatchBatch>>;
}

/// A lease as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseStatus {
    /// Its name.
    pub id: LeaseId,
    /// What it was granted for.
    pub ttl: Duration,
    /// What is left of it.
    pub remaining: Duration,
}

/// What a compaction left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compaction {
    /// The newest revision whose history is gone.
    pub compacted: Revision,
}

/// The store. Handles are shared as `Arc<dyn Store>`.
pub trait Store: Send + Sync + 'static {
    /// The newest durable revision.
    fn revision(&self) -> Revision;

    /// The newest revision whose history is gone (zero: none).
    fn compacted(&self) -> Revision;

    /// One key, now.
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Entry>>>;

    /// Many keys, now or at a revision.
    fn range(&self, query: Query) -> BoxFuture<'_, Result<Page>>;

    /// Compare and write. Answers once durable.
    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome>>;

    /// All changes to keys under `prefix` with a revision greater than `after`.
    fn watch(&self, prefix: Bytes, after: Revision) -> Result<Box<dyn Watch>>;

    /// Drops history up to and including `revision`; the present state stays.
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<Compaction>>;

    /// A lease: when it is not kept alive for `ttl`, its keys are deleted (in one transaction).
    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId>>;

    /// Gives the lease its full time again.
    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<LeaseStatus>>;

    /// Ends the lease and deletes its keys.
    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>>;

    /// Stops taking writes, finishes those accepted, and closes the files.
    fn close(&self) -> BoxFuture<'_, Result<()>>;
}
