//! Back to the files as they were after a step.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use thane_api::wire::sandbox::{self as wire, DescribeRequest};
use tonic::Code;

use super::Shared;
use super::bodies::{RestoreRequest, RestoreResponse};
use super::failure::{Failure, Result};
use super::keys::Caller;
use super::read::{Asked, At, Json};
use super::routes::InNamespace;
use super::sessions::Session;

/// The sandbox as it was made, before any step.
pub(super) const BEFORE_ALL: i64 = -1;

/// How files come back.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// They are kept, under that name.
    Kept(String),
    /// Nothing is kept there: the steps have to be run again.
    Replay,
}

pub(super) async fn restore(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    At(id): At,
    Asked(InNamespace { namespace }): Asked<InNamespace>,
    Json(body): Json<RestoreRequest>,
) -> Result<axum::Json<RestoreResponse>> {
    let session = shared.session(&id, namespace.as_deref(), &caller).await?;
    let step = index(&body.snapshot_id)?;
    let began = shared.clock.monotonic();
    let restored = Box::pin(shared.restore(&session, step)).await;
    shared.metrics.restored(restored.is_ok(), shared.clock.monotonic().saturating_sub(began));
    let steps_replayed = restored?;
    let status = "restored".to_owned();
    Ok(axum::Json(RestoreResponse { status, snapshot_id: body.snapshot_id, steps_replayed }))
}

/// The step a snapshot is of.
pub(super) fn index(snapshot: &str) -> Result<i64> {
    let index = snapshot.parse::<i64>().ok().filter(|index| *index >= BEFORE_ALL);
    index.ok_or_else(|| Failure::bad(format!("snapshotID: {snapshot:?} is not the number of a step")))
}

impl Shared {
    /// Brings a session back to a step; says how many steps were run again for it.
    async fn restore(self: &Arc<Self>, session: &Arc<Session>, step: i64) -> Result<usize> {
        if let Way::Kept(snapshot) = self.way(session, step).await? {
            let sidecar = self.proven(session).await?;
            let request = wire::RestoreRequest { session: session.id.clone(), snapshot, source_pod_uid: String::new() };
            let began = self.clock.monotonic();
            let restored = sidecar.steps().restore(request).await;
            self.metrics.called("Restore", self.clock.monotonic().saturating_sub(began));
            match restored {
                Ok(_) => return Ok(0),
                Err(status) if status.code() == Code::FailedPrecondition => {}
                Err(status) => return Err(self.verdict(session, status).await),
            }
        }
        Box::pin(self.restore_by_replay(session, step)).await
    }

    /// How a session comes back to a step.
    pub(super) async fn way(&self, session: &Session, step: i64) -> Result<Way> {
        let (mut snapshot, mut why) = (String::new(), String::new());
        if step != BEFORE_ALL {
            let mut records = self.history(session, false, step).await?;
            let record = records.next().await?.filter(|record| record.index == step);
            let absent = || Failure::absent(format!("session {:?} has no step {step}", session.id));
            let record = record.ok_or_else(absent)?;
            (snapshot, why) = (record.snapshot, record.unkept);
            if !snapshot.is_empty() {
                return Ok(Way::Kept(snapshot));
            }
        }
        let sidecar = self.proven(session).await?;
        let described = sidecar.steps().describe(DescribeRequest {}).await;
        match described {
            Ok(described) if !described.get_ref().snapshots => Ok(Way::Replay),
            Ok(_) if step == BEFORE_ALL => Ok(Way::Kept(snapshot)),
            Ok(_) => {
                let why = if why.is_empty() { "its files could not be kept" } else { &why };
                Err(Failure::conflict(format!("no snapshot was taken after step {step}: {why}")))
            }
            Err(status) => Err(self.verdict(session, status).await),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_numbers_of_steps() {
        assert_eq!((index("0").unwrap(), index("12").unwrap(), index("-1").unwrap()), (0, 12, -1));
        for wrong in ["", "-2", "x", "1.5", "99999999999999999999"] {
            assert_eq!(index(wrong).unwrap_err().status.as_u16(), 400, "{wrong}");
        }
    }
}
