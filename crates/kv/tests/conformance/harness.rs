//! What a case needs from a backend, and shorthands the cases share.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use thane_kv::{
    Compare, Entry, HistoryLimits, LeaseId, ManualTime, MemoryOptions, MemoryStore, Mutation, Query, RedbOptions,
    RedbStore, Revision, Store, Txn, TxnOutcome, Watch, WatchLimits,
};

/// A backend under test: one fresh, empty store and the power to let time pass.
pub(crate) trait Backend {
    /// The store.
    fn store(&self) -> Arc<dyn Store>;

    /// Returns when the store has noticed that `by` has passed.
    fn pass(&self, by: Duration) -> BoxFuture<'_, ()>;
}

/// The in-memory store.
pub(crate) struct Memory {
    store: Arc<MemoryStore>,
    time: Arc<ManualTime>,
}

impl Memory {
    pub(crate) fn new(watch: WatchLimits) -> Self {
        let time = Arc::new(ManualTime::default());
        let options = MemoryOptions { time: time.clone(), watch, history: unhurried(), ..MemoryOptions::default() };
        Self { store: MemoryStore::new(options), time }
    }
}

impl Backend for Memory {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn pass(&self, by: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.time.advance(by);
            self.store.tick();
        })
    }
}

/// The store on disk.
pub(crate) struct Redb {
    store: Arc<RedbStore>,
    time: Arc<ManualTime>,
    _directory: tempfile::TempDir,
}

impl Redb {
    pub(crate) fn new(watch: WatchLimits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let time = Arc::new(ManualTime::default());
        let options = RedbOptions { time: time.clone(), watch, history: unhurried(), ..RedbOptions::default() };
        let store = RedbStore::open(directory.path().join("kv"), options).unwrap();
        Self { store, time, _directory: directory }
    }
}

impl Backend for Redb {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn pass(&self, by: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.time.advance(by);
            self.store.tick().await.unwrap();
        })
    }
}

/// History that outlives every lease of the cases.
fn unhurried() -> HistoryLimits {
    HistoryLimits { age: Duration::from_secs(1_000_000), ..HistoryLimits::default() }
}

/// Queues and pages so small that watchers keep falling back to history.
pub(crate) fn tight() -> WatchLimits {
    WatchLimits { queue_events: 2, queue_bytes: 64, page_events: 3, page_bytes: 128, page_revisions: 4 }
}

/// Runs a case.
pub(crate) fn run(case: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(case);
}

pub(crate) fn key(name: &str) -> Bytes {
    Bytes::copy_from_slice(name.as_bytes())
}

pub(crate) fn put(name: &str, value: &str) -> Mutation {
    Mutation::Put { key: key(name), value: key(value), lease: None }
}

pub(crate) fn put_on(name: &str, value: &str, lease: LeaseId) -> Mutation {
    Mutation::Put { key: key(name), value: key(value), lease: Some(lease) }
}

pub(crate) fn delete(name: &str) -> Mutation {
    Mutation::Delete { key: key(name) }
}

pub(crate) fn at(name: &str, revision: Revision) -> Compare {
    Compare::ModRevision(key(name), revision)
}

pub(crate) fn txn(compares: &[Compare], mutations: &[Mutation]) -> Txn {
    Txn { compares: compares.to_vec(), mutations: mutations.to_vec() }
}

/// Writes without conditions and returns the revision.
pub(crate) async fn write(store: &Arc<dyn Store>, mutations: &[Mutation]) -> Revision {
    match store.txn(txn(&[], mutations)).await.unwrap() {
        TxnOutcome::Committed { revision, .. } => revision,
        TxnOutcome::Conflict { .. } => panic!("a transaction without conditions conflicted"),
    }
}

/// The value of a key now.
pub(crate) async fn value(store: &Arc<dyn Store>, name: &str) -> Option<String> {
    store.get(name.as_bytes()).await.unwrap().map(|entry| text(&entry.value))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// `key=value` of each entry.
pub(crate) fn pairs(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| format!("{}={}", text(&entry.key), text(&entry.value))).collect()
}

/// `key=value` of each entry under a prefix at a revision.
pub(crate) async fn listed(store: &Arc<dyn Store>, prefix: &str, at: Option<Revision>) -> Vec<String> {
    let page = store.range(Query { at, ..Query::prefix(key(prefix)) }).await.unwrap();
    pairs(&page.entries)
}

/// The next `count` events as `revision key=value<previous`, revisions counted from `base`.
pub(crate) async fn events(watch: &mut Box<dyn Watch>, base: Revision, count: usize) -> Vec<String> {
    let mut seen = Vec::new();
    while seen.len() < count {
        let batch = watch.next().await.unwrap();
        assert!(!batch.events.is_empty(), "next answers with events");
        for event in &batch.events {
            assert!(event.revision <= batch.revision, "an event beyond its batch");
            let side = |entry: &Option<Entry>| entry.as_ref().map_or("-".into(), |entry| text(&entry.value));
            let (now, before) = (side(&event.entry), side(&event.previous));
            seen.push(format!("{} {}={now}<{before}", event.revision - base, text(&event.key)));
        }
    }
    seen
}
