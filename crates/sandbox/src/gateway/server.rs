//! Connections of clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use thane_runtime::Tasks;
use thane_runtime::net::{BoxIo, Listener};
use tokio::sync::Semaphore;
use tower::ServiceExt;

use super::Shared;
use super::read::Peer;
use super::routes;

/// The whole head of a request.
const HEAD_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 128;
/// After an error of the listener itself, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until the group stops.
pub(super) fn serve(shared: Arc<Shared>, listener: Box<dyn Listener>, tasks: &Tasks) {
    let group = tasks.clone();
    let router = routes::router(&shared);
    tasks.spawn_essential("gateway listener", async move {
        tokio::select! {
            () = accept(&shared, &router, listener, &group) => {}
            () = group.cancelled() => {}
        }
    });
}

async fn accept(shared: &Arc<Shared>, router: &axum::Router, listener: Box<dyn Listener>, tasks: &Tasks) {
    let slots = Arc::new(Semaphore::new(shared.options.limits.connections_max));
    loop {
        if slots.available_permits() == 0 {
            shared.metrics.connections_full.inc();
        }
        // The semaphore is never closed.
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((io, peer)) => {
                let (shared, router) = (Arc::clone(shared), router.clone());
                tasks.spawn("gateway connection", async move {
                    shared.metrics.connections.inc();
                    connection(&shared, router, io, peer).await;
                    shared.metrics.connections.dec();
                    drop(slot);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the gateway could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(shared: &Shared, router: axum::Router, io: BoxIo, peer: SocketAddr) {
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        router.clone().oneshot(request.map(axum::body::Body::new))
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.options.limits.idle_max)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(io), service)
        .with_upgrades();
    let mut served = std::pin::pin!(served);
    let ended = tokio::select! {
        ended = &mut served => ended,
        () = shared.tasks.cancelled() => {
            served.as_mut().graceful_shutdown();
            match tokio::time::timeout(shared.options.limits.drain, served).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, %peer, "a client's connection ended early");
    }
}
