//! A byte stream that remembers why TLS broke it: HTTP/2 keeps only the words.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use thane_runtime::net::BoxIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Failure;

/// What went wrong with TLS after its handshake, once something has.
#[derive(Debug, Clone, Default)]
pub(super) struct Trouble(Arc<OnceLock<Failure>>);

impl Trouble {
    pub(super) fn get(&self) -> Option<Failure> {
        self.0.get().cloned()
    }
}

/// A byte stream whose trouble is remembered.
pub(super) struct Watched {
    pub(super) stream: BoxIo,
    pub(super) address: String,
    pub(super) trouble: Trouble,
}

impl Watched {
    fn noted<T>(&self, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(error)) = &polled
            && let Some(failure) = Failure::of_tls(&self.address, error)
        {
            let _ = self.trouble.0.set(failure);
        }
        polled
    }
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, into);
        self.noted(polled)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.noted(polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.noted(polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.noted(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
