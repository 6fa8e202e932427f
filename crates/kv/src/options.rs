//! Bounds of a store and their defaults.

use std::sync::Arc;
use std::time::Duration;

use crate::time::{SystemTime, Time};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// What a single request may be. A request beyond a bound is refused with [`crate::Error::TooLarge`].
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of a key. Kubernetes keys stay under 600 bytes; the default leaves room.
    pub key_bytes: usize,
    /// Bytes of a value. Twice the largest object the API server stores.
    pub value_bytes: usize,
    /// Compares and mutations of one transaction, each.
    pub txn_operations: usize,
    /// Bytes of all keys and values of one transaction.
    pub txn_bytes: usize,
    /// Keys that may hang on one lease; they are deleted in one transaction.
    pub lease_keys: usize,
    /// Leases that may exist at once; each costs about a hundred bytes of memory.
    pub leases: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            key_bytes: 4 * KIB,
            value_bytes: 4 * MIB,
            txn_operations: 1024,
            txn_bytes: 16 * MIB,
            lease_keys: 65_536,
            leases: 1 << 20,
        }
    }
}

/// How much history is kept. Whatever bound is met first starts compaction, which removes about a thirty-second of the
/// history at a time.
#[derive(Debug, Clone)]
pub struct HistoryLimits {
    /// Changes older than this go. What was there before a restart counts as written at the restart.
    pub age: Duration,
    /// At most so many revisions.
    pub revisions: u64,
    /// At most so many bytes of changes (each holds the new and the previous value).
    pub bytes: u64,
}

impl Default for HistoryLimits {
    fn default() -> Self {
        Self { age: Duration::from_mins(5), revisions: 500_000, bytes: 256 * MIB as u64 }
    }
}

/// What a watcher may hold in memory.
#[derive(Debug, Clone)]
pub struct WatchLimits {
    /// Events queued for one watcher before it has to read history instead. Events are shared among watchers.
    pub queue_events: usize,
    /// Bytes of the events queued for one watcher.
    pub queue_bytes: usize,
    /// Events a watcher reads from history at once.
    pub page_events: usize,
    /// Bytes of events a watcher reads from history at once (exceeded by at most one transaction).
    pub page_bytes: usize,
    /// Revisions a watcher walks over in search of its events before others get a turn.
    pub page_revisions: usize,
}

impl Default for WatchLimits {
    fn default() -> Self {
        Self { queue_events: 1024, queue_bytes: 8 * MIB, page_events: 512, page_bytes: 2 * MIB, page_revisions: 4096 }
    }
}

/// How the in-memory store behaves.
#[derive(Clone)]
pub struct MemoryOptions {
    /// Bounds of requests.
    pub limits: Limits,
    /// Bounds of history.
    pub history: HistoryLimits,
    /// Bounds of watches.
    pub watch: WatchLimits,
    /// The clock for leases and history.
    pub time: Arc<dyn Time>,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            history: HistoryLimits::default(),
            watch: WatchLimits::default(),
            time: Arc::new(SystemTime::new()),
        }
    }
}

/// How the store on disk behaves.
#[derive(Clone)]
pub struct RedbOptions {
    /// Bounds of requests.
    pub limits: Limits,
    /// Bounds of history.
    pub history: HistoryLimits,
    /// Bounds of watches.
    pub watch: WatchLimits,
    /// The clock for leases and history.
    pub time: Arc<dyn Time>,
    /// Requests that may wait for the writer; beyond it callers get [`crate::Error::Busy`]. A few batches' worth: more
    /// would only make them wait longer.
    pub queue_requests: usize,
    /// Bytes of the requests that may wait for the writer.
    pub queue_bytes: usize,
    /// Requests committed together at most.
    pub batch_requests: usize,
    /// Bytes committed together at most (exceeded by at most one transaction), which bounds how long a write waits for
    /// the one before it.
    pub batch_bytes: usize,
    /// Bytes of a new file set aside for its journal, in which small writes become durable before they reach their place.
    pub journal_bytes: usize,
    /// Memory for pages of the file. The operating system caches the file as well, so a modest size does.
    pub cache_bytes: usize,
    /// A file up to this size is read through once when it is opened and its checksums are verified (one to two
    /// milliseconds per MiB); a larger one is only checked where it is read, unless it was not closed cleanly.
    pub verify_bytes: u64,
}

impl Default for RedbOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            history: HistoryLimits::default(),
            watch: WatchLimits::default(),
            time: Arc::new(SystemTime::new()),
            queue_requests: 4096,
            queue_bytes: 64 * MIB,
            batch_requests: 1024,
            batch_bytes: 8 * MIB,
            journal_bytes: 4 * MIB,
            cache_bytes: 64 * MIB,
            verify_bytes: 128 * MIB as u64,
        }
    }
}
