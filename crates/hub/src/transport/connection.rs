//! One connection: its handshake, who is at the other end, and when it is cut.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::pki_types::CertificateDer;
use thane_api::AgentName;
use thane_runtime::Tasks;
use thane_runtime::net::BoxIo;
use thane_runtime::tls::ServerTls;
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::service::Routes;
use tower::ServiceExt;

use super::metrics::Open;
use super::{Config, Service, services, websocket};
use crate::gate::{Certificate, Peer};

/// What is offered in the TLS handshake, best first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// How much of a stream, and of all streams of a connection, may be under way.
const STREAM_WINDOW: u32 = 1024 * 1024;
/// Room for as many streams that nobody reads as an agent may have, so that none of them holds up its events.
const CONNECTION_WINDOW: u32 = 64 * 1024 * 1024;
/// Bytes that wait in a connection to be sent, per stream.
const SEND_BUFFER: usize = 256 * 1024;
/// Time for streams to say why they end, once a connection is cut.
const FAREWELL: Duration = Duration::from_secs(1);
/// An agent that has not proved who it is after so many times the handshake's limit is cut off.
const PATIENCE: u32 = 3;
/// Headers of one HTTP/1.1 request.
const HEADERS_MAX: usize = 100;

/// Where connections come in.
pub(super) struct Door {
    service: Service,
    tls: Option<ServerTls>,
    routes: Routes,
    tasks: Tasks,
}

/// One connection, as its calls see it.
pub(super) struct Connection {
    /// Who is at the other end.
    pub(super) peer: Peer,
    /// Cancelled when someone has proved who they are.
    pub(super) admitted: CancellationToken,
    /// Cancelled when the connection became a WebSocket.
    pub(super) upgraded: CancellationToken,
    /// Cancelled when the connection ends.
    pub(super) ended: CancellationToken,
    _place: OwnedSemaphorePermit,
    _open: Open,
}

/// Why the hub ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Stopping,
    Blocked,
    Idle,
}

impl Cut {
    fn as_str(self) -> &'static str {
        match self {
            Self::Stopping => "stopping",
            Self::Blocked => "blocked",
            Self::Idle => "unproved",
        }
    }
}

impl Door {
    pub(super) fn new(service: Service, tls: Option<ServerTls>, tasks: Tasks) -> Self {
        let routes = services::routes(&service, &tasks).prepare();
        Self { service, tls, routes, tasks }
    }

    pub(super) fn config(&self) -> &Config {
        &self.service.config
    }

    pub(super) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// The services, for one call.
    pub(super) async fn call(&self, connection: &Arc<Connection>, mut request: Request<Body>) -> Response<Body> {
        let guests = self.service.guests.as_ref().filter(|guests| guests.are_called(request.uri().path()));
        let routes = match guests {
            Some(guests) => match self.service.gate.recognise(&connection.peer) {
                Ok(agent) => {
                    connection.admit();
                    request.extensions_mut().insert(AgentName(agent));
                    guests.routes.clone()
                }
                Err(refusal) => return refusal.while_calling().into_http(),
            },
            None => {
                request.extensions_mut().insert(Arc::clone(connection));
                self.routes.clone()
            }
        };
        let call = guests.is_none().then(|| self.service.metrics.calls().begin(request.uri().path()));
        match routes.oneshot(request).await {
            Ok(response) => match call {
                Some(call) => call.answered(response),
                None => response,
            },
            Err(never) => match never {},
        }
    }

    /// Serves one connection until it ends.
    pub(super) async fn serve(self: Arc<Self>, stream: BoxIo, address: SocketAddr, place: OwnedSemaphorePermit) {
        let open = self.service.metrics.connected();
        let (stream, certificate) = match self.shake_hands(stream, address).await {
            Ok(shaken) => shaken,
            Err(error) => {
                self.service.metrics.cut("handshake");
                tracing::debug!(%error, peer = %address, "handshake failed");
                return;
            }
        };
        let connection = Arc::new(Connection {
            peer: Peer { address, certificate },
            admitted: CancellationToken::new(),
            upgraded: CancellationToken::new(),
            ended: self.tasks.token().child_token(),
            _place: place,
            _open: open,
        });
        self.speak(stream, connection).await;
    }

    async fn shake_hands(
        &self,
        stream: BoxIo,
        address: SocketAddr,
    ) -> std::io::Result<(BoxIo, Result<Arc<Certificate>, Arc<str>>)> {
        let Some(tls) = &self.tls else { return Ok((stream, Err("the connection has no TLS".into()))) };
        let mut config = (*tls.config()).clone();
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        let accepting = TlsAcceptor::from(Arc::new(config)).accept(stream);
        let timeout = self.service.config.handshake_timeout;
        let accepted = tokio::time::timeout(timeout, accepting).await;
        let stream = accepted.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??;
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let certificate = self.certificate(tls, chain);
        if let Err(reason) = &certificate {
            tracing::debug!(%reason, peer = %address, "no certificate that counts");
        }
        Ok((Box::new(stream), certificate))
    }

    fn certificate(&self, tls: &ServerTls, chain: &[CertificateDer<'_>]) -> Result<Arc<Certificate>, Arc<str>> {
        let leaf = chain.first().ok_or("no certificate was shown")?;
        let trust = tls.clients().ok_or("no authority for certificates of agents is configured")?;
        let verified = trust.verify_client(chain, self.service.clock.now());
        let certificate = verified.and_then(|_| Certificate::read(leaf));
        certificate.map(Arc::new).map_err(|error| Arc::from(error.to_string()))
    }

    async fn speak(self: Arc<Self>, stream: BoxIo, connection: Arc<Connection>) {
        let builder = http_builder(&self.service.config);
        let service = {
            let (door, connection) = (Arc::clone(&self), Arc::clone(&connection));
            service_fn(move |request| answer(Arc::clone(&door), Arc::clone(&connection), request))
        };
        let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let mut serving = std::pin::pin!(serving);
        let upgraded = tokio::select! {
            ended = serving.as_mut() => ended.is_ok() && connection.upgraded.is_cancelled(),
            cut = self.cut(&connection) => {
                connection.ended.cancel();
                serving.as_mut().graceful_shutdown();
                self.note_cut(cut, &connection);
                let _ = tokio::time::timeout(FAREWELL, serving).await;
                return;
            }
        };
        // A connection that became a WebSocket goes on in its own task, which ends it.
        if !upgraded {
            connection.ended.cancel();
        }
    }

    /// Completes when the connection is to be cut.
    async fn cut(&self, connection: &Connection) -> Cut {
        let blocked = async {
            match connection.peer.fingerprint() {
                Some(fingerprint) => self.service.gate.blocked(fingerprint).await,
                None => std::future::pending().await,
            }
        };
        let unproved = async {
            let patience = self.service.config.handshake_timeout.saturating_mul(PATIENCE);
            if tokio::time::timeout(patience, connection.admitted.cancelled()).await.is_ok() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = self.tasks.cancelled() => Cut::Stopping,
            () = blocked => Cut::Blocked,
            () = unproved => Cut::Idle,
        }
    }

    /// Runs what an upgraded connection does, until that ends or the connection is cut.
    pub(super) async fn until_cut(&self, connection: &Connection, work: impl Future<Output = ()>) {
        tokio::select! {
            () = work => {}
            cut = self.cut(connection) => self.note_cut(cut, connection),
        }
        connection.ended.cancel();
    }

    fn note_cut(&self, cut: Cut, connection: &Connection) {
        self.service.metrics.cut(cut.as_str());
        if cut != Cut::Stopping {
            tracing::info!(peer = %connection.peer.address, reason = cut.as_str(), "connection cut");
        }
    }
}

impl Connection {
    /// Someone on this connection has proved who they are.
    pub(super) fn admit(&self) {
        self.admitted.cancel();
    }
}

fn http_builder(config: &Config) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(config.handshake_timeout)
        .max_headers(HEADERS_MAX)
        .max_buf_size(usize::try_from(config.header_bytes_max).unwrap_or(usize::MAX).max(8192));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(config.calls_per_connection_max)
        .max_header_list_size(config.header_bytes_max)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(config.keepalive_interval)
        .keep_alive_timeout(config.keepalive_timeout);
    builder
}

async fn answer(
    door: Arc<Door>,
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    if websocket::is_asked_for(&request) && door.config().websocket {
        return Ok(websocket::upgrade(door, connection, request));
    }
    if request.version() < Version::HTTP_2 {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::HTTP_VERSION_NOT_SUPPORTED;
        return Ok(response);
    }
    Ok(door.call(&connection, request.map(Body::new)).await)
}
