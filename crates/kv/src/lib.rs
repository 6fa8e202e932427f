//! An MVCC key-value store with monotonic revisions.
//!
//! The interface in [`store`] is what every backend offers and what the conformance suite in `tests/` is written
//! over. A revision is a number that grows by one with every committed transaction that writes something; all keys a
//! transaction writes share its revision. An acknowledged transaction is durable.

mod store;

pub use store::{
    Compaction, Compare, Entry, Error, Event, LeaseId, LeaseStatus, Mutation, Page, Query, Result, Revision, Store,
    Txn, TxnOutcome, Watch, WatchBatch,
};
