//! A connection that breaks off when its client's certificate is no longer believed, whatever is under way on it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use thane_runtime::Tasks;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};

use crate::gate::Gate;

/// Bytes until they are cut.
pub(super) struct Severable<S> {
    io: S,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Nobody has to watch over it once it is gone.
    _end: DropGuard,
}

/// Whether a certificate is believed no longer already now.
pub(super) fn is_blocked(gate: &Gate, fingerprint: &str) -> bool {
    gate.blocked(fingerprint).now_or_never().is_some()
}

impl<S> Severable<S> {
    /// Cut when that certificate is blocked; never without one.
    pub(super) fn new(io: S, fingerprint: Option<String>, gate: &Arc<Gate>, tasks: &Tasks) -> Self {
        let (cut, end) = (CancellationToken::new(), CancellationToken::new());
        let waiting = Box::pin(cut.clone().cancelled_owned());
        if let Some(fingerprint) = fingerprint {
            let (gate, ended, stop) = (Arc::clone(gate), end.clone(), tasks.token());
            tasks.spawn("certificate", async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = ended.cancelled() => {}
                    () = gate.blocked(&fingerprint) => cut.cancel(),
                }
            });
        }
        Self { io, cut: waiting, _end: end.drop_guard() }
    }

    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.cut.as_mut().poll(cx) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => {
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the client's certificate was blocked"))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Severable<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Severable<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
