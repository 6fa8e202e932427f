//! Random sequences of operations on a store and on a reference, which must never differ.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod reference;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use reference::Reference;
use thane_kv::{
    Compare, Error, HistoryLimits, LeaseId, ManualTime, MemoryOptions, MemoryStore, Mutation, Query, RedbOptions,
    RedbStore, Revision, Store, Txn, Watch, WatchLimits,
};

/// One step of a sequence. Small numbers are reduced to what exists when the step is taken.
#[derive(Debug, Clone)]
enum Step {
    Txn { compares: Vec<(u8, CompareWith)>, mutations: Vec<(u8, Change)> },
    Range { start: u8, end: Option<u8>, limit: Option<u8>, back: Option<u8>, keys_only: bool },
    Compact { back: u8 },
    Watch { prefix: u8, back: u8 },
    Poll { watch: u8 },
    Unwatch { watch: u8 },
    Grant { seconds: u8 },
    KeepAlive { lease: u8 },
    Revoke { lease: u8 },
    Pass { seconds: u8 },
    Reopen,
}

#[derive(Debug, Clone)]
enum CompareWith {
    Present,
    Absent,
    Older,
    Exists,
}

#[derive(Debug, Clone)]
enum Change {
    Put(u8),
    PutOnLease(u8, u8),
    Delete,
}

const KEYS: [&str; 8] = ["a", "a/1", "a/2", "a/22", "b", "b/1", "c", "\u{7f}"];
const PREFIXES: [&str; 5] = ["", "a", "a/2", "b/", "none"];

fn step() -> impl Strategy<Value = Step> {
    let compare = prop_oneof![
        Just(CompareWith::Present),
        Just(CompareWith::Absent),
        Just(CompareWith::Older),
        Just(CompareWith::Exists)
    ];
    let change = prop_oneof![
        4 => any::<u8>().prop_map(Change::Put),
        1 => any::<(u8, u8)>().prop_map(|(value, lease)| Change::PutOnLease(value, lease)),
        2 => Just(Change::Delete),
    ];
    let compares = prop::collection::vec((any::<u8>(), compare), 0..2);
    let mutations = prop::collection::vec((any::<u8>(), change), 0..4);
    prop_oneof![
        10 => (compares, mutations).prop_map(|(compares, mutations)| Step::Txn { compares, mutations }),
        4 => any::<(u8, Option<u8>, Option<u8>, Option<u8>, bool)>()
            .prop_map(|(start, end, limit, back, keys_only)| Step::Range { start, end, limit, back, keys_only }),
        1 => any::<u8>().prop_map(|back| Step::Compact { back }),
        2 => any::<(u8, u8)>().prop_map(|(prefix, back)| Step::Watch { prefix, back }),
        4 => any::<u8>().prop_map(|watch| Step::Poll { watch }),
        1 => any::<u8>().prop_map(|watch| Step::Unwatch { watch }),
        1 => (1..20_u8).prop_map(|seconds| Step::Grant { seconds }),
        1 => any::<u8>().prop_map(|lease| Step::KeepAlive { lease }),
        1 => any::<u8>().prop_map(|lease| Step::Revoke { lease }),
        2 => (0..10_u8).prop_map(|seconds| Step::Pass { seconds }),
        1 => Just(Step::Reopen),
    ]
}

/// Where the store under test lives.
enum Place {
    Memory(Arc<MemoryStore>),
    Redb(Option<Arc<RedbStore>>, tempfile::TempDir),
}

struct Watched {
    watch: Box<dyn Watch>,
    prefix: &'static str,
    position: Revision,
}

struct Run {
    place: Place,
    time: Arc<ManualTime>,
    reference: Reference,
    watches: Vec<Watched>,
    leases: Vec<LeaseId>,
}

fn watch_limits() -> WatchLimits {
    WatchLimits { queue_events: 4, queue_bytes: 256, page_events: 3, page_bytes: 256, page_revisions: 5 }
}

fn unhurried() -> HistoryLimits {
    HistoryLimits { age: Duration::from_secs(1_000_000), ..HistoryLimits::default() }
}

fn open(directory: &tempfile::TempDir, time: &Arc<ManualTime>) -> Arc<RedbStore> {
    let options =
        RedbOptions { time: time.clone(), watch: watch_limits(), history: unhurried(), ..RedbOptions::default() };
    RedbStore::open(directory.path().join("kv"), options).unwrap()
}

impl Run {
    fn memory() -> Self {
        let time = Arc::new(ManualTime::default());
        let options = MemoryOptions {
            time: time.clone(),
            watch: watch_limits(),
            history: unhurried(),
            ..MemoryOptions::default()
        };
        Self::new(Place::Memory(MemoryStore::new(options)), time)
    }

    fn redb() -> Self {
        let time = Arc::new(ManualTime::default());
        let directory = tempfile::tempdir().unwrap();
        Self::new(Place::Redb(Some(open(&directory, &time)), directory), time)
    }

    fn new(place: Place, time: Arc<ManualTime>) -> Self {
        Self { place, time, reference: Reference::new(), watches: Vec::new(), leases: Vec::new() }
    }

    fn store(&self) -> Arc<dyn Store> {
        match &self.place {
            Place::Memory(store) => store.clone(),
            Place::Redb(store, _) => store.clone().unwrap(),
        }
    }

    async fn run(mut self, steps: Vec<Step>) {
        for step in steps {
            self.take(step).await;
            let store = self.store();
            assert_eq!(store.revision(), self.reference.revision());
            assert_eq!(store.compacted(), self.reference.compacted);
        }
        self.reopen();
        let page = self.store().range(Query::prefix(Bytes::new())).await.unwrap();
        assert!(page.entries.iter().eq(self.reference.present().values()));
        for watched in &mut self.watches {
            poll(watched, &self.reference);
        }
    }

    async fn take(&mut self, step: Step) {
        let store = self.store();
        let lease = |index: u8| self.leases.get(usize::from(index) % self.leases.len().max(1)).copied().unwrap_or(99);
        match step {
            Step::Txn { compares, mutations } => self.txn(compares, mutations).await,
            Step::Range { start, end, limit, back, keys_only } => self.range(start, end, limit, back, keys_only).await,
            Step::Compact { back } => {
                let revision = self.reference.revision().saturating_sub(u64::from(back % 16));
                self.reference.compacted = self.reference.compacted.max(revision);
                assert_eq!(store.compact(revision).await.unwrap().compacted, self.reference.compacted);
            }
            Step::Watch { prefix, back } => self.watch(prefix, back),
            Step::Poll { watch } => {
                let count = self.watches.len().max(1);
                if let Some(watched) = self.watches.get_mut(usize::from(watch) % count)
                    && !poll(watched, &self.reference)
                {
                    self.watches.swap_remove(usize::from(watch) % count);
                }
            }
            Step::Unwatch { watch } => {
                if !self.watches.is_empty() {
                    self.watches.swap_remove(usize::from(watch) % self.watches.len());
                }
            }
            Step::Grant { seconds } => {
                let ttl = Duration::from_secs(seconds.into());
                let id = store.grant(ttl).await.unwrap();
                assert!(!self.leases.contains(&id), "a lease name is used twice");
                self.leases.push(id);
                self.reference.leases.insert(id, (ttl, self.reference.now + ttl));
            }
            Step::KeepAlive { lease: index } => {
                let id = lease(index);
                let kept = store.keep_alive(id).await;
                match self.reference.leases.get_mut(&id) {
                    Some((ttl, deadline)) => {
                        *deadline = self.reference.now + *ttl;
                        assert_eq!(kept.unwrap().ttl, *ttl);
                    }
                    None => assert!(matches!(kept, Err(Error::LeaseNotFound(_)))),
                }
            }
            Step::Revoke { lease: index } => {
                let id = lease(index);
                assert_eq!(store.revoke(id).await.is_ok(), self.reference.leases.contains_key(&id));
                self.reference.end_lease(id);
            }
            Step::Pass { seconds } => {
                self.time.advance(Duration::from_secs(seconds.into()));
                self.reference.pass(Duration::from_secs(seconds.into()));
                match &self.place {
                    Place::Memory(store) => store.tick(),
                    Place::Redb(store, _) => store.as_ref().unwrap().tick().await.unwrap(),
                }
            }
            Step::Reopen => {
                drop(store);
                self.reopen();
            }
        }
    }

    async fn txn(&mut self, compares: Vec<(u8, CompareWith)>, mutations: Vec<(u8, Change)>) {
        let name = |index: u8| Bytes::from_static(KEYS[usize::from(index) % KEYS.len()].as_bytes());
        let present = |key: &Bytes| self.reference.present().get(key).map_or(0, |entry| entry.mod_revision);
        let compares = compares.into_iter().map(|(key, with)| match (name(key), with) {
            (key, CompareWith::Present) => Compare::ModRevision(key.clone(), present(&key)),
            (key, CompareWith::Absent) => Compare::ModRevision(key, 0),
            (key, CompareWith::Older) => Compare::ModRevision(key.clone(), present(&key).saturating_sub(1)),
            (key, CompareWith::Exists) => Compare::Exists(key),
        });
        let mut lease_missing = false;
        let mutations: Vec<_> = mutations
            .into_iter()
            .map(|(key, change)| {
                let key = name(key);
                let (value, lease) = match change {
                    Change::Delete => return Mutation::Delete { key },
                    Change::Put(value) => (value, None),
                    Change::PutOnLease(value, lease) => {
                        let id = self.leases.get(usize::from(lease) % self.leases.len().max(1)).copied();
                        (value, Some(id.unwrap_or(99)))
                    }
                };
                lease_missing |= lease.is_some_and(|id| !self.reference.leases.contains_key(&id));
                let value = Bytes::from(vec![value; usize::from(value)]);
                Mutation::Put { key, value, lease }
            })
            .collect();
        let txn = Txn { compares: compares.collect(), mutations };
        let keys: std::collections::BTreeSet<_> = txn.mutations.iter().map(Mutation::key).collect();
        let twice = keys.len() < txn.mutations.len();
        let outcome = self.store().txn(txn.clone()).await;
        match outcome {
            Err(Error::Invalid(_)) if twice => {}
            Err(Error::LeaseNotFound(_)) if lease_missing => {}
            outcome => assert_eq!(outcome.unwrap(), self.reference.apply(&txn)),
        }
    }

    async fn range(&self, start: u8, end: Option<u8>, limit: Option<u8>, back: Option<u8>, keys_only: bool) {
        let name = |index: u8| Bytes::from_static(KEYS[usize::from(index) % KEYS.len()].as_bytes());
        let limit = limit.map(|limit| usize::from(limit) % 6);
        let current = self.reference.revision();
        let at = back.map(|back| current.saturating_sub(u64::from(back % 16)));
        let query = Query { start: name(start), end: end.map(name), limit, at, keys_only, count_rest: true };
        let result = self.store().range(query.clone()).await;
        let revision = at.unwrap_or(current);
        if revision < self.reference.compacted {
            assert!(matches!(result, Err(Error::Compacted { .. })), "{result:?}");
            return;
        }
        let page = result.unwrap();
        let mut expected = self.reference.range(&query, revision);
        if keys_only {
            for entry in &mut expected {
                entry.value = Bytes::new();
            }
        }
        let cut = limit.unwrap_or(usize::MAX).min(expected.len());
        assert_eq!(page.rest, Some((expected.len() - cut) as u64));
        assert_eq!(page.more, expected.len() > cut);
        assert_eq!(page.revision, revision);
        assert_eq!(page.entries, expected[..cut]);
    }

    fn watch(&mut self, prefix: u8, back: u8) {
        let prefix = PREFIXES[usize::from(prefix) % PREFIXES.len()];
        let position = self.reference.revision().saturating_sub(u64::from(back % 16));
        let watch = self.store().watch(Bytes::from_static(prefix.as_bytes()), position);
        if position < self.reference.compacted {
            assert!(matches!(watch, Err(Error::Compacted { .. })));
        } else if self.watches.len() < 8 {
            self.watches.push(Watched { watch: watch.unwrap(), prefix, position });
        }
    }

    fn reopen(&mut self) {
        if let Place::Redb(store, directory) = &mut self.place {
            self.watches.clear();
            drop(store.take());
            *store = Some(open(directory, &self.time));
            self.reference.restart();
        }
    }
}

/// Takes what a watch has ready and compares it; false if the watch has ended.
fn poll(watched: &mut Watched, reference: &Reference) -> bool {
    loop {
        let batch = match watched.watch.try_next() {
            Ok(Some(batch)) => batch,
            Ok(None) => break,
            Err(error) => {
                assert!(matches!(error, Error::Compacted { .. }), "{error}");
                assert!(watched.position < reference.compacted, "a watch ended without need");
                return false;
            }
        };
        assert!(batch.revision > watched.position);
        let mut events = batch.events.iter().peekable();
        for revision in watched.position + 1..=batch.revision {
            let mut seen = Vec::new();
            while let Some(event) = events.next_if(|event| event.revision == revision) {
                seen.push((event.key.clone(), event.entry.clone(), event.previous.clone()));
            }
            seen.sort_by(|left, right| left.0.cmp(&right.0));
            assert_eq!(seen, reference.changes(revision, watched.prefix.as_bytes()));
        }
        assert!(events.next().is_none(), "an event outside its batch");
        watched.position = batch.revision;
    }
    assert_eq!(watched.position, reference.revision(), "a drained watch knows the newest revision");
    true
}

fn block_on(run: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn memory_does_what_the_reference_does(steps in prop::collection::vec(step(), 1..120)) {
        block_on(Run::memory().run(steps));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn redb_does_what_the_reference_does(steps in prop::collection::vec(step(), 1..120)) {
        block_on(Run::redb().run(steps));
    }
}
