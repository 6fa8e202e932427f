//! What was bound to a session, which its sidecar remembers, so that forks and replays begin with the same.

use thane_api::wire::sandbox::{BindRequest, BoundRequest};

use super::Shared;
use super::failure::Result;
use super::sessions::Session;

impl Shared {
    /// What was bound to a session.
    pub(super) async fn remembered(&self, session: &Session) -> Result<BindRequest> {
        let sidecar = self.proven(session).await?;
        let asked = sidecar.steps().bound(BoundRequest { session: session.id.clone() }).await;
        match asked {
            Ok(bound) => Ok(bound.into_inner()),
            Err(status) => Err(self.verdict(session, status).await),
        }
    }
}
