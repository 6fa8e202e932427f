//! What every caller does to a byte stream it has opened: TLS with one protocol, and HTTP/2 on it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body::Body;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use crate::net::{BoxIo, Io};

/// How much of a stream, and of all streams of a connection, may be under way.
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;

/// How a silent peer is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    /// How often it is asked for a sign of life; none for never.
    pub interval: Option<Duration>,
    /// A peer that does not answer for so long is gone.
    pub timeout: Duration,
}

/// Shakes hands with the server of that name; `protocol` is spoken afterwards, any if it is empty.
pub async fn tls(stream: BoxIo, host: &str, config: &Arc<ClientConfig>, protocol: &[u8]) -> io::Result<BoxIo> {
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let mut config = config.as_ref().clone();
    config.alpn_protocols = if protocol.is_empty() { Vec::new() } else { vec![protocol.to_vec()] };
    Ok(Box::new(TlsConnector::from(Arc::new(config)).connect(name, stream).await?))
}

/// Takes a stream into use for HTTP/2; what is returned second is to be run for as long as the connection is wanted.
pub async fn http2<S, B>(stream: S, keep_alive: KeepAlive) -> hyper::Result<(http2::SendRequest<B>, Http2<S, B>)>
where
    S: Io + 'static,
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(keep_alive.interval)
        .keep_alive_timeout(keep_alive.timeout)
        .keep_alive_while_idle(true);
    builder.handshake(TokioIo::new(stream)).await
}

/// The work of one HTTP/2 connection.
pub type Http2<S, B> = http2::Connection<TokioIo<S>, B, TokioExecutor>;
