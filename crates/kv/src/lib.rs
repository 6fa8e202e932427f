//! An MVCC key-value store with monotonic revisions.
//!
//! The interface in [`Store`] is what every backend offers and what the conformance suite in `tests/` is written
//! over. A revision is a number that grows by one with every committed transaction that writes something; all keys a
//! transaction writes share its revision. An acknowledged transaction is durable.
//!
//! Two backends share one set of rules: [`RedbStore`] keeps everything in one file, [`MemoryStore`] nothing beyond its
//! own life.

mod engine;
mod fault;
mod history;
mod hub;
mod lease;
mod memory;
mod metrics;
mod options;
mod record;
mod redb;
mod snapshot;
mod store;
mod time;
mod watch;

pub use memory::MemoryStore;
pub use metrics::Metrics;
pub use options::{HistoryLimits, Limits, MemoryOptions, RedbOptions, WatchLimits};
pub use redb::{RedbStore, Stopped};
pub use store::{
    Compaction, Compare, Entry, Error, Event, LeaseId, LeaseStatus, Mutation, Page, Query, Result, Revision, Store,
    Txn, TxnOutcome, Watch, WatchBatch, prefix_end,
};
pub use time::{ManualTime, SystemTime, Time};
