//! A stream that tells when its first bytes have come.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// The stream. It passes everything on.
pub(super) struct Opening<S> {
    stream: S,
    /// How many of the first bytes are still to come, and whom to tell.
    awaited: Option<(usize, oneshot::Sender<()>)>,
}

impl<S> Opening<S> {
    /// A stream, and what completes once so many bytes of it were read.
    pub(super) fn new(stream: S, bytes: usize) -> (Self, oneshot::Receiver<()>) {
        let (tell, told) = oneshot::channel();
        (Self { stream, awaited: Some((bytes, tell)) }, told)
    }

    fn count(&mut self, read: usize) {
        self.awaited = self.awaited.take().and_then(|(left, tell)| {
            if read < left {
                return Some((left - read, tell));
            }
            // Nobody waits for it once the connection ends.
            let _ = tell.send(());
            None
        });
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Opening<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if self.awaited.is_some() {
            self.count(buffer.filled().len() - before);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Opening<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
