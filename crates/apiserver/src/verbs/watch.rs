//! Watching: the present state if asked for, then every change from a revision on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use serde_json::json;
use thane_kv::{Event, Watch, WatchBatch};
use tokio::time::Instant;

use super::Call;
use super::list::{self, Filter};
use crate::failure::{Failure, Result};
use crate::inflight::Place;
use crate::media::View;
use crate::objects::{Objects, Stored};
use crate::options::ListOptions;
use crate::resource::ResourceType;
use crate::response::{self, Answer};
use crate::server::Inner;
use crate::table;

/// How often a quiet watch tells its client how far it is.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// A bookmark goes out this long before a watch ends, so that the client resumes from there.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// How long a watch lives that does not say; the client opens the next one.
const LIFE_MIN_SECONDS: u64 = 1800;
/// Bytes of initial objects that are rendered at once, about: what a client has not taken yet stays as it is stored.
const CHUNK_BYTES: usize = 256 * 1024;

/// Handles a watch.
pub(crate) async fn watch(call: &Call<'_>) -> Result<Answer> {
    let mut options = ListOptions::parse(call.query, true)?;
    let filter = Filter::parse(call, &options)?;
    let place = call.server.inflight.watch()?;
    let from_now = matches!(options.resource_version, None | Some(0));
    let initial = options.send_initial_events.unwrap_or(from_now);
    let wanted = options.resource_version.unwrap_or(0);
    let mut feed = Feed {
        server: Arc::clone(call.server),
        kind: Arc::clone(&call.kind),
        filter,
        view: call.accepted.view,
        include: call.include()?,
        headed: false,
        floor: 0,
    };
    let mut start = Start::default();
    let mut after = wanted;
    if initial || from_now {
        options.limit = 0;
        options.continue_token.clear();
        options.version_match = None;
        let page = list::page(call, &options, &feed.filter).await?;
        after = page.revision;
        if initial {
            start.items = page.items.into_iter();
            start.end = (options.send_initial_events == Some(true) && options.bookmarks).then_some(after);
        }
    }
    let current = call.objects().store().revision();
    if after > current {
        feed.floor = after;
        after = current;
    }
    let prefix = call.kind.key(call.namespace(), "");
    let source = match call.objects().store().watch(prefix, after) {
        Ok(source) => source,
        Err(error) => return Ok(response::stream(futures::stream::iter([error_line(&ended(error, wanted))]))),
    };
    let life = options
        .timeout_seconds
        .filter(|seconds| *seconds > 0)
        .unwrap_or_else(|| LIFE_MIN_SECONDS + u64::from(rand::random::<u16>()) % LIFE_MIN_SECONDS);
    let end = Instant::now() + Duration::from_secs(life);
    let watcher = Watcher {
        feed,
        source,
        start,
        pending: VecDeque::new(),
        end,
        next_bookmark: options.bookmarks.then(|| next_bookmark(end)),
        seen: after,
        asked: wanted,
        closed: false,
        _place: place,
    };
    Ok(response::stream(watcher.lines()))
}

fn next_bookmark(end: Instant) -> Instant {
    let now = Instant::now();
    let last = end.checked_sub(BOOKMARK_BEFORE_END).filter(|last| *last > now);
    last.map_or(now + BOOKMARK_EVERY, |last| last.min(now + BOOKMARK_EVERY))
}

/// An open watch and what it still has to send.
struct Watcher {
    feed: Feed,
    source: Box<dyn Watch>,
    start: Start,
    pending: VecDeque<Bytes>,
    end: Instant,
    next_bookmark: Option<Instant>,
    seen: u64,
    asked: u64,
    closed: bool,
    _place: Place,
}

/// The state a watch begins with, as far as it has not been sent.
#[derive(Default)]
struct Start {
    items: std::vec::IntoIter<Stored>,
    /// The revision whose state this is, where the client wants to be told that it has all of it.
    end: Option<u64>,
}

impl Start {
    /// The next piece of it.
    fn next(&mut self, feed: &mut Feed) -> Option<Result<Bytes>> {
        if self.items.len() == 0 {
            return self.end.take().map(|revision| Ok(feed.bookmark(revision, true)));
        }
        let mut out = Vec::new();
        while out.len() < CHUNK_BYTES
            && let Some(item) = self.items.next()
        {
            if let Err(failure) = feed.line("ADDED", &item, &mut out) {
                return Some(Err(failure));
            }
        }
        Some(Ok(out.into()))
    }
}

enum Step {
    Batch(thane_kv::Result<WatchBatch>),
    Bookmark,
    End,
}

impl Watcher {
    fn lines(self) -> impl Stream<Item = Bytes> + Send {
        futures::stream::unfold(self, |mut watcher| async move {
            loop {
                if let Some(chunk) = watcher.pending.pop_front() {
                    return Some((chunk, watcher));
                }
                if let Some(chunk) = watcher.start.next(&mut watcher.feed).filter(|_| !watcher.closed) {
                    let chunk = chunk.unwrap_or_else(|failure| {
                        watcher.closed = true;
                        error_line(&failure)
                    });
                    return Some((chunk, watcher));
                }
                if watcher.closed {
                    return None;
                }
                let step = watcher.wait().await;
                watcher.take(step);
            }
        })
    }

    async fn wait(&mut self) -> Step {
        let bookmark = self.next_bookmark.unwrap_or(self.end);
        let stopping = &self.feed.server.stopping;
        tokio::select! {
            // who is always behind must not outlive its time for it
            biased;
            () = stopping.cancelled() => Step::End,
            () = tokio::time::sleep_until(self.end) => Step::End,
            () = tokio::time::sleep_until(bookmark), if self.next_bookmark.is_some() => Step::Bookmark,
            batch = self.source.next() => Step::Batch(batch),
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Batch(Ok(batch)) => self.take_batch(&batch),
            Step::Batch(Err(error)) => {
                self.pending.push_back(error_line(&ended(error, self.asked)));
                self.closed = true;
            }
            Step::Bookmark => {
                if let Ok(Some(batch)) = self.source.try_next() {
                    self.take_batch(&batch);
                }
                self.pending.push_back(self.feed.bookmark(self.seen, false));
                let next = next_bookmark(self.end);
                self.next_bookmark = Some(next).filter(|next| *next < self.end);
            }
            Step::End => self.closed = true,
        }
    }

    fn take_batch(&mut self, batch: &WatchBatch) {
        self.seen = batch.revision.max(self.seen);
        // each of a thousand watchers gets its lines: they should cost it one allocation
        let mut out = Vec::with_capacity(batch.events.iter().map(|event| line_bytes(event)).sum());
        let floor = self.feed.floor;
        for event in batch.events.iter().filter(|event| event.revision > floor) {
            if let Err(failure) = self.feed.event(event, &mut out) {
                out.extend_from_slice(&error_line(&failure));
                self.closed = true;
                break;
            }
        }
        if !out.is_empty() {
            self.pending.push_back(out.into());
        }
    }
}

/// Turns changes of the store into what one client asked to see.
struct Feed {
    server: Arc<Inner>,
    kind: Arc<ResourceType>,
    filter: Filter,
    view: View,
    include: table::Include,
    /// A table's columns were sent.
    headed: bool,
    /// Changes up to here are not wanted.
    floor: u64,
}

impl Feed {
    fn objects(&self) -> &Objects {
        &self.server.objects
    }

    /// What a change is to this client: something may come into or go out of its selection.
    fn event(&mut self, event: &Event, out: &mut Vec<u8>) -> Result<()> {
        let new = event.entry.as_ref().map(|entry| self.objects().open(&self.kind, entry)).transpose()?;
        let old = event
            .previous
            .as_ref()
            .map(|entry| self.objects().open_at(&self.kind, entry, event.revision))
            .transpose()?;
        let (is, was) = if self.filter.is_open() {
            (new.is_some(), old.is_some())
        } else {
            (self.admits(new.as_ref())?, self.admits(old.as_ref())?)
        };
        match (was, is, old, new) {
            (false, true, _, Some(new)) => self.line("ADDED", &new, out),
            (true, true, _, Some(new)) => self.line("MODIFIED", &new, out),
            (true, false, Some(old), _) => self.line("DELETED", &old, out),
            _ => Ok(()),
        }
    }

    fn admits(&self, stored: Option<&Stored>) -> Result<bool> {
        match stored {
            Some(stored) => self.filter.admits(&self.kind, stored),
            None => Ok(false),
        }
    }

    fn line(&mut self, what: &str, stored: &Stored, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(what.as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        match self.view {
            View::Full => stored.render(&self.kind, true, out)?,
            View::Table => {
                let object = stored.value(&self.kind)?;
                let list = table::single_metadata(&object);
                let headers = !std::mem::replace(&mut self.headed, true);
                let now = self.server.clock.now();
                let shown = table::table(self.kind.rows(), [&object], &list, self.include, headers, now);
                crate::objects::append_json(out, &shown);
            }
            View::Metadata | View::MetadataList => {
                let object = table::partial(&stored.value(&self.kind)?);
                crate::objects::append_json(out, &object);
            }
        }
        out.extend_from_slice(b"}\n");
        Ok(())
    }

    fn bookmark(&self, revision: u64, initial_end: bool) -> Bytes {
        let mut meta = json!({ "resourceVersion": revision.to_string() });
        if initial_end {
            meta["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let (kind, version) = match self.view {
            View::Full => (self.kind.kind.as_str(), self.kind.api_version()),
            View::Table => ("Table", "meta.k8s.io/v1"),
            View::Metadata | View::MetadataList => ("PartialObjectMetadata", "meta.k8s.io/v1"),
        };
        let object = json!({ "kind": kind, "apiVersion": version, "metadata": meta });
        format!("{}\n", json!({ "type": "BOOKMARK", "object": object })).into()
    }
}

/// About how long the line of an event is.
fn line_bytes(event: &Event) -> usize {
    const AROUND: usize = 160;
    event.entry.as_ref().or(event.previous.as_ref()).map_or(0, |entry| entry.value.len() + AROUND)
}

fn ended(error: thane_kv::Error, asked: u64) -> Failure {
    match error {
        thane_kv::Error::Compacted { compacted, .. } => {
            Failure::expired(format!("too old resource version: {asked} ({})", compacted + 1))
        }
        error => Failure::internal(error),
    }
}

fn error_line(failure: &Failure) -> Bytes {
    format!("{}\n", json!({ "type": "ERROR", "object": failure.to_status() })).into()
}

#[cfg(test)]
mod tests;
