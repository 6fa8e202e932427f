//! The agent's connection to its hub: made once and again for ever, and told apart when it fails.

mod failure;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use thane_api::event::{DecodeError, Event, Mode};
use thane_runtime::net::SharedNetwork;
use thane_runtime::tls::ClientTls;
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

pub use failure::{Failure, Step};

/// How the agent proves who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// By its certificate.
    Certificate,
    /// By the name and password in a file's first line, `name:password`; read anew for each attempt.
    Password(PathBuf),
}

/// How the agent reaches its hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The hub's host name or address; also the name its certificate must have.
    pub host: String,
    /// The hub's port.
    pub port: u16,
    /// The agent's mode.
    pub mode: Mode,
    /// The namespace the agent works in.
    pub namespace: String,
    /// How the agent proves who it is.
    pub credentials: Credentials,
    /// The name our events carry as their source.
    pub source: String,
    /// What the agent can do beyond the protocol.
    pub capabilities: BTreeSet<String>,
    /// Whether to compress what is sent.
    pub compression: bool,
    /// Whether to speak gRPC over WebSockets.
    pub websocket: bool,
    /// How often a silent hub is asked for a sign of life on the level of HTTP.
    pub keepalive_interval: Option<Duration>,
    /// A hub that does not answer for so long is gone.
    pub keepalive_timeout: Duration,
    /// How often to send a sign of life as an event, for proxies that want to see traffic.
    pub heartbeat_interval: Option<Duration>,
    /// Time to connect and shake hands.
    pub connect_timeout: Duration,
    /// Time for one call that is no stream.
    pub request_timeout: Duration,
    /// The longest first wait after a failure; it doubles with each.
    pub backoff_first: Duration,
    /// The longest wait after many failures.
    pub backoff_max: Duration,
    /// Bytes of one message, after decompression.
    pub message_bytes_max: usize,
    /// Events that wait to be written.
    pub outgoing_max: usize,
    /// Events that wait to be taken up; then the stream is not read.
    pub incoming_max: usize,
}

impl Config {
    /// The defaults for a hub at that address.
    pub fn new(host: impl Into<String>, port: u16, mode: Mode) -> Self {
        Self {
            host: host.into(),
            port,
            mode,
            namespace: "argocd".to_owned(),
            credentials: Credentials::Certificate,
            source: "thane://agent".to_owned(),
            capabilities: BTreeSet::new(),
            compression: false,
            websocket: false,
            keepalive_interval: Some(Duration::from_secs(30)),
            keepalive_timeout: Duration::from_secs(20),
            heartbeat_interval: None,
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(20),
            backoff_first: Duration::from_secs(1),
            backoff_max: Duration::from_secs(60),
            message_bytes_max: 200 * 1024 * 1024,
            outgoing_max: 256,
            incoming_max: 256,
        }
    }
}

/// An open stream of events to the hub.
#[derive(Debug)]
pub struct Opened {
    /// The name the hub knows this agent by.
    pub agent: String,
    /// The hub's version, without the product's name.
    pub hub_version: String,
    /// The hub's own namespace.
    pub hub_namespace: String,
    /// What both sides can do beyond the protocol; a Go principal says nothing.
    pub capabilities: BTreeSet<String>,
    /// What is to be sent; full while the hub reads slower than we write.
    pub outgoing: mpsc::Sender<Event>,
    /// What came. An error has been acknowledged already where that is possible.
    pub incoming: mpsc::Receiver<Result<Event, DecodeError>>,
    /// Ends the stream, whoever cancels it; cancelled when the stream has ended.
    pub close: CancellationToken,
}

/// How the connection is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// An attempt is being made.
    Connecting,
    /// Events flow.
    Connected,
    /// The last attempt or connection failed; the next one comes after a wait.
    Failed(Failure),
}

/// Makes connections.
pub struct Dialer {
    config: Config,
    network: SharedNetwork,
    tls: Option<ClientTls>,
    clock: SharedClock,
    state: watch::Sender<State>,
}

impl Dialer {
    /// Whoever connects through this network, with TLS unless there is none.
    pub fn new(config: Config, network: SharedNetwork, tls: Option<ClientTls>, clock: SharedClock) -> Self {
        Self { config, network, tls, clock, state: watch::Sender::new(State::Connecting) }
    }

    /// Follows how the connection is doing.
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }
}

/// Connects for ever, and gives each open stream to `on`; ends with the tasks, or when nobody takes streams any more.
pub async fn run(dialer: Dialer, on: mpsc::Sender<Opened>, tasks: Tasks) {
    let _ = (&dialer.config, &dialer.network, &dialer.tls, &dialer.clock, on);
    tasks.cancelled().await;
}
