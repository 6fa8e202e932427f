//! What events hang on: they go away by themselves.

use std::time::Duration;

use thane_kv::{LeaseId, Store};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// A lease is shared for so long,
const SHARED: Duration = Duration::from_mins(1);
/// and by so many events: those of a lease are deleted in one transaction.
const SHARERS_MAX: u32 = 4096;

/// The lease events hang on now, shared by those of the same minute or so.
pub(super) struct EventLease {
    ttl: Duration,
    current: Mutex<Option<Current>>,
}

struct Current {
    lease: LeaseId,
    since: Instant,
    sharers: u32,
}

impl EventLease {
    pub(super) fn new(ttl: Duration) -> Self {
        Self { ttl, current: Mutex::new(None) }
    }

    /// The lease for one more event. Who comes while one is made waits for it.
    pub(super) async fn get(&self, store: &dyn Store) -> thane_kv::Result<LeaseId> {
        let now = Instant::now();
        let mut current = self.current.lock().await;
        if let Some(current) = current.as_mut()
            && current.sharers < SHARERS_MAX
            && now.saturating_duration_since(current.since) < SHARED.min(self.ttl / 2)
        {
            current.sharers += 1;
            return Ok(current.lease);
        }
        let lease = store.grant(self.ttl).await?;
        *current = Some(Current { lease, since: now, sharers: 1 });
        Ok(lease)
    }

    /// Takes another lease from now on.
    pub(super) async fn give_up(&self, lease: LeaseId) {
        self.current.lock().await.take_if(|current| current.lease == lease);
    }
}
