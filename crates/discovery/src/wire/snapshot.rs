//! Snapshots on their way through agents: in pieces, for those who may.

use bytes::{Bytes, BytesMut};
use thane_api::wire::discovery as wire;
use tokio_stream::Iter;
use tonic::{Request, Response, Status, Streaming};

use super::service::{Desk, status};
use super::{SNAPSHOT_BYTES_MAX, convert};
use crate::model::{Policy, Resource};

/// Bytes of one piece.
const PART_BYTES: usize = 256 * 1024;

/// The pieces of a snapshot.
pub(crate) type Parts = Iter<std::vec::IntoIter<Result<wire::SnapshotPart, Status>>>;

/// Everything, for somebody who asked an agent.
pub(super) async fn save(desk: &Desk, request: &Request<wire::SaveRequest>) -> Result<Response<Parts>, Status> {
    let (_, _started) = desk.admit(request)?;
    let access = desk.access(&request.get_ref().token).await.map_err(|refusal| status(&refusal))?;
    access.require(Resource::Acl, "", Policy::Write).map_err(|refusal| status(&refusal))?;
    let saved = desk.registry.snapshot().await.map_err(|error| status(&error.into()))?;
    let parts: Vec<_> = parts(saved, "").into_iter().map(Ok).collect();
    Ok(Response::new(tokio_stream::iter(parts)))
}

/// Replaces everything, for somebody who asked an agent.
pub(super) async fn restore(
    desk: &Desk,
    request: Request<Streaming<wire::SnapshotPart>>,
) -> Result<Response<wire::RestoreReply>, Status> {
    let (agent, _started) = desk.admit(&request)?;
    let mut parts = request.into_inner();
    let Some(first) = parts.message().await? else { return Err(Status::invalid_argument("an empty snapshot")) };
    let access = desk.access(&first.token).await.map_err(|refusal| status(&refusal))?;
    access.require(Resource::Acl, "", Policy::Write).map_err(|refusal| status(&refusal))?;
    let mut whole = BytesMut::from(&first.data[..]);
    while let Some(part) = parts.message().await? {
        if whole.len() + part.data.len() > SNAPSHOT_BYTES_MAX {
            return Err(Status::out_of_range(format!("a snapshot has at most {SNAPSHOT_BYTES_MAX} bytes")));
        }
        whole.extend_from_slice(&part.data);
    }
    let index = desk.registry.restore(whole.freeze()).await.map_err(|error| status(&error.into()))?;
    tracing::warn!(agent, index, "the registry was replaced by a snapshot");
    Ok(Response::new(wire::RestoreReply { current_index: convert::signed(index) }))
}

/// A snapshot in pieces; the first carries the token.
pub(crate) fn parts(mut saved: Bytes, token: &str) -> Vec<wire::SnapshotPart> {
    let mut parts = Vec::with_capacity(saved.len() / PART_BYTES + 1);
    loop {
        let data = saved.split_to(saved.len().min(PART_BYTES));
        let token = if parts.is_empty() { token.to_owned() } else { String::new() };
        parts.push(wire::SnapshotPart { data, token });
        if saved.is_empty() {
            return parts;
        }
    }
}
