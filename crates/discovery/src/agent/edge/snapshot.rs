//! Snapshots of the registry, asked of the hub.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use thane_api::wire::discovery::SaveRequest;

use super::{SEEN_TIMEOUT, refusal};
use crate::agent::Agent;
use crate::agent::connection::Lost;
use crate::backend::Caller;
use crate::command::Refusal;
use crate::model::Index;
use crate::wire::{SNAPSHOT_BYTES_MAX, convert, snapshot};

/// Time for a whole snapshot.
const TIMEOUT: Duration = Duration::from_mins(2);

impl Agent {
    pub(super) async fn fetch_snapshot(&self, caller: &Caller) -> Result<Bytes, Refusal> {
        let mut client = self.core.client().ok_or(Refusal::NoHub)?;
        let token = caller.token.clone().unwrap_or_default();
        let asking = async {
            let mut parts = client.save(SaveRequest { token }).await.map_err(Lost::Refused)?.into_inner();
            let mut whole = BytesMut::new();
            while let Some(part) = parts.message().await.map_err(Lost::Refused)? {
                whole.extend_from_slice(&part.data);
                if whole.len() > SNAPSHOT_BYTES_MAX {
                    return Err(Lost::Ended);
                }
            }
            Ok(whole.freeze())
        };
        let asked = tokio::time::timeout(TIMEOUT, asking).await.map_err(|_| Refusal::NoHub)?;
        asked.map_err(|lost| refusal(&lost))
    }

    pub(super) async fn send_snapshot(&self, caller: &Caller, saved: Bytes) -> Result<Index, Refusal> {
        let mut client = self.core.client().ok_or(Refusal::NoHub)?;
        let parts = snapshot::parts(saved, caller.token.as_deref().unwrap_or_default());
        let sending = tokio::time::timeout(TIMEOUT, client.restore(tokio_stream::iter(parts)));
        let sent = sending.await.map_err(|_| Refusal::NoHub)?;
        let reply = sent.map_err(|status| refusal(&Lost::Refused(status)))?;
        let index = convert::index(reply.into_inner().current_index);
        // As after any write, what is asked here next is as it was restored.
        self.core.followed.reached(index, SEEN_TIMEOUT).await;
        Ok(index)
    }
}
