//! A network that counts bytes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use thane_runtime::net::{BindError, BoxIo, Connector, Listener, Network, Tcp};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// TCP, with everything that passes counted, both ways.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counted {
    pub(crate) bytes: Arc<AtomicU64>,
}

impl Connector for Counted {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<BoxIo>> {
        Box::pin(async move {
            let inner = Tcp.connect(host, port).await?;
            Ok(Box::new(Stream { inner, bytes: Arc::clone(&self.bytes) }) as BoxIo)
        })
    }
}

impl Network for Counted {
    fn bind(&self, address: std::net::SocketAddr) -> BoxFuture<'_, Result<Box<dyn Listener>, BindError>> {
        Tcp.bind(address)
    }
}

struct Stream {
    inner: BoxIo,
    bytes: Arc<AtomicU64>,
}

impl Stream {
    fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        self.count(buf.filled().len() - before);
        polled
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, data);
        if let Poll::Ready(Ok(written)) = &polled {
            self.count(*written);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
