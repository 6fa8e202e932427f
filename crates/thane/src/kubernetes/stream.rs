//! Following changes across the ends of single watches.

use std::ops::ControlFlow;
use std::time::Duration;

use futures::TryStreamExt;
use kube::core::WatchEvent;
use serde_json::Value;

use super::connection::Session;
use super::target::Target;
use crate::failure::{Failure, refused};

/// Watches that end without a single event, or cannot begin, before giving up.
const FRUITLESS_MAX: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

impl Change {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// Why following ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The one who looks has seen enough.
    Enough,
    /// The server no longer has the changes since that version; list again.
    TooOld,
}

/// Calls `on` for every change after `version` until it breaks; resumes where a watch ends.
pub(crate) async fn follow(
    session: &Session,
    target: &Target,
    mut version: String,
    tables: bool,
    mut on: impl FnMut(Change, Value) -> Result<ControlFlow<()>, Failure>,
) -> Result<End, Failure> {
    let mut fruitless = 0;
    loop {
        let request = target.watch(&version, tables)?;
        let mut events = match session.client.request_events::<Value>(request).await {
            Ok(events) => Box::pin(events),
            Err(kube::Error::Api(status)) if status.code == 410 => return Ok(End::TooOld),
            Err(error @ kube::Error::Api(_)) => return Err(session.failure(error)),
            Err(error) if fruitless >= FRUITLESS_MAX => return Err(session.failure(error)),
            Err(_) => {
                fruitless += 1;
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let mut any = false;
        while let Some(event) = events.try_next().await.map_err(|error| session.failure(error))? {
            any = true;
            let (change, value) = match event {
                WatchEvent::Added(value) => (Change::Added, value),
                WatchEvent::Modified(value) => (Change::Modified, value),
                WatchEvent::Deleted(value) => (Change::Deleted, value),
                WatchEvent::Bookmark(bookmark) => {
                    version = bookmark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) if status.code == 410 => return Ok(End::TooOld),
                WatchEvent::Error(status) => return Err(refused(&status)),
            };
            if let Some(seen) = version_of(&value) {
                version = seen;
            }
            if on(change, value)?.is_break() {
                return Ok(End::Enough);
            }
        }
        fruitless = if any { 0 } else { fruitless + 1 };
        if !any {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The version of an object, or of the row of a table.
pub(crate) fn version_of(value: &Value) -> Option<String> {
    ["/metadata/resourceVersion", "/rows/0/object/metadata/resourceVersion"]
        .iter()
        .filter_map(|pointer| value.pointer(pointer).and_then(Value::as_str))
        .find(|version| !version.is_empty())
        .map(str::to_owned)
}
