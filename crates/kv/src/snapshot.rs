//! Reading a frozen state: ranges now and in the past, and pages of history for watchers.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;

use crate::fault::Fault;
use crate::options::WatchLimits;
use crate::record::{RecordRef, decode_changes, event_bytes};
use crate::store::{Entry, Error, Event, Page, Query, Result, Revision};

/// An entry that a scan came across, as bytes or ready made.
pub(crate) enum Found<'a> {
    Record(&'a [u8], RecordRef<'a>),
    Entry(&'a Entry),
}

impl Found<'_> {
    fn key(&self) -> &[u8] {
        match self {
            Self::Record(key, _) => key,
            Self::Entry(entry) => &entry.key,
        }
    }

    fn to_entry(&self, keys_only: bool) -> Entry {
        match self {
            Self::Record(key, record) => record.to_entry(Bytes::copy_from_slice(key), keys_only),
            Self::Entry(entry) => strip((*entry).clone(), keys_only),
        }
    }
}

/// The changes of one revision, as bytes or ready made.
pub(crate) enum Logged<'a> {
    Record(&'a [u8]),
    Events(&'a [Arc<Event>]),
}

impl Logged<'_> {
    fn select(
        &self,
        revision: Revision,
        wanted: &mut dyn FnMut(&[u8]) -> bool,
        found: &mut dyn FnMut(Arc<Event>),
    ) -> Result<(), Fault> {
        match self {
            Self::Record(record) => decode_changes(revision, record, wanted, found),
            Self::Events(events) => {
                events.iter().filter(|event| wanted(&event.key)).for_each(|event| found(Arc::clone(event)));
                Ok(())
            }
        }
    }
}

/// Handles an entry of a scan and tells whether to go on.
pub(crate) type Visit<'v> = dyn FnMut(Found<'_>) -> ControlFlow<()> + 'v;

/// Handles the changes of a revision and tells whether to go on.
pub(crate) type VisitLog<'v> = dyn FnMut(Revision, Logged<'_>) -> Result<ControlFlow<()>, Fault> + 'v;

/// A state of the store that does not change while it is read.
pub(crate) trait Snapshot {
    fn revision(&self) -> Result<Revision, Fault>;
    fn compacted(&self) -> Result<Revision, Fault>;
    /// Walks the present entries from `start` to before `end` in key order.
    fn scan(&self, start: &[u8], end: Option<&[u8]>, visit: &mut Visit<'_>) -> Result<(), Fault>;
    /// Walks the log after `after` in revision order.
    fn changes(&self, after: Revision, visit: &mut VisitLog<'_>) -> Result<(), Fault>;
}

/// Why a read did not succeed: the caller's mistake or the medium's.
pub(crate) enum ReadError {
    Refused(Error),
    Fault(Fault),
}

impl From<Fault> for ReadError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl ReadError {
    pub(crate) fn into_error(self, path: &str) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Fault(fault) => fault.into_error(path),
        }
    }
}

/// Answers a range query.
pub(crate) fn range(snapshot: &impl Snapshot, query: &Query) -> Result<Page, ReadError> {
    let current = snapshot.revision()?;
    let at = query.at.unwrap_or(current);
    if at != current {
        check_revision(snapshot, at, current)?;
    }
    let mut collect = Collect::new(query, at);
    if query.end.as_ref().is_some_and(|end| *end <= query.start) {
        return Ok(collect.page);
    }
    let past = if at == current { BTreeMap::new() } else { undo(snapshot, query, at)? };
    let mut past = past.into_iter().peekable();
    snapshot.scan(&query.start, query.end.as_deref(), &mut |found| {
        while let Some((_, entry)) = past.next_if(|(key, _)| key.as_ref() < found.key()) {
            if let Some(entry) = entry
                && collect.add(|keys_only| strip(entry, keys_only)).is_break()
            {
                return ControlFlow::Break(());
            }
        }
        match past.next_if(|(key, _)| key.as_ref() == found.key()) {
            Some((_, Some(entry))) => collect.add(|keys_only| strip(entry, keys_only)),
            Some((_, None)) => ControlFlow::Continue(()),
            None => collect.add(|keys_only| found.to_entry(keys_only)),
        }
    })?;
    for (_, entry) in past {
        if let Some(entry) = entry
            && collect.add(|keys_only| strip(entry, keys_only)).is_break()
        {
            break;
        }
    }
    Ok(collect.page)
}

/// What each key of the query that changed after `at` was at that revision: the previous entry of its first change.
fn undo(snapshot: &impl Snapshot, query: &Query, at: Revision) -> Result<BTreeMap<Bytes, Option<Entry>>, Fault> {
    let mut past: BTreeMap<Bytes, Option<Entry>> = BTreeMap::new();
    snapshot.changes(at, &mut |revision, logged| {
        let mut fresh = Vec::new();
        let mut wanted = |key: &[u8]| {
            key >= query.start.as_ref() && query.end.as_ref().is_none_or(|end| key < end) && !past.contains_key(key)
        };
        logged.select(revision, &mut wanted, &mut |event| fresh.push(event))?;
        past.extend(fresh.into_iter().map(|event| (event.key.clone(), event.previous.clone())));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(past)
}

fn check_revision(snapshot: &impl Snapshot, requested: Revision, current: Revision) -> Result<(), ReadError> {
    if requested > current {
        return Err(ReadError::Refused(Error::Future { requested, current }));
    }
    let compacted = snapshot.compacted()?;
    if requested < compacted {
        return Err(ReadError::Refused(Error::Compacted { requested, compacted }));
    }
    Ok(())
}

struct Collect {
    page: Page,
    limit: usize,
    keys_only: bool,
}

impl Collect {
    fn new(query: &Query, revision: Revision) -> Self {
        let page = Page { revision, entries: Vec::new(), more: false, rest: query.count_rest.then_some(0) };
        Self { page, limit: query.limit.unwrap_or(usize::MAX), keys_only: query.keys_only }
    }

    fn add(&mut self, entry: impl FnOnce(bool) -> Entry) -> ControlFlow<()> {
        if self.page.entries.len() < self.limit {
            self.page.entries.push(entry(self.keys_only));
            return ControlFlow::Continue(());
        }
        self.page.more = true;
        match &mut self.page.rest {
            Some(rest) => {
                *rest += 1;
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        }
    }
}

fn strip(entry: Entry, keys_only: bool) -> Entry {
    if keys_only { Entry { value: Bytes::new(), ..entry } } else { entry }
}

/// A piece of history.
#[derive(Debug)]
pub(crate) struct LogPage {
    pub(crate) events: Vec<Arc<Event>>,
    /// All matching events up to and including this revision are there.
    pub(crate) through: Revision,
    /// Whether the page reaches the end of the log.
    pub(crate) complete: bool,
}

/// Reads matching events after a revision, up to the bounds of a page and never part of a revision.
pub(crate) fn log_page(
    snapshot: &impl Snapshot,
    prefix: &[u8],
    after: Revision,
    limits: &WatchLimits,
) -> Result<LogPage, ReadError> {
    let current = snapshot.revision()?;
    check_revision(snapshot, after, current)?;
    let mut page = LogPage { events: Vec::new(), through: current, complete: true };
    let (mut bytes, mut walked, mut through) = (0, 0, after);
    snapshot.changes(after, &mut |revision, logged| {
        if page.events.len() >= limits.page_events || bytes >= limits.page_bytes || walked >= limits.page_revisions {
            page.complete = false;
            page.through = through;
            return Ok(ControlFlow::Break(()));
        }
        let events = &mut page.events;
        logged.select(revision, &mut |key| key.starts_with(prefix), &mut |event| {
            bytes += event_bytes(&event);
            events.push(event);
        })?;
        walked += 1;
        through = revision;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(page)
}
