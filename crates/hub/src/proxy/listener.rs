//! Where clients of agents' clusters call: TLS, and who is at the other end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::pki_types::CertificateDer;
use thane_runtime::Tasks;
use thane_runtime::net::{BoxIo, Listener};
use thane_runtime::pki::{self, Trust};
use thane_runtime::tls::ServerTls;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::cut::{Severable, is_blocked};
use super::people::Person;
use super::{Client, Proxy};
use crate::gate::{Certificate, Peer};

/// Connections at once; further ones wait in the listener's backlog.
const CONNECTIONS_MAX: usize = 4_096;
/// A handshake that takes longer is given up, as is a head that comes slower.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// A connection on which nobody has proved who they are for so long is closed: its place is wanted by others.
const UNPROVEN_MAX: Duration = Duration::from_secs(30);
/// Requests at once on one connection.
const STREAMS_MAX: u32 = 250;
/// Bytes of the headers of a request.
const HEADERS_MAX: u32 = 64 * 1024;
/// How long to wait before accepting again after the system refused a connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// A silent client of HTTP/2 is asked for a sign of life, and has so long to give one.
const ASKED_EVERY: Duration = Duration::from_secs(30);
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// Time for open requests to end, once the process stops.
const FAREWELL: Duration = Duration::from_secs(1);

/// Whose certificates are believed, each for its own purpose.
pub struct Authorities {
    /// Of Argo CD: the fleet's.
    fleet: ArcSwap<Trust>,
    /// Of people: that of the hub's API; none where it is not known.
    people: ArcSwapOption<Trust>,
}

impl Authorities {
    /// From bundles of certificates.
    pub fn new(fleet_pem: &str, people_pem: Option<&str>) -> Result<Self, pki::Error> {
        let people = people_pem.map(Trust::from_pem).transpose()?;
        Ok(Self {
            fleet: ArcSwap::from_pointee(Trust::from_pem(fleet_pem)?),
            people: ArcSwapOption::new(people.map(Arc::new)),
        })
    }

    /// Replaces both; on an error the old ones stay.
    pub fn replace(&self, fleet_pem: &str, people_pem: Option<&str>) -> Result<(), pki::Error> {
        let people = people_pem.map(Trust::from_pem).transpose()?;
        self.fleet.store(Arc::new(Trust::from_pem(fleet_pem)?));
        self.people.store(people.map(Arc::new));
        Ok(())
    }
}

/// Accepts connections until the tasks are asked to stop.
pub async fn serve(listener: Box<dyn Listener>, tls: ServerTls, proxy: Arc<Proxy>, tasks: Tasks) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        if places.available_permits() == 0 {
            proxy.metrics.connections_full.inc();
        }
        let place = tokio::select! {
            () = tasks.cancelled() => return,
            place = Arc::clone(&places).acquire_owned() => place,
        };
        let Ok(place) = place else { return };
        let accepted = tokio::select! {
            () = tasks.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (tls, proxy, stop) = (tls.clone(), Arc::clone(&proxy), tasks.clone());
                tasks.spawn("connection", async move {
                    proxy.metrics.connections.inc();
                    connection(stream, peer, &tls, &proxy, &stop).await;
                    proxy.metrics.connections.dec();
                    drop(place);
                });
            }
            Err(error) => {
                // Out of file descriptors, most likely: what is open goes on, and new clients wait.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

async fn connection(stream: BoxIo, address: SocketAddr, tls: &ServerTls, proxy: &Arc<Proxy>, tasks: &Tasks) {
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, tls.acceptor().accept(stream)).await else { return };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let leaf = chain.first().and_then(|leaf| Certificate::read(leaf).ok()).map(|leaf| leaf.fingerprint);
    // One that is blocked already is refused request by request.
    let leaf = leaf.filter(|leaf| !is_blocked(&proxy.gate, leaf));
    let client = Arc::new(client(chain, address, proxy, leaf.is_some()));
    let admitted = client.admitted.clone();
    let stream = Severable::new(stream, leaf, &proxy.gate, tasks);
    let service = {
        let proxy = Arc::clone(proxy);
        service_fn(move |request| {
            let (proxy, client) = (Arc::clone(&proxy), Arc::clone(&client));
            async move { Ok::<_, Infallible>(proxy.answer(&client, request).await) }
        })
    };
    let builder = server();
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = tasks.cancelled() => {
            serving.as_mut().graceful_shutdown();
            tokio::time::timeout(FAREWELL, serving).await.unwrap_or(Ok(()))
        }
        () = proves_nothing(&admitted) => {
            proxy.metrics.unproven.inc();
            Ok(())
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, peer = %address, "connection ended");
    }
}

/// Completes when a client has been given the time to prove who it is, and has not.
async fn proves_nothing(admitted: &CancellationToken) {
    if tokio::time::timeout(UNPROVEN_MAX, admitted.cancelled()).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

/// The server of one connection, and its bounds.
fn server() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE).max_headers(100);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADERS_MAX)
        .keep_alive_interval(ASKED_EVERY)
        .keep_alive_timeout(SILENCE_MAX);
    builder
}

/// Who is at the other end: Argo CD by the fleet's authority, a person by that of the hub's API unless the certificate is
/// blocked, never by both.
fn client(chain: &[CertificateDer<'_>], address: SocketAddr, proxy: &Proxy, is_believed: bool) -> Client {
    let now = proxy.clock.now();
    let fleet = match chain.first() {
        Some(leaf) => {
            let verified = proxy.authorities.fleet.load().verify_client(chain, now);
            verified.and_then(|_| Certificate::read(leaf)).map(Arc::new).map_err(|error| Arc::from(error.to_string()))
        }
        None => Err("no certificate was shown".into()),
    };
    let people = proxy.authorities.people.load();
    let verified = people.as_ref().filter(|_| fleet.is_err() && is_believed);
    let person = verified.and_then(|trust| trust.verify_client(chain, now).ok());
    Client {
        peer: Peer { address, certificate: fleet },
        person: person.as_ref().and_then(Person::new),
        admitted: CancellationToken::new(),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::Full;
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// The preface of a client, its empty settings, and the head of `GET /`.
    fn request() -> Vec<u8> {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
        // HEADERS, with the end of its headers and of the stream, on stream 1: GET, http, /.
        bytes.extend_from_slice(&[0, 0, 3, 1, 5, 0, 0, 0, 1, 0x82, 0x86, 0x84]);
        bytes
    }

    #[tokio::test(start_paused = true)]
    async fn only_who_proves_who_they_are_keeps_a_place() {
        let (admitted, started) = (CancellationToken::new(), tokio::time::Instant::now());
        proves_nothing(&admitted).await;
        assert_eq!(started.elapsed(), UNPROVEN_MAX);
        let proving = async {
            tokio::time::sleep(UNPROVEN_MAX / 2).await;
            admitted.cancel();
            tokio::time::sleep(10 * UNPROVEN_MAX).await;
        };
        tokio::select! {
            () = proves_nothing(&admitted) => panic!("it was let go"),
            () = proving => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_vanishes_ends_its_requests() {
        let (near, mut far) = tokio::io::duplex(64 * 1024);
        let (held, mut holders) = tokio::sync::mpsc::channel::<()>(1);
        let service = service_fn(move |_: http::Request<hyper::body::Incoming>| {
            let held = held.clone();
            async move {
                let _held = held;
                // A watch that has nothing to tell.
                std::future::pending::<()>().await;
                Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::new())))
            }
        });
        far.write_all(&request()).await.unwrap();
        let builder = server();
        let ended = builder.serve_connection_with_upgrades(TokioIo::new(near), service).await;
        assert!(ended.is_err(), "{ended:?}");
        assert_eq!(holders.recv().await, None);
        // The client was there all the time, and silent.
        drop(far);
    }
}
