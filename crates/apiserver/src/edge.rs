//! The server over TLS.

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

use crate::authn::ClientCertificate;
use crate::server::{ApiServer, Origin};

/// A handshake that takes longer is given up.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Connections at once; further ones wait in the listener's backlog.
const CONNECTIONS_MAX: usize = 20_000;
/// A client that sends its request head slower than this is cut off.
const HEAD: Duration = Duration::from_secs(30);

/// What a listener needs besides the server.
#[derive(Clone)]
pub struct Edge {
    /// Its certificate, and whose client certificates it believes; one that is expired or foreign identifies nobody.
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

/// The client's certificate, if the authorities in force now vouch for it.
fn verified(chain: &[CertificateDer<'_>], edge: &Edge, peer: SocketAddr) -> Option<Arc<ClientCertificate>> {
    let (own, clients) = (chain.first()?, edge.tls.clients()?);
    match clients.verify_client(chain, edge.clock.now()) {
        Ok(_) => Some(Arc::new(ClientCertificate::read(own))),
        Err(error) => {
            tracing::debug!(%error, %peer, "client certificate refused");
            None
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
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1000);
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = tasks.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, %peer, "connection ended");
    }
}
