//! The agent's connection to its hub: made once and again for ever, and told apart when it fails.

mod backoff;
mod channel;
mod credentials;
mod failure;
mod metrics;
mod session;
mod stream;
mod tokens;
mod watched;
mod websocket;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use thane_api::event::{DecodeError, Event, Mode, PONG};
use thane_runtime::net::SharedNetwork;
use thane_runtime::tls::ClientTls;
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use backoff::Backoff;
use channel::Line;
use stream::{Reply, Stream};

pub use channel::Channel;
pub use credentials::{Credentials, UnknownCredentials};
pub use failure::{Failure, Step, TlsFault};
pub use metrics::Metrics;
pub use session::Calls;

/// A connection that lasted so long was a good one: the next failure is the first again.
const GOOD: Duration = Duration::from_secs(10);

/// How often a hub that answers signs of life is sent one, so that its silence is noticed.
const LIVENESS: Duration = Duration::from_secs(20);

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
    /// Whether to speak gRPC over WebSocket.
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
            // Upstream's hub cuts off whoever asks more often than every five minutes.
            keepalive_interval: Some(Duration::from_mins(6)),
            keepalive_timeout: Duration::from_secs(20),
            heartbeat_interval: None,
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(20),
            backoff_first: Duration::from_secs(1),
            backoff_max: Duration::from_mins(1),
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
    /// Makes further calls on the same connection: logs and terminals.
    pub calls: Calls,
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
    line: Line,
    clock: SharedClock,
    metrics: Metrics,
    state: watch::Sender<State>,
    chance: Box<dyn Fn() -> f64 + Send + Sync>,
}

/// What a hub says when it is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// The name the hub knows this agent by.
    pub agent: String,
    /// The hub's version, without the product's name.
    pub hub_version: String,
    /// The hub's own namespace.
    pub hub_namespace: String,
}

impl Dialer {
    /// Whoever connects through this network, with TLS unless there is none.
    pub fn new(config: Config, network: SharedNetwork, tls: Option<ClientTls>, clock: SharedClock) -> Self {
        let line = Line { config: Arc::new(config), network, tls };
        let state = watch::Sender::new(State::Connecting);
        Self { line, clock, metrics: Metrics::default(), state, chance: Box::new(rand::random) }
    }

    /// Draws the random part of waits from here, numbers from 0 to 1: a simulation repeats itself.
    #[must_use]
    pub fn with_chance(mut self, chance: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        self.chance = Box::new(chance);
        self
    }

    /// Follows how the connection is doing.
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// What it counts.
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Tries the hub once, up to the proof of identity, without opening a stream.
    pub async fn attempt(&self, tasks: &Tasks) -> Result<Tried, Failure> {
        let close = tasks.token().child_token();
        let _guard = close.clone().drop_guard();
        let (greeting, _) = session::greet(&self.line, &self.clock, &close, tasks).await?;
        Ok(Tried { agent: greeting.agent, hub_version: greeting.hub_version, hub_namespace: greeting.hub_namespace })
    }

    /// Opens one stream of events.
    async fn open(&self, close: &CancellationToken, tasks: &Tasks) -> Result<(Opened, Stream, Reply), Failure> {
        let dialled = self.clock.monotonic();
        let (greeting, calls) = session::greet(&self.line, &self.clock, close, tasks).await?;
        let config = &self.line.config;
        let (outgoing, to_send) = mpsc::channel(config.outgoing_max);
        let (incoming, received) = mpsc::channel(config.incoming_max);
        let answer = calls.subscribe(to_send, close.clone()).await?;
        let reply = match &greeting.capabilities {
            Some(_) => Reply::Open(Box::new(calls.answered(Step::Subscribe, answer).await?.into_inner())),
            None => Reply::Awaited(answer),
        };
        let capabilities = greeting.capabilities.unwrap_or_default();
        let stream = Stream {
            calls: calls.clone(),
            incoming,
            outgoing: outgoing.downgrade(),
            close: close.clone(),
            metrics: self.metrics.clone(),
            heartbeat: config.heartbeat_interval.or(capabilities.contains(PONG).then_some(LIVENESS)),
            is_answered: capabilities.contains(PONG),
            clock: Arc::clone(&self.clock),
            dialled,
        };
        let opened = Opened {
            agent: greeting.agent,
            hub_version: greeting.hub_version,
            hub_namespace: greeting.hub_namespace,
            capabilities,
            outgoing,
            incoming: received,
            close: close.clone(),
            calls,
        };
        Ok((opened, stream, reply))
    }

    /// One connection from beginning to end; none when nobody takes streams any more.
    async fn connect(&self, on: &mpsc::Sender<Opened>, tasks: &Tasks) -> Option<Failure> {
        let close = tasks.token().child_token();
        let _guard = close.clone().drop_guard();
        let (opened, stream, reply) = match self.open(&close, tasks).await {
            Ok(open) => open,
            Err(failure) => return Some(failure),
        };
        tracing::info!(agent = opened.agent, hub = %self.line.address(), version = opened.hub_version, "connected");
        on.send(opened).await.ok()?;
        self.metrics.opened(self.clock.now());
        self.state.send_replace(State::Connected);
        Some(stream.run(reply).await)
    }
}

/// Connects for ever, and gives each open stream to `on`; ends with the tasks, or when nobody takes streams any more.
pub async fn run(dialer: Dialer, on: mpsc::Sender<Opened>, tasks: Tasks) {
    let config = &dialer.line.config;
    let mut backoff = Backoff::new(config.backoff_first, config.backoff_max);
    let mut told = None;
    loop {
        dialer.state.send_replace(State::Connecting);
        let started = dialer.clock.monotonic();
        let ended = tokio::select! {
            () = tasks.cancelled() => return,
            ended = dialer.connect(&on, &tasks) => ended,
        };
        let Some(failure) = ended else { return };
        if dialer.clock.monotonic().saturating_sub(started) >= GOOD {
            backoff.reset();
            told = None;
        }
        let wait = backoff.next((dialer.chance)());
        dialer.metrics.failed(&failure);
        // The same trouble again and again is said once.
        if told.replace(failure.label()) == Some(failure.label()) {
            tracing::debug!(%failure, ?wait, "not connected to the hub");
        } else {
            tracing::warn!(%failure, reason = failure.label(), ?wait, "not connected to the hub");
        }
        dialer.state.send_replace(State::Failed(failure));
        tokio::select! {
            () = tasks.cancelled() => return,
            () = on.closed() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}
