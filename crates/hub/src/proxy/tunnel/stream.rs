//! Bytes to and from a place in an agent's cluster, for whatever other parts of the hub speak there.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Method, StatusCode};
use thane_api::wire::tunnel::Request;
use thane_link::tunnel::{CHUNK, relay};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Shared;
use super::call::{Begun, answered, begin};
use super::lot::Parked;
use crate::proxy::reach::{Caller, Unreachable};

/// A stream through an agent's connection, within the same bounds as a request; dropping it ends it on both sides.
#[derive(Debug)]
pub struct TunnelStream {
    bytes: DuplexStream,
    _end: DropGuard,
}

pub(super) async fn connect(
    shared: &Arc<Shared>,
    agent: &str,
    user: &Caller,
    place: &str,
    parked: Parked,
) -> Result<TunnelStream, Unreachable> {
    let head = Request {
        method: Method::CONNECT.to_string(),
        target: place.to_owned(),
        headers: Vec::new(),
        user: user.name.clone(),
        groups: user.groups.clone(),
        has_body: false,
    };
    let Begun { sending, receiving, told, open, .. } = begin(shared, agent, head, parked).await?;
    let answer = answered(agent, told).await?;
    if answer.status != u32::from(StatusCode::OK.as_u16()) {
        return Err(Unreachable::Failed(format!("the agent answered {} for a stream", answer.status)));
    }
    let (ours, theirs) = tokio::io::duplex(CHUNK);
    let end = CancellationToken::new();
    let (stop, over) = (shared.tasks.token(), end.clone());
    shared.tasks.spawn("tunnel-stream", async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = over.cancelled() => {}
            () = relay(theirs, sending, receiving) => {}
        }
        drop(open);
    });
    Ok(TunnelStream { bytes: ours, _end: end.drop_guard() })
}

impl AsyncRead for TunnelStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_read(cx, buffer)
    }
}

impl AsyncWrite for TunnelStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.bytes).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_shutdown(cx)
    }
}
