//! What happens at the bounds: history, queues, restarts.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prometheus_client::registry::Registry;
use thane_kv::{
    Error, HistoryLimits, ManualTime, MemoryOptions, MemoryStore, Mutation, Query, RedbOptions, RedbStore, Result,
    Store, Txn, TxnOutcome, WatchLimits,
};

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn put(key: &str, value: &[u8], lease: Option<u64>) -> Txn {
    let key = Bytes::copy_from_slice(key.as_bytes());
    let mutations = vec![Mutation::Put { key, value: Bytes::copy_from_slice(value), lease }];
    Txn { compares: vec![], mutations }
}

fn small_history(time: &Arc<ManualTime>) -> RedbOptions {
    let history = HistoryLimits { age: Duration::from_secs(320), revisions: 320, bytes: 320_000 };
    RedbOptions { history, time: time.clone(), ..RedbOptions::default() }
}

fn metric(store: &RedbStore, name: &str) -> u64 {
    let mut registry = Registry::default();
    store.metrics().register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

/// How many revisions of history there are; all of them must be readable.
async fn kept(store: &dyn Store) -> u64 {
    let (compacted, revision) = (store.compacted(), store.revision());
    store.range(Query { at: Some(compacted), ..Query::prefix(Bytes::new()) }).await.unwrap();
    let mut watch = store.watch(Bytes::new(), compacted).unwrap();
    let mut seen = 0;
    while let Some(batch) = watch.try_next().unwrap() {
        seen += batch.events.len() as u64;
    }
    assert_eq!(seen, revision - compacted);
    seen
}

#[test]
fn history_is_bounded_by_count() {
    let directory = tempfile::tempdir().unwrap();
    let time = Arc::new(ManualTime::default());
    let path = directory.path().join("kv");
    let store = RedbStore::open(&path, small_history(&time)).unwrap();
    let memory = MemoryStore::new(MemoryOptions {
        history: small_history(&time).history,
        time: time.clone(),
        ..MemoryOptions::default()
    });
    block_on(async {
        for step in 0..1000_u32 {
            store.txn(put("a", &step.to_le_bytes(), None)).await.unwrap();
            memory.txn(put("a", &step.to_le_bytes(), None)).await.unwrap();
        }
        for store in [&*store as &dyn Store, &*memory] {
            let kept = kept(store).await;
            assert!((300..=330).contains(&kept), "{kept}");
        }
    });
    drop(store);
    // The bound also holds for history from before a restart.
    let store = RedbStore::open(&path, small_history(&time)).unwrap();
    block_on(async {
        for step in 0..100_u32 {
            store.txn(put("a", &step.to_le_bytes(), None)).await.unwrap();
        }
        assert_eq!(store.revision(), 1100);
        let kept = kept(&*store).await;
        assert!((290..=330).contains(&kept), "{kept}");
    });
}

#[test]
fn history_is_bounded_by_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let time = Arc::new(ManualTime::default());
    let store = RedbStore::open(directory.path().join("kv"), small_history(&time)).unwrap();
    block_on(async {
        for _ in 0..100 {
            store.txn(put("a", &[7; 10_000], None)).await.unwrap();
        }
        // Each revision holds the new and the previous value.
        let kept = kept(&*store).await;
        assert!((14..=17).contains(&kept), "{kept}");
    });
}

#[test]
fn history_is_bounded_by_age() {
    let directory = tempfile::tempdir().unwrap();
    let time = Arc::new(ManualTime::default());
    let store = RedbStore::open(directory.path().join("kv"), small_history(&time)).unwrap();
    block_on(async {
        store.txn(put("a", b"1", None)).await.unwrap();
        time.advance(Duration::from_secs(200));
        store.txn(put("a", b"2", None)).await.unwrap();
        time.advance(Duration::from_secs(119));
        store.tick().await.unwrap();
        assert_eq!(store.compacted(), 0);
        time.advance(Duration::from_secs(1));
        store.tick().await.unwrap();
        assert_eq!(store.compacted(), 1);
        time.advance(Duration::from_secs(1000));
        store.tick().await.unwrap();
        assert_eq!((store.compacted(), store.revision()), (2, 2));
        assert_eq!(store.get(b"a").await.unwrap().unwrap().value, "2");
    });
}

#[test]
fn a_large_compaction_is_finished_in_slices() {
    let directory = tempfile::tempdir().unwrap();
    let time = Arc::new(ManualTime::default());
    let path = directory.path().join("kv");
    let options = RedbOptions { time, ..RedbOptions::default() };
    let store = RedbStore::open(&path, options).unwrap();
    block_on(async {
        let writes = (0..6000).map(|step: u32| {
            let store = store.clone();
            async move {
                while let Err(Error::Busy) = store.txn(put(&format!("k{step}"), b"", None)).await {
                    tokio::task::yield_now().await;
                }
            }
        });
        futures::future::join_all(writes).await;
        store.compact(5999).await.unwrap();
        for _ in 0..3 {
            store.tick().await.unwrap();
        }
        assert_eq!(kept(&*store).await, 1);
    });
    drop(store);
    // Redb's own part of the file follows a head and the journal.
    let image = directory.path().join("image");
    let start = 4096 + RedbOptions::default().journal_bytes;
    std::fs::write(&image, &std::fs::read(&path).unwrap()[start..]).unwrap();
    let database = redb::Database::open(&image).unwrap();
    let txn = redb::ReadableDatabase::begin_read(&database).unwrap();
    let log: redb::TableDefinition<'_, u64, &[u8]> = redb::TableDefinition::new("log");
    assert_eq!(redb::ReadableTableMetadata::len(&txn.open_table(log).unwrap()).unwrap(), 1);
}

#[test]
fn a_full_queue_refuses_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let options = RedbOptions { queue_requests: 4, batch_requests: 2, ..RedbOptions::default() };
    let store = RedbStore::open(directory.path().join("kv"), options).unwrap();
    let outcomes: Vec<Result<TxnOutcome>> = block_on(futures::future::join_all((0..200).map(|step: u32| {
        let store = store.clone();
        async move { store.txn(put(&format!("k{step}"), b"", None)).await }
    })));
    let refused = outcomes.iter().filter(|outcome| matches!(outcome, Err(Error::Busy))).count();
    let committed = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(refused + committed, 200);
    assert!(refused > 0, "a queue of four took two hundred at once");
    assert_eq!(store.revision(), committed as u64);
    assert_eq!(metric(&store, "kv_refused_requests_total"), refused as u64);
    assert_eq!(metric(&store, "kv_queued_requests"), 0);
}

#[test]
fn many_queued_bytes_refuse_too() {
    let directory = tempfile::tempdir().unwrap();
    let options = RedbOptions { queue_bytes: 100_000, batch_bytes: 1, ..RedbOptions::default() };
    let store = RedbStore::open(directory.path().join("kv"), options).unwrap();
    block_on(async {
        // One that is larger than the whole queue still passes when nothing else waits.
        store.txn(put("large", &vec![0; 200_000], None)).await.unwrap();
        let outcomes = futures::future::join_all((0..50).map(|step: u32| {
            let store = store.clone();
            async move { store.txn(put(&format!("k{step}"), &vec![0; 50_000], None)).await }
        }))
        .await;
        assert!(outcomes.iter().any(|outcome| matches!(outcome, Err(Error::Busy))));
        assert!(outcomes.iter().any(Result::is_ok));
        store.txn(put("after", &vec![0; 50_000], None)).await.unwrap();
    });
}

fn reopen(path: &Path, time: &Arc<ManualTime>) -> Arc<RedbStore> {
    RedbStore::open(path, RedbOptions { time: time.clone(), ..RedbOptions::default() }).unwrap()
}

#[test]
fn a_lease_has_its_full_time_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let time = Arc::new(ManualTime::default());
    let path = directory.path().join("kv");
    let store = reopen(&path, &time);
    let (lease, gone) = block_on(async {
        let lease = store.grant(Duration::from_secs(10)).await.unwrap();
        let gone = store.grant(Duration::from_secs(10)).await.unwrap();
        store.txn(put("a", b"1", Some(lease))).await.unwrap();
        store.revoke(gone).await.unwrap();
        time.advance(Duration::from_secs(9));
        (lease, gone)
    });
    drop(store);
    let store = reopen(&path, &time);
    block_on(async {
        time.advance(Duration::from_secs(9));
        store.tick().await.unwrap();
        assert!(store.get(b"a").await.unwrap().is_some());
        assert!(store.grant(Duration::from_secs(1)).await.unwrap() > gone, "a lease name is used twice");
        time.advance(Duration::from_secs(1));
        store.tick().await.unwrap();
        assert!(store.get(b"a").await.unwrap().is_none());
        assert!(matches!(store.keep_alive(lease).await, Err(Error::LeaseNotFound(_))));
    });
}

#[test]
fn the_writer_wakes_by_itself_when_a_lease_ends() {
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(directory.path().join("kv"), RedbOptions::default()).unwrap();
    block_on(async {
        let lease = store.grant(Duration::from_millis(30)).await.unwrap();
        store.txn(put("a", b"1", Some(lease))).await.unwrap();
        let mut watch = store.watch(Bytes::new(), 1).unwrap();
        let batch = watch.next().await.unwrap();
        assert_eq!((batch.revision, &batch.events[0].entry), (2, &None));
    });
}

#[test]
fn watchers_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let watch = WatchLimits { queue_events: 2, ..WatchLimits::default() };
    let store = RedbStore::open(directory.path().join("kv"), RedbOptions { watch, ..RedbOptions::default() }).unwrap();
    let check = |watchers, lagging| {
        assert_eq!((metric(&store, "kv_watchers"), metric(&store, "kv_lagging_watchers")), (watchers, lagging));
    };
    block_on(async {
        let mut slow = store.watch(Bytes::new(), 0).unwrap();
        let quiet = store.watch(Bytes::from_static(b"z"), 0).unwrap();
        check(2, 0);
        for _ in 0..5 {
            store.txn(put("a", b"", None)).await.unwrap();
        }
        check(2, 1);
        let late = store.watch(Bytes::new(), 0).unwrap();
        check(3, 2);
        while slow.try_next().unwrap().is_some() {}
        check(3, 1);
        drop((slow, quiet, late));
        check(0, 0);
        assert_eq!(metric(&store, "kv_watch_overflows_total"), 1);
    });
}
