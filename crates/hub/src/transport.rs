//! The listener agents call: gRPC over HTTP/2, and over WebSocket where something in between speaks only HTTP/1.1.

mod calls;
mod connection;
mod events;
mod live;
mod metrics;
mod services;
mod tunnel;
mod websocket;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use thane_api::event::{DecodeError, Event};
use thane_runtime::net::Listener;
use thane_runtime::tls::ServerTls;
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::gate::{Gate, Identity};
use crate::proxy::tunnel::Tunnels;

pub use live::{Caller, Live, Messages, NoLive};
pub use metrics::Metrics;

/// How long to wait before accepting again after the system refused a connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Bounds of the listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The name our events carry as their source.
    pub source: String,
    /// Connections at once; further ones wait in the listener's backlog.
    pub connections_max: usize,
    /// Calls at once on one connection: one stream of events, and logs and terminals.
    pub calls_per_connection_max: u32,
    /// Bytes of one message, after decompression.
    pub message_bytes_max: usize,
    /// Bytes of the headers of one call.
    pub header_bytes_max: u32,
    /// A TLS handshake that takes longer is given up, as is a caller that has not proved who it is in three times that.
    pub handshake_timeout: Duration,
    /// How often a silent peer is asked for a sign of life.
    pub keepalive_interval: Duration,
    /// A peer that does not answer for so long is gone.
    pub keepalive_timeout: Duration,
    /// Events that wait to be written to one agent.
    pub outgoing_max: usize,
    /// Events of one agent that wait to be taken up; then its stream is not read.
    pub incoming_max: usize,
    /// Whether gRPC over WebSocket is answered.
    pub websocket: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            source: "thane://hub".to_owned(),
            connections_max: 20_000,
            calls_per_connection_max: 256,
            message_bytes_max: 200 * 1024 * 1024,
            header_bytes_max: 16 * 1024,
            handshake_timeout: Duration::from_secs(10),
            keepalive_interval: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(20),
            outgoing_max: 256,
            incoming_max: 256,
            websocket: true,
        }
    }
}

/// The open stream of events of one agent.
#[derive(Debug)]
pub struct Stream {
    /// Whose it is.
    pub identity: Identity,
    /// Where it comes from.
    pub peer: SocketAddr,
    /// What is to be sent; full while the agent reads slower than we write.
    pub outgoing: mpsc::Sender<Event>,
    /// What came. An error has been acknowledged already where that is possible; signs of life have been answered.
    pub incoming: mpsc::Receiver<Result<Event, DecodeError>>,
    /// Ends the stream, whoever cancels it; cancelled when the stream has ended.
    pub close: CancellationToken,
    status: Arc<OnceLock<Status>>,
}

impl Stream {
    /// Ends the stream with this answer.
    pub fn refuse(self, status: Status) {
        // Whatever ended it first is the reason.
        let _ = self.status.set(status);
        self.close.cancel();
    }
}

/// What stands behind the listener.
#[derive(Clone)]
pub struct Service {
    /// Who gets in.
    pub gate: Arc<Gate>,
    /// Where streams of events go once they are open.
    pub streams: mpsc::Sender<Stream>,
    /// Where logs and terminals go.
    pub live: Arc<dyn Live>,
    /// Where calls go that wait for requests.
    pub tunnels: Tunnels,
    /// What else agents may call here.
    pub guests: Option<Guests>,
    /// Bounds.
    pub config: Config,
    /// Counts.
    pub metrics: Metrics,
    /// Time.
    pub clock: SharedClock,
}

/// gRPC services of others on the same listener. Whoever calls them is known by the certificate of the connection: each
/// request carries an [`AgentName`](thane_api::AgentName).
#[derive(Clone)]
pub struct Guests {
    /// What their paths begin with: `/package.`.
    prefix: &'static str,
    routes: tonic::service::Routes,
}

impl Guests {
    /// The services of one package.
    pub fn new(prefix: &'static str, routes: tonic::service::Routes) -> Self {
        Self { prefix, routes: routes.prepare() }
    }

    fn are_called(&self, path: &str) -> bool {
        path.starts_with(self.prefix)
    }
}

/// Accepts connections until the tasks are asked to stop.
pub async fn serve(listener: Box<dyn Listener>, tls: Option<ServerTls>, service: Service, tasks: Tasks) {
    let places = Arc::new(Semaphore::new(service.config.connections_max));
    let metrics = service.metrics.clone();
    let door = Arc::new(connection::Door::new(service, tls, tasks.clone()));
    loop {
        if places.available_permits() == 0 {
            metrics.full();
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
                let door = Arc::clone(&door);
                tasks.spawn("connection", async move { door.serve(stream, peer, place).await });
            }
            Err(error) => {
                // Out of file descriptors, most likely: what is open goes on, and new agents wait.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}
