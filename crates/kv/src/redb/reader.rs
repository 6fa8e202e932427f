//! Reading from redb's own snapshots, beside the writer.

use std::ops::{Bound, ControlFlow};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable};

use super::Shared;
use super::space::{COMPACTED, CURRENT, LOG, META, REVISION, fault};
use crate::fault::Fault;
use crate::hub::Hub;
use crate::record::RecordRef;
use crate::snapshot::{self, Found, LogPage, Logged, ReadError, Snapshot, Visit, VisitLog};
use crate::store::{Entry, Error, Page, Query, Result, Revision};
use crate::watch::LogSource;

/// Ranges of at most so many entries are read at once in the caller; larger ones and those of the past may take long
/// and go to a thread where blocking is fine.
const INLINE_ENTRIES: usize = 64;

impl Shared {
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Entry>> {
        self.read(|txn| {
            let current = txn.open_table(CURRENT).map_err(fault)?;
            let Some(found) = current.get(key).map_err(fault)? else { return Ok(None) };
            Ok(Some(RecordRef::decode(found.value())?.to_entry(Bytes::copy_from_slice(key), false)))
        })
    }

    pub(super) async fn range(self: Arc<Self>, query: Query) -> Result<Page> {
        let short = query.limit.is_some_and(|limit| limit <= INLINE_ENTRIES) && !query.count_rest;
        let runtime = tokio::runtime::Handle::try_current().ok();
        match runtime.filter(|_| !short || query.at.is_some()) {
            None => self.read(|txn| snapshot::range(txn, &query)),
            Some(runtime) => {
                let read = runtime.spawn_blocking(move || self.read(|txn| snapshot::range(txn, &query)));
                read.await.unwrap_or_else(|error| Err(Error::Storage(format!("a read did not finish: {error}"))))
            }
        }
    }

    fn read<T>(&self, read: impl FnOnce(&ReadTransaction) -> Result<T, ReadError>) -> Result<T> {
        let database = self.database()?;
        // redb panics over some damage; that must not take the caller down.
        let answer = catch_unwind(AssertUnwindSafe(|| {
            let txn = database.begin_read().map_err(fault)?;
            read(&txn)
        }));
        let damaged = |_| Err(Fault::Damaged("a page makes no sense".into()).into());
        answer.unwrap_or_else(damaged).map_err(|error| error.into_error(&self.path))
    }

    fn database(&self) -> Result<Arc<Database>> {
        self.database.read().clone().ok_or_else(|| self.ended())
    }
}

impl LogSource for Shared {
    fn hub(&self) -> &Hub {
        &self.hub
    }

    fn committed(&self) -> Result<Revision> {
        self.read(|txn| Ok(txn.revision()?))
    }

    fn compacted(&self) -> Revision {
        self.compacted.load(Ordering::Acquire)
    }

    fn log_page(&self, prefix: &[u8], after: Revision) -> Result<LogPage> {
        self.read(|txn| snapshot::log_page(txn, prefix, after, self.hub.limits()))
    }
}

/// A number of the meta table; zero if it was never saved.
pub(super) fn number(txn: &ReadTransaction, name: &str) -> Result<u64, Fault> {
    let meta = txn.open_table(META).map_err(fault)?;
    Ok(meta.get(name).map_err(fault)?.map_or(0, |number| number.value()))
}

impl Snapshot for ReadTransaction {
    fn revision(&self) -> Result<Revision, Fault> {
        let log = self.open_table(LOG).map_err(fault)?;
        // The saved number may be older than the log, and is what remains when the log is empty.
        match log.last().map_err(fault)? {
            Some((last, _)) => Ok(last.value()),
            None => number(self, REVISION),
        }
    }

    fn compacted(&self) -> Result<Revision, Fault> {
        number(self, COMPACTED)
    }

    fn scan(&self, start: &[u8], end: Option<&[u8]>, visit: &mut Visit<'_>) -> Result<(), Fault> {
        let current = self.open_table(CURRENT).map_err(fault)?;
        let bounds = (Bound::Included(start), end.map_or(Bound::Unbounded, Bound::Excluded));
        for row in ReadableTable::range::<&[u8]>(&current, bounds).map_err(fault)? {
            let (key, record) = row.map_err(fault)?;
            if visit(Found::Record(key.value(), RecordRef::decode(record.value())?)).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn changes(&self, after: Revision, visit: &mut VisitLog<'_>) -> Result<(), Fault> {
        let log = self.open_table(LOG).map_err(fault)?;
        for row in ReadableTable::range::<Revision>(&log, (Bound::Excluded(after), Bound::Unbounded)).map_err(fault)? {
            let (revision, record) = row.map_err(fault)?;
            if let ControlFlow::Break(()) = visit(revision.value(), Logged::Record(record.value()))? {
                break;
            }
        }
        Ok(())
    }
}
