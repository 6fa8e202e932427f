//! HTTP without TLS, as commands speak it to a part of Thane: where it is, and one conversation with it.

use std::io;
use std::path::Path;
use std::pin::Pin;

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use thane_runtime::net::{Connector, Tcp};

/// What `thane up` writes.
pub(crate) const ENDPOINTS: &str = ".thane/endpoints.json";

/// A connection that is driven only as long as something is waited for.
pub(crate) struct Conversation<B> {
    sender: SendRequest<B>,
    connection: Option<Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>>,
}

impl<B> Conversation<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    pub(crate) async fn open(host: &str, port: u16) -> io::Result<Self> {
        let stream = Tcp.connect(host, port).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        Ok(Self { sender, connection: Some(Box::pin(connection)) })
    }

    /// Asks, and waits for the head of the answer.
    pub(crate) async fn send(&mut self, request: Request<B>) -> hyper::Result<Response<Incoming>> {
        let answer = self.sender.send_request(request);
        drive(&mut self.connection, answer).await
    }

    /// The next piece of an answer.
    pub(crate) async fn piece(&mut self, body: &mut Incoming) -> hyper::Result<Option<Bytes>> {
        loop {
            match drive(&mut self.connection, body.frame()).await.transpose()? {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }

    /// The whole answer, if it is no longer than that.
    pub(crate) async fn rest(&mut self, body: Incoming, most: usize) -> io::Result<Bytes> {
        let body = drive(&mut self.connection, Limited::new(body, most).collect()).await.map_err(io::Error::other)?;
        Ok(body.to_bytes())
    }

    /// Asks, and waits for the whole answer.
    pub(crate) async fn ask(&mut self, request: Request<B>, most: usize) -> io::Result<(StatusCode, Bytes)> {
        let (head, body) = self.send(request).await.map_err(io::Error::other)?.into_parts();
        Ok((head.status, self.rest(body, most).await?))
    }
}

/// Works, and moves the connection's bytes meanwhile. What ends the connection also ends the work, with a better reason.
async fn drive<T>(
    connection: &mut Option<Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>>,
    work: impl Future<Output = T>,
) -> T {
    tokio::pin!(work);
    if let Some(moving) = connection {
        tokio::select! {
            done = &mut work => return done,
            _ = moving => *connection = None,
        }
    }
    work.await
}

/// A variable of the environment that is set to something.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// What a file of endpoints says about one of them.
pub(crate) fn published(file: &Path, name: &str) -> Option<String> {
    let endpoints: Value = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
    endpoints.get(name)?.as_str().map(str::to_owned)
}

/// Host and port of `host:port`.
pub(crate) fn split(address: &str) -> Option<(String, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = match inner {
        Some(inner) => inner,
        None if host.contains(':') || host.is_empty() => return None,
        None => host,
    };
    Some((host.to_owned(), port.parse().ok()?))
}
