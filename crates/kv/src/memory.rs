//! The store in memory, for simulation and tests: commits happen in the caller, there is no thread, and time passes
//! only as its clock says.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::engine::{Engine, Numbers, Space, check_shape};
use crate::fault::Fault;
use crate::hub::Hub;
use crate::lease::Leases;
use crate::metrics::{Metrics, gauge};
use crate::options::MemoryOptions;
use crate::snapshot::{self, Found, LogPage, Logged, ReadError, Snapshot, Visit, VisitLog};
use crate::store::{
    Compaction, Entry, Error, Event, LeaseId, LeaseStatus, Page, Query, Result, Revision, Store, Txn, TxnOutcome, Watch,
};
use crate::watch::{self, LogSource};

/// Names the medium in errors.
const MEDIUM: &str = "memory";

/// A store that forgets everything when it is dropped.
pub struct MemoryStore(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    hub: Hub,
    metrics: Metrics,
    options: MemoryOptions,
}

struct State {
    engine: Engine,
    tables: Tables,
    closed: bool,
}

#[derive(Default)]
struct Tables {
    current: BTreeMap<Bytes, Entry>,
    log: BTreeMap<Revision, Vec<Arc<Event>>>,
    numbers: Numbers,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(options: MemoryOptions) -> Arc<Self> {
        let metrics = Metrics::default();
        let engine =
            Engine::new(options.limits.clone(), options.history.clone(), Numbers::default(), Leases::default());
        let state = Mutex::new(State { engine, tables: Tables::default(), closed: false });
        let hub = Hub::new(0, options.watch.clone(), metrics.clone());
        Arc::new(Self(Arc::new(Shared { state, hub, metrics, options })))
    }

    /// What the store tells about itself.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Does what has become due: ends leases, drops old history. Every other call does that first, too.
    pub fn tick(&self) {
        let _ = self.0.with(|_, _| Ok(Ok(())));
    }
}

impl Shared {
    /// Runs a request after what has become due, and publishes the events of both.
    fn with<T>(&self, request: impl FnOnce(&mut Engine, &mut Tables) -> Result<Result<T>, Fault>) -> Result<T> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Error::Closed);
        }
        let State { engine, tables, .. } = &mut *state;
        let now = self.options.time.now();
        let run = || {
            engine.expire(tables, now, usize::MAX)?;
            tables.numbers = engine.numbers();
            let answer = request(engine, tables)?;
            engine.maintain(tables, now, usize::MAX)?;
            Ok(answer)
        };
        let answer = run().map_err(|fault: Fault| fault.into_error(MEDIUM))?;
        let numbers = engine.numbers();
        tables.numbers = numbers;
        let events = engine.take_events();
        if !events.is_empty() {
            self.hub.publish(numbers.revision, &events).wake();
        }
        self.metrics.revision.set(gauge(numbers.revision));
        self.metrics.compacted.set(gauge(numbers.compacted));
        answer
    }

    fn read<T>(&self, read: impl FnOnce(&Tables) -> Result<T, ReadError>) -> Result<T> {
        self.with(|_, tables| Ok(read(tables).map_err(|error| error.into_error(MEDIUM))))
    }
}

impl LogSource for Shared {
    fn hub(&self) -> &Hub {
        &self.hub
    }

    fn committed(&self) -> Result<Revision> {
        self.with(|engine, _| Ok(Ok(engine.numbers().revision)))
    }

    fn compacted(&self) -> Revision {
        self.state.lock().engine.numbers().compacted
    }

    fn log_page(&self, prefix: &[u8], after: Revision) -> Result<LogPage> {
        self.read(|tables| snapshot::log_page(tables, prefix, after, self.hub.limits()))
    }
}

impl Store for MemoryStore {
    fn revision(&self) -> Revision {
        self.tick();
        self.0.hub.published()
    }

    fn compacted(&self) -> Revision {
        self.tick();
        LogSource::compacted(&*self.0)
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Entry>>> {
        Box::pin(async move { self.0.read(|tables| Ok(tables.current.get(key).cloned())) })
    }

    fn range(&self, query: Query) -> BoxFuture<'_, Result<Page>> {
        Box::pin(async move { self.0.read(|tables| snapshot::range(tables, &query)) })
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome>> {
        Box::pin(async move {
            self.0.with(|engine, tables| {
                if let Err(error) = check_shape(&self.0.options.limits, &txn).and_then(|_| engine.check(&txn)) {
                    return Ok(Err(error));
                }
                engine.apply(tables, txn).map(Ok)
            })
        })
    }

    fn watch(&self, prefix: Bytes, after: Revision) -> Result<Box<dyn Watch>> {
        self.0.with(|_, _| Ok(Ok(())))?;
        watch::open(&self.0, prefix, after)
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<Compaction>> {
        Box::pin(async move {
            self.0.with(|engine, tables| {
                if let Err(error) = engine.check_compact(revision) {
                    return Ok(Err(error));
                }
                Ok(Ok(Compaction { compacted: engine.compact(tables, revision)? }))
            })
        })
    }

    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId>> {
        Box::pin(async move {
            let now = self.0.options.time.now();
            self.0.with(|engine, tables| match engine.check_grant(ttl) {
                Ok(()) => engine.grant(tables, ttl, now).map(Ok),
                Err(error) => Ok(Err(error)),
            })
        })
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<LeaseStatus>> {
        Box::pin(async move {
            let now = self.0.options.time.now();
            self.0.with(|engine, _| Ok(engine.keep_alive(lease, now)))
        })
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.0.with(|engine, tables| match engine.check_lease(lease) {
                Ok(()) => engine.revoke(tables, lease).map(Ok),
                Err(error) => Ok(Err(error)),
            })
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.0.state.lock().closed = true;
            self.0.hub.end(&Error::Closed);
            Ok(())
        })
    }
}

impl Space for Tables {
    fn get(&self, key: &[u8]) -> Result<Option<Entry>, Fault> {
        Ok(self.current.get(key).cloned())
    }

    fn set(&mut self, entry: &Entry) -> Result<(), Fault> {
        self.current.insert(entry.key.clone(), entry.clone());
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), Fault> {
        self.current.remove(key);
        Ok(())
    }

    fn append(&mut self, revision: Revision, _log_bytes: u64, events: &[Arc<Event>]) -> Result<(), Fault> {
        self.log.insert(revision, events.to_vec());
        Ok(())
    }

    fn trim(&mut self, through: Revision, budget: usize) -> Result<bool, Fault> {
        for _ in 0..budget {
            match self.log.first_entry() {
                Some(first) if *first.key() <= through => drop(first.remove()),
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    // What follows is kept by the engine and needs no second copy in memory.

    fn save(&mut self, _numbers: Numbers) -> Result<(), Fault> {
        Ok(())
    }

    fn set_lease(&mut self, _id: LeaseId, _ttl: Duration) -> Result<(), Fault> {
        Ok(())
    }

    fn remove_lease(&mut self, _id: LeaseId) -> Result<(), Fault> {
        Ok(())
    }

    fn attach(&mut self, _id: LeaseId, _key: &[u8]) -> Result<(), Fault> {
        Ok(())
    }

    fn detach(&mut self, _id: LeaseId, _key: &[u8]) -> Result<(), Fault> {
        Ok(())
    }
}

impl Snapshot for Tables {
    fn revision(&self) -> Result<Revision, Fault> {
        Ok(self.numbers.revision)
    }

    fn compacted(&self) -> Result<Revision, Fault> {
        Ok(self.numbers.compacted)
    }

    fn scan(&self, start: &[u8], end: Option<&[u8]>, visit: &mut Visit<'_>) -> Result<(), Fault> {
        let bounds = (Bound::Included(start), end.map_or(Bound::Unbounded, Bound::Excluded));
        for entry in self.current.range::<[u8], _>(bounds).map(|(_, entry)| entry) {
            if visit(Found::Entry(entry)).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn changes(&self, after: Revision, visit: &mut VisitLog<'_>) -> Result<(), Fault> {
        for (revision, events) in self.log.range((Bound::Excluded(after), Bound::Unbounded)) {
            if let ControlFlow::Break(()) = visit(*revision, Logged::Events(events))? {
                break;
            }
        }
        Ok(())
    }
}
