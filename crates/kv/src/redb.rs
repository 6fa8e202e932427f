//! The store on disk: one file of redb's pages behind a short journal, one writer thread that commits waiting requests
//! together, readers that never wait for it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use ::redb::Database;
use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{oneshot, watch as signal};

use crate::engine::check_shape;
use crate::hub::Hub;
use crate::metrics::{Metrics, gauge};
use crate::options::RedbOptions;
use crate::store::{
    Compaction, Entry, Error, LeaseId, LeaseStatus, Page, Query, Result, Revision, Store, Txn, TxnOutcome, Watch,
};
use crate::watch;

mod file;
mod journal;
mod open;
mod reader;
mod service;
mod space;
mod writer;

use open::Opened;
use service::{Seat, Service};
use writer::{Request, Writer};

/// A store in one file. Dropping it finishes accepted writes and closes the file.
pub struct RedbStore {
    shared: Arc<Shared>,
    requests: RwLock<Option<SyncSender<Request>>>,
    seat: Arc<Seat>,
    thread: Mutex<Option<JoinHandle<()>>>,
    stopped: signal::Receiver<bool>,
}

/// What callers, watchers and the writer share.
struct Shared {
    path: String,
    options: RedbOptions,
    /// Empty once closed.
    database: RwLock<Option<Arc<Database>>>,
    compacted: AtomicU64,
    hub: Hub,
    metrics: Metrics,
    /// Why the writer ended, if not because it was told to.
    failure: Mutex<Option<Error>>,
    queued_bytes: AtomicUsize,
}

impl RedbStore {
    /// Opens the file or, if there is none, creates it.
    ///
    /// Fails with [`Error::Locked`] if another process has it open and with [`Error::Damaged`] if it is not a sound
    /// file of ours; an existing file is never replaced.
    pub fn open(path: impl AsRef<Path>, options: RedbOptions) -> Result<Arc<Self>> {
        Self::start(open::open(path.as_ref(), &options)?, options)
    }

    fn start(opened: Opened, options: RedbOptions) -> Result<Arc<Self>> {
        let metrics = Metrics::default();
        let numbers = opened.engine.numbers();
        metrics.revision.set(gauge(numbers.revision));
        metrics.compacted.set(gauge(numbers.compacted));
        let (sender, receiver) = sync_channel(options.queue_requests);
        let database = Arc::new(opened.database);
        let shared = Arc::new(Shared {
            path: opened.path,
            database: RwLock::new(Some(Arc::clone(&database))),
            compacted: AtomicU64::new(numbers.compacted),
            hub: Hub::new(numbers.revision, options.watch.clone(), metrics.clone()),
            metrics,
            failure: Mutex::new(None),
            queued_bytes: AtomicUsize::new(0),
            options,
        });
        let writer = Writer::new(Arc::clone(&shared), database, opened.engine, opened.journal);
        let seat = Arc::new(Mutex::new(Some(writer)));
        let (stop, stopped) = signal::channel(false);
        let service = Service {
            shared: Arc::clone(&shared),
            seat: Arc::clone(&seat),
            requests: receiver,
            stop,
            lock: opened.lock,
        };
        let thread = std::thread::Builder::new()
            .name("kv-writer".into())
            .spawn(move || service.run())
            .map_err(|error| Error::Storage(format!("cannot start the writer: {error}")))?;
        let requests = RwLock::new(Some(sender));
        Ok(Arc::new(Self { shared, requests, seat, thread: Mutex::new(Some(thread)), stopped }))
    }

    /// What the store tells about itself.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Does what has become due: ends leases, drops old history. The writer does so by itself; this is for clocks that
    /// do not run with the machine's.
    pub async fn tick(&self) -> Result<()> {
        self.ask(0, Request::Tick).await
    }

    /// Queues a request and waits for its answer.
    async fn ask<T>(&self, bytes: usize, request: impl FnOnce(oneshot::Sender<Result<T>>) -> Request) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.send(bytes, request(reply))?;
        answer.await.unwrap_or_else(|_| Err(self.shared.ended()))
    }

    /// Commits a lone request in its caller's thread, which saves waking another and being woken by it; gives it back
    /// where that would hold up others.
    fn commit_here(&self, bytes: usize, request: Request) -> Option<Request> {
        let requests = self.requests.read();
        let (Some(sender), Some(_turn)) = (requests.as_ref(), Turn::take()) else { return Some(request) };
        let Some(mut seat) = self.seat.try_lock() else { return Some(request) };
        let waiting = self.shared.queued_bytes.load(Ordering::Relaxed) > 0;
        let Some(writer) = seat.as_mut().filter(|writer| !waiting && writer.is_quick(bytes)) else {
            return Some(request);
        };
        if writer.commit_alone(request) {
            self.shared.metrics.queued.inc();
            // Without a place in the queue the thread is about to look anyway.
            if sender.try_send(Request::Tick(oneshot::channel().0)).is_err() {
                self.shared.metrics.queued.dec();
            }
        }
        None
    }

    fn send(&self, bytes: usize, request: Request) -> Result<()> {
        let shared = &self.shared;
        let requests = self.requests.read();
        let Some(sender) = requests.as_ref() else { return Err(shared.ended()) };
        let waiting = shared.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let sent = if waiting > 0 && waiting + bytes > shared.options.queue_bytes {
            Err(Error::Busy)
        } else {
            shared.metrics.queued.inc();
            sender.try_send(request).map_err(|error| {
                shared.metrics.queued.dec();
                match error {
                    TrySendError::Full(_) => Error::Busy,
                    TrySendError::Disconnected(_) => shared.ended(),
                }
            })
        };
        sent.inspect_err(|error| {
            shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            if matches!(error, Error::Busy) {
                shared.metrics.refused.inc();
            }
        })
    }
}

/// The right to wait for the disk in a thread that others' tasks share.
struct Turn;

/// Whether somebody has it. One in a process: however slow the disk is, all other threads go on.
static TAKEN: AtomicBool = AtomicBool::new(false);

impl Turn {
    fn take() -> Option<Self> {
        let runtime = Handle::try_current().ok()?;
        let others = runtime.runtime_flavor() == RuntimeFlavor::MultiThread && runtime.metrics().num_workers() > 1;
        (others && !TAKEN.swap(true, Ordering::Acquire)).then_some(Self)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::Release);
    }
}

impl Shared {
    /// Why requests are no longer taken.
    fn ended(&self) -> Error {
        self.failure.lock().clone().unwrap_or(Error::Closed)
    }
}

impl Store for RedbStore {
    fn revision(&self) -> Revision {
        self.shared.hub.published()
    }

    fn compacted(&self) -> Revision {
        self.shared.compacted.load(Ordering::Acquire)
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Entry>>> {
        Box::pin(async move { self.shared.get(key) })
    }

    fn range(&self, query: Query) -> BoxFuture<'_, Result<Page>> {
        Box::pin(Arc::clone(&self.shared).range(query))
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome>> {
        Box::pin(async move {
            let bytes = check_shape(&self.shared.options.limits, &txn)?;
            let (reply, answer) = oneshot::channel();
            if let Some(request) = self.commit_here(bytes, Request::Txn(txn, bytes, reply)) {
                self.send(bytes, request)?;
            }
            answer.await.unwrap_or_else(|_| Err(self.shared.ended()))
        })
    }

    fn watch(&self, prefix: Bytes, after: Revision) -> Result<Box<dyn Watch>> {
        watch::open(&self.shared, prefix, after)
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<Compaction>> {
        Box::pin(self.ask(0, move |reply| Request::Compact(revision, reply)))
    }

    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId>> {
        Box::pin(self.ask(0, move |reply| Request::Grant(ttl, reply)))
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<LeaseStatus>> {
        Box::pin(self.ask(0, move |reply| Request::KeepAlive(lease, reply)))
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.ask(0, move |reply| Request::Revoke(lease, reply)))
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            // Without a sender the writer ends once it has emptied the queue.
            drop(self.requests.write().take());
            let mut stopped = self.stopped.clone();
            // An error means the writer is gone, which is what is waited for.
            let _ = stopped.wait_for(|stopped| *stopped).await;
            self.shared.failure.lock().clone().map_or(Ok(()), Err)
        })
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        drop(self.requests.write().take());
        if let Some(thread) = self.thread.lock().take() {
            // A panic of the writer was already reported as the store's failure.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
