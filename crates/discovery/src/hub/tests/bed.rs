//! What the tests stand on: stores, clocks, commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use jiff::Timestamp;
use tempfile::TempDir;
use thane_kv::{
    Compaction, Entry, Error, LeaseId, LeaseStatus, MemoryOptions, MemoryStore, Page, Query, RedbOptions, RedbStore,
    Result, Revision, Store, Txn, TxnOutcome, Watch,
};
use thane_runtime::{Clock, SharedClock, Tasks};
use tokio::sync::Semaphore;

use crate::command::{Batch, Command, Done, Item, KvOp, KvVerb, Outcome, Registration};
use crate::hub::{Options, Registry};
use crate::model::{Behavior, Check, Node, Service, Session, Status};
use crate::registry::serf_health;
use crate::topic::{Row, Topic};

/// A clock that goes as tokio's does, so that a test that waits does not.
pub(super) struct PausedClock(tokio::time::Instant);

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH.saturating_add(self.monotonic()).expect("not for ever")
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

pub(super) fn clock() -> SharedClock {
    Arc::new(PausedClock(tokio::time::Instant::now()))
}

pub(super) fn memory() -> Arc<dyn Store> {
    MemoryStore::new(MemoryOptions::default())
}

/// A store in a file, opened again after it was closed.
pub(super) struct Disk(TempDir);

impl Disk {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    pub(super) fn open(&self) -> Arc<dyn Store> {
        RedbStore::open(self.0.path().join("registry"), RedbOptions::default()).expect("opens")
    }
}

/// The registry with the tasks it runs on.
pub(super) struct Running {
    pub(super) registry: Arc<Registry>,
    tasks: Tasks,
}

impl Running {
    pub(super) async fn open(store: &Arc<dyn Store>) -> Self {
        Self::open_with(store, Options::default(), clock()).await
    }

    pub(super) async fn open_with(store: &Arc<dyn Store>, options: Options, clock: SharedClock) -> Self {
        let (tasks, _) = Tasks::root("test");
        let registry = Registry::open(Arc::clone(store), options, clock, &tasks).await.expect("opens");
        Self { registry, tasks }
    }

    pub(super) async fn stop(self) {
        let late = self.tasks.shutdown(Duration::from_secs(5)).await;
        assert!(late.is_empty(), "{late:?}");
    }

    pub(super) async fn run(&self, command: Command) -> Done {
        self.registry.write_from(None, command).await.expect("happens")
    }

    pub(super) async fn rows(&self, topic: Topic) -> Vec<Row> {
        self.registry.topic(&topic).await.rows.clone()
    }

    /// How the instances of a service stand.
    pub(super) async fn statuses(&self, service: &str) -> Vec<Status> {
        let worst = |row: &Row| match row {
            Row::Instance(it) => it.checks.iter().map(|check| check.value.status).max().unwrap_or(Status::Passing),
            _ => panic!("not an instance: {row:?}"),
        };
        self.rows(Topic::Service(service.to_owned())).await.iter().map(worst).collect()
    }
}

/// A store that can be stopped and made to fail.
pub(super) struct Moody {
    inner: Arc<dyn Store>,
    pub(super) gate: Semaphore,
    pub(super) fails: AtomicBool,
    pub(super) txns: AtomicUsize,
}

impl Moody {
    pub(super) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        let gate = Semaphore::new(1);
        Arc::new(Self { inner, gate, fails: AtomicBool::new(false), txns: AtomicUsize::new(0) })
    }
}

impl Store for Moody {
    fn revision(&self) -> Revision {
        self.inner.revision()
    }

    fn compacted(&self) -> Revision {
        self.inner.compacted()
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Entry>>> {
        self.inner.get(key)
    }

    fn range(&self, query: Query) -> BoxFuture<'_, Result<Page>> {
        self.inner.range(query)
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome>> {
        Box::pin(async move {
            let _pass = self.gate.acquire().await.expect("never closed");
            self.txns.fetch_add(1, Ordering::Relaxed);
            if self.fails.load(Ordering::Relaxed) {
                return Err(Error::Storage("no space left".to_owned()));
            }
            self.inner.txn(txn).await
        })
    }

    fn watch(&self, prefix: Bytes, after: Revision) -> Result<Box<dyn Watch>> {
        self.inner.watch(prefix, after)
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<Compaction>> {
        self.inner.compact(revision)
    }

    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId>> {
        self.inner.grant(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<LeaseStatus>> {
        self.inner.keep_alive(lease)
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>> {
        self.inner.revoke(lease)
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        self.inner.close()
    }
}

pub(super) fn kv(verb: KvVerb, key: &str, value: &str, session: &str) -> Command {
    let value = Bytes::from(value.to_owned());
    Command::Kv(KvOp { verb, key: key.to_owned(), value, flags: 0, index: 0, session: session.to_owned() })
}

pub(super) fn set(key: &str, value: &str) -> Command {
    kv(KvVerb::Set, key, value, "")
}

pub(super) fn lock(key: &str, session: &str) -> Command {
    kv(KvVerb::Lock, key, "", session)
}

pub(super) fn node(name: &str) -> Node {
    Node { name: name.to_owned(), address: "10.0.0.1".to_owned(), ..Node::default() }
}

pub(super) fn service(id: &str, name: &str) -> Service {
    Service { id: id.to_owned(), name: name.to_owned(), ..Service::default() }
}

pub(super) fn instance(node_name: &str, name: &str, id: &str) -> Command {
    let check = Check { id: format!("service:{id}"), service_id: id.to_owned(), ..serf_health(true) };
    Command::Register(Box::new(Registration {
        node: node(node_name),
        keep_node: false,
        service: Some(service(id, name)),
        checks: vec![check],
    }))
}

pub(super) fn session(id: &str, node: &str, ttl: Option<u64>) -> Command {
    Command::CreateSession(Session {
        id: id.to_owned(),
        node: node.to_owned(),
        lock_delay: Duration::from_secs(15),
        behavior: Behavior::Release,
        ttl: ttl.map(Duration::from_secs),
        ..Session::default()
    })
}

pub(super) fn batch(agent: &str, sequence: u64, full: bool, ids: &[&str]) -> Command {
    let items = ids.iter().map(|id| Item::Service(Box::new(service(id, "web")))).collect();
    let node = node(&format!("node-of-{agent}"));
    Command::Agent(agent.to_owned(), Batch { node, incarnation: "life".to_owned(), sequence, full, items })
}

pub(super) fn is_true(done: &Done) -> bool {
    done.outcome == Outcome::Kv(true)
}
