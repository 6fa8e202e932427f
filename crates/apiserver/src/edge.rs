//! The server over TLS.

mod opening;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::pki_types::CertificateDer;
use thane_runtime::net::{BoxIo, Listener};
use thane_runtime::tls::ServerTls;
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::oneshot;

use crate::authn::ClientCertificate;
use crate::server::{ApiServer, Origin};
use opening::Opening;

/// A handshake that takes longer is given up.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Connections at once; further ones wait in the listener's backlog.
const CONNECTIONS_MAX: usize = 20_000;
/// A client that sends its request head slower than this is cut off.
const HEAD: Duration = Duration::from_secs(30);

/// A client of HTTP/2 from which nothing came for so long is asked whether it is still there, and has so long to say so.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(20);
/// Bytes a client of HTTP/2 begins with.
const PREFACE: usize = 24;

/// What a listener needs besides the server.
#[derive(Clone)]
pub struct Edge {
    /// Its certificate, and whose client certificates it believes; requests with one that is expired or foreign are refused.
    pub tls: ServerTls,
    /// Time.
    pub clock: SharedClock,
}

/// Accepts connections until the tasks are asked to stop; open requests are finished, watches end.
pub async fn serve(server: ApiServer, listener: Box<dyn Listener>, edge: Edge, tasks: Tasks) {
    let connections = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&connections).acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = tasks.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (server, edge, inner) = (server.clone(), edge.clone(), tasks.clone());
                tasks.spawn("connection", async move {
                    connection(server, stream, peer, edge, inner).await;
                    drop(place);
                });
            }
            Err(error) => {
                // out of file descriptors, most likely: what is open goes on, and new clients wait
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    server.inner().stopping.cancel();
}

/// The client's certificate, if it showed one, and whether the authorities in force now vouch for it.
fn verified(chain: &[CertificateDer<'_>], edge: &Edge, peer: SocketAddr) -> Option<Arc<ClientCertificate>> {
    let (own, clients) = (chain.first()?, edge.tls.clients()?);
    match clients.verify_client(chain, edge.clock.now()) {
        Ok(_) => Some(Arc::new(ClientCertificate::read(own))),
        Err(error) => {
            tracing::debug!(%error, %peer, "client certificate refused");
            Some(Arc::new(ClientCertificate::refused(error.to_string())))
        }
    }
}

async fn connection(server: ApiServer, stream: BoxIo, peer: SocketAddr, edge: Edge, tasks: Tasks) {
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, edge.tls.acceptor().accept(stream)).await else { return };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let origin = Origin::Connection { certificate: verified(chain, &edge, peer), peer };
    let service = service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(origin.clone());
        let server = server.clone();
        async move { Ok::<_, std::convert::Infallible>(server.handle(request).await) }
    });
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let builder = builder(is_http2);
    let (stream, opened) = Opening::new(stream, if is_http2 { PREFACE } else { 1 });
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = late(opened) => {
            tracing::debug!(%peer, "a client connected and sent nothing");
            return;
        }
        () = tasks.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, %peer, "connection ended");
    }
}

/// The protocol is what the handshake agreed on, so that nobody has to be waited for to show it.
fn builder(is_http2: bool) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD);
    let mut http2 = builder.http2();
    http2.timer(TokioTimer::new()).max_concurrent_streams(1000);
    http2.keep_alive_interval(Some(PING)).keep_alive_timeout(PONG);
    if is_http2 { builder.http2_only() } else { builder.http1_only() }
}

/// Completes if a connection is not opened in time.
async fn late(opened: oneshot::Receiver<()>) {
    if tokio::time::timeout(HEAD, opened).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests;
