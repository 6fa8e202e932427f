//! A disk that stands still at times: what is written then becomes durable, and is answered, only afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use thane_kv::{
    Compaction, Entry, LeaseId, LeaseStatus, MemoryStore, Page, Query, Result, Revision, Store, Txn, TxnOutcome, Watch,
};

use super::book::Book;

pub(super) struct Stalling {
    inner: Arc<MemoryStore>,
    /// In milliseconds of the simulation.
    until: Arc<AtomicU64>,
    book: Arc<Book>,
}

impl Stalling {
    pub(super) fn shared(inner: Arc<MemoryStore>, until: &Arc<AtomicU64>, book: &Arc<Book>) -> Arc<dyn Store> {
        Arc::new(Self { inner, until: Arc::clone(until), book: Arc::clone(book) })
    }

    fn left(&self) -> Duration {
        let until = Duration::from_millis(self.until.load(Ordering::Relaxed));
        until.saturating_sub(turmoil::sim_elapsed().unwrap_or_default())
    }
}

impl Store for Stalling {
    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome>> {
        Box::pin(async move {
            while !self.left().is_zero() {
                self.book.tell("stalled");
                tokio::time::sleep(self.left()).await;
            }
            self.inner.txn(txn).await
        })
    }

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
