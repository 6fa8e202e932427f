//! Watches the Applications of a side and notes when it saw what.

use std::pin::Pin;
use std::time::Instant;

use anyhow::{Context, Result};
use futures::{Stream, StreamExt};
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};

use crate::fleet::{Objects, PATIENCE};

/// One event.
pub(super) struct Seen {
    pub(super) at: Instant,
    pub(super) name: String,
    /// The revision of the spec or of the status.
    pub(super) mark: String,
    pub(super) gone: bool,
}

/// A watch from now on.
pub(super) struct Observer {
    events: Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<DynamicObject>>> + Send>>,
    mark: &'static str,
}

impl Observer {
    pub(super) async fn of_revisions(objects: &Objects) -> Result<Self> {
        Self::new(objects, "/spec/source/targetRevision").await
    }

    pub(super) async fn of_statuses(objects: &Objects) -> Result<Self> {
        Self::new(objects, "/status/sync/revision").await
    }

    async fn new(objects: &Objects, mark: &'static str) -> Result<Self> {
        let api = objects.watchable();
        let now = api.list_metadata(&ListParams::default()).await?;
        let version = now.metadata.resource_version.context("a list has a version")?;
        let events = api.watch(&WatchParams::default(), &version).await?;
        Ok(Self { events: Box::pin(events), mark })
    }

    /// The next event that is wanted; the others are forgotten.
    pub(super) async fn until(&mut self, wanted: impl Fn(&Seen) -> bool) -> Result<Seen> {
        let search = async {
            while let Some(event) = self.events.next().await {
                let at = Instant::now();
                let (object, gone) = match event? {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                    WatchEvent::Deleted(object) => (object, true),
                    WatchEvent::Bookmark(_) => continue,
                    WatchEvent::Error(status) => anyhow::bail!("the watch ended: {status:?}"),
                };
                let mark = object.data.pointer(self.mark).and_then(serde_json::Value::as_str).unwrap_or_default();
                let seen = Seen { at, name: object.name_any(), mark: mark.to_owned(), gone };
                if wanted(&seen) {
                    return Ok(seen);
                }
            }
            anyhow::bail!("the watch ended")
        };
        tokio::time::timeout(PATIENCE, search).await.context("nothing arrived in time")?
    }
}
