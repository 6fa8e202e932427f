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

/// How much of a stream may be under way.
const STREAM_WINDOW: u32 = 1024 * 1024;
/// And of all streams of a connection: more than all that may be stuck together, such as terminals whose programs do not
/// read, so that none of them holds back the others.
const CONNECTION_WINDOW: u32 = 64 * 1024 * 1024;

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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use futures::StreamExt as _;
    use http::{Request, Response};
    use http_body_util::{BodyExt as _, Empty, StreamBody};
    use hyper::body::{Frame, Incoming};
    use hyper::server::conn::http2 as server;
    use hyper::service::service_fn;

    use super::*;

    /// As many streams of live access as an agent has at most.
    const STUCK: usize = 48;
    const PIECE: usize = 16 * 1024;

    #[tokio::test]
    async fn streams_that_nobody_reads_hold_back_no_other() {
        let (near, far) = tokio::io::duplex(256 * 1024);
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&sent);
        let service = service_fn(move |request: Request<Incoming>| {
            let sent = Arc::clone(&counted);
            let pieces = if request.uri().path() == "/stuck" { usize::MAX } else { 1 };
            let body = futures::stream::repeat(Bytes::from_static(&[0; PIECE])).take(pieces).map(move |piece| {
                sent.fetch_add(piece.len(), Ordering::Relaxed);
                Ok::<_, Infallible>(Frame::data(piece))
            });
            async move { Ok::<_, Infallible>(Response::new(StreamBody::new(body))) }
        });
        let serving = server::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(far), service);
        let keep_alive = KeepAlive { interval: None, timeout: Duration::from_secs(20) };
        let client = async {
            let (mut sender, connection) = http2(near, keep_alive).await.unwrap();
            let asking = async {
                let mut ask = async |path: &str| {
                    let request = Request::get(format!("http://hub{path}")).body(Empty::<Bytes>::new()).unwrap();
                    sender.ready().await.unwrap();
                    sender.send_request(request).await.unwrap()
                };
                let mut stuck = Vec::new();
                for _ in 0..STUCK {
                    stuck.push(ask("/stuck").await);
                }
                // Until none of them may have more under way.
                while sent.load(Ordering::Relaxed) < STUCK * STREAM_WINDOW as usize {
                    tokio::task::yield_now().await;
                }
                let whole = ask("/other").await.into_body().collect().await.unwrap().to_bytes();
                assert_eq!(whole.len(), PIECE);
            };
            tokio::select! {
                () = asking => {}
                ended = connection => panic!("{ended:?}"),
            }
        };
        let both = async {
            tokio::select! {
                () = client => {}
                ended = serving => panic!("{ended:?}"),
            }
        };
        // Far longer than it takes: without room for all of them it never ends.
        tokio::time::timeout(Duration::from_mins(1), both).await.expect("something is held back");
    }
}
