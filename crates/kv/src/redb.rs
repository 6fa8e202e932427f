//! The store on disk: one file of redb's pages behind a short journal, one writer thread that commits waiting requests
//! together, readers that never wait for it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use ::redb::Database;
use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
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
mod space;
mod writer;

use open::Opened;
use writer::{Request, Writer};

/// A store in one file. Dropping it finishes accepted writes and closes the file.
pub struct RedbStore {
    shared: Arc<Shared>,
    requests: RwLock<Option<SyncSender<Request>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    stopped: signal::Receiver<bool>,
}

/// A store that ended by itself. What was acknowledged is on disk; nothing more is taken.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the store {path} stopped: {reason}")]
pub struct Stopped {
    /// The file.
    pub path: String,
    /// What failed.
    pub reason: Error,
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
        let shared = Arc::new(Shared {
            path: opened.path,
            database: RwLock::new(Some(Arc::new(opened.database))),
            compacted: AtomicU64::new(numbers.compacted),
            hub: Hub::new(numbers.revision, options.watch.clone(), metrics.clone()),
            metrics,
            failure: Mutex::new(None),
            queued_bytes: AtomicUsize::new(0),
            options,
        });
        let (stop, stopped) = signal::channel(false);
        let writer = Writer::new(Arc::clone(&shared), opened.engine, opened.journal, opened.lock, receiver, stop);
        let thread = std::thread::Builder::new()
            .name("kv-writer".into())
            .spawn(move || writer.run())
            .map_err(|error| Error::Storage(format!("cannot start the writer: {error}")))?;
        let requests = RwLock::new(Some(sender));
        Ok(Arc::new(Self { shared, requests, writer: Mutex::new(Some(thread)), stopped }))
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

    /// Waits until the store takes no more writes: an error if it was not closed but failed. It does not keep the store
    /// open.
    pub fn stopped(&self) -> impl Future<Output = Result<(), Stopped>> + Send + 'static + use<> {
        let (mut stopped, shared) = (self.stopped.clone(), Arc::clone(&self.shared));
        async move {
            // An error means the writer is gone, which is what is waited for.
            let _ = stopped.wait_for(|stopped| *stopped).await;
            let failure = shared.failure.lock().clone();
            failure.map_or(Ok(()), |reason| Err(Stopped { path: shared.path.clone(), reason }))
        }
    }

    /// Queues a request and waits for its answer.
    async fn ask<T>(&self, bytes: usize, request: impl FnOnce(oneshot::Sender<Result<T>>) -> Request) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.send(bytes, request(reply))?;
        answer.await.unwrap_or_else(|_| Err(self.shared.ended()))
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
            self.ask(bytes, |reply| Request::Txn(txn, bytes, reply)).await
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
        if let Some(thread) = self.writer.lock().take() {
            // A panic of the writer was already reported as the store's failure.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
