//! One sandbox's services on one listener.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use thane_runtime::net::{BoxIo, Listener};
use thane_runtime::pods::{AccessError, ContainerAt};
use thane_runtime::rooms::{Room, Rooms};
use thane_runtime::tls::ServerTls;
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tonic::body::Body;
use tonic::service::Routes;
use tower::ServiceExt;

use super::desk::Desk;
use super::metrics::Metrics;
use super::services;

/// Connections to one sandbox; further ones wait in the listener's backlog.
const CONNECTIONS_MAX: usize = 64;
/// Calls at once on one connection.
const CALLS_MAX: u32 = 256;
/// A handshake that takes longer is given up.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How often a silent peer is asked for a sign of life, and how long that may take.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));
/// How long to wait before accepting again after the system refused a connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Time for streams to say why they end.
const FAREWELL: Duration = Duration::from_secs(1);
/// Where counts are shown, to whoever has a certificate: the sandbox shares the sidecar's addresses, so there is no other way
/// to them that it has not, too.
const METRICS: &str = "/metrics";
const HEADERS_MAX: u32 = 16 * 1024;
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;

/// What is served.
#[derive(Clone)]
pub struct Served {
    /// Where its container is found.
    pub rooms: Arc<dyn Rooms>,
    /// Which container.
    pub at: ContainerAt,
    /// Whose client certificates are let in; every one of them is a gateway.
    pub tls: ServerTls,
    /// Time.
    pub clock: SharedClock,
    /// Counts.
    pub metrics: Metrics,
}

/// The only container there is: the one beside this process in its pod.
#[derive(Clone)]
pub struct OneRoom(pub Room);

impl Rooms for OneRoom {
    fn room(&self, _: ContainerAt) -> BoxFuture<'_, Result<Room, AccessError>> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

/// Serves one sandbox on a listener until the tasks are asked to stop.
pub async fn serve(listener: Box<dyn Listener>, served: Served, tasks: Tasks) -> Result<(), tonic::Status> {
    let Served { rooms, at, tls, clock, metrics } = served;
    let desk = Desk::open(rooms, at, clock, metrics.clone(), tasks.child("sandbox")).await?;
    let routes = services::routes(&desk).prepare();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    metrics.served.inc();
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            () = tasks.cancelled() => break,
            accepted = accepted => accepted,
        };
        let Ok(place) = place else { break };
        match accepted {
            Ok((stream, peer)) => {
                let (tls, group) = (tls.clone(), tasks.clone());
                let shown = Shown { routes: routes.clone(), metrics: metrics.clone() };
                tasks.spawn("connection", async move { connection(stream, peer, &tls, shown, &group, place).await });
            }
            Err(error) => {
                // Out of file descriptors, most likely: what is open goes on.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
    metrics.served.dec();
    Ok(())
}

/// What a connection is served with.
#[derive(Clone)]
struct Shown {
    routes: Routes,
    metrics: Metrics,
}

impl Shown {
    async fn answer(self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        if request.method() != Method::GET || request.uri().path() != METRICS {
            return self.routes.oneshot(request.map(Body::new)).await;
        }
        let mut response = Response::new(Body::new(Full::new(Bytes::from(self.metrics.text()))));
        let kind = HeaderValue::from_static(thane_runtime::metrics::CONTENT_TYPE);
        response.headers_mut().insert(CONTENT_TYPE, kind);
        Ok(response)
    }
}

async fn connection(
    stream: BoxIo,
    peer: SocketAddr,
    tls: &ServerTls,
    shown: Shown,
    tasks: &Tasks,
    _place: OwnedSemaphorePermit,
) {
    let mut config = (*tls.config()).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let accepting = TlsAcceptor::from(Arc::new(config)).accept(stream);
    let stream = match tokio::time::timeout(HANDSHAKE, accepting).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, %peer, "handshake failed"),
        Err(_) => return tracing::debug!(%peer, "handshake took too long"),
    };
    if stream.get_ref().1.peer_certificates().is_none_or(<[_]>::is_empty) {
        return tracing::debug!(%peer, "no certificate was shown");
    }
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(CALLS_MAX)
        .max_header_list_size(HEADERS_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(KEEPALIVE.0)
        .keep_alive_timeout(KEEPALIVE.1);
    let service = service_fn(move |request: Request<Incoming>| shown.clone().answer(request));
    let mut serving = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = serving.as_mut() => {
            if let Err(error) = ended {
                tracing::debug!(%error, %peer, "a connection ended");
            }
        }
        () = tasks.cancelled() => {
            serving.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(FAREWELL, serving).await;
        }
    }
}
