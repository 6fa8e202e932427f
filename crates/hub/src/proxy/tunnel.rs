//! Requests to our own agents: calls that an agent has parked, each taken for one request.

mod call;
mod lot;
mod stream;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use thane_api::event::TUNNEL;
use thane_api::wire::tunnel::Frame;
use thane_link::tunnel::{Bytecounts, OUTGOING_MAX};
use thane_runtime::Tasks;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::reach::{Body, Caller, Reach, Unreachable};
use crate::gate::Identity;
use lot::{Lot, Parked};

pub use lot::Outgoing;
pub use stream::TunnelStream;

/// Bounds of the tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Calls of one agent that wait for a request.
    pub parked_max: usize,
    /// Requests for one agent that wait for a call.
    pub waiting_max: usize,
    /// Time to the head of an answer, the wait for a call included.
    pub answer_timeout: Duration,
    /// How long what has come for a client may wait without any of it being taken.
    pub stuck_max: Duration,
}

/// A client that takes nothing for so long while there is something for it holds no place any more.
pub(crate) const STUCK_MAX: Duration = Duration::from_mins(15);

impl Default for Config {
    fn default() -> Self {
        Self { parked_max: 64, waiting_max: 2_048, answer_timeout: Duration::from_secs(30), stuck_max: STUCK_MAX }
    }
}

/// What the tunnel counts; clones count together.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    parked: Gauge,
    open: Gauge,
    waiting: Gauge,
    full: Counter,
    broken: Counter,
    stuck: Counter,
    resumed: Counter,
    bytes: Bytecounts,
}

impl Metrics {
    /// Makes the counts visible.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("hub_tunnel_parked", "Calls that agents have open, waiting or at work", self.parked.clone());
        registry.register("hub_tunnel_open", "Requests to agents under way", self.open.clone());
        registry.register("hub_tunnel_waiting", "Requests that wait for a call", self.waiting.clone());
        registry.register("hub_tunnel_stuck", "Answers ended because nobody took them", self.stuck.clone());
        registry.register("hub_tunnel_full", "Requests refused because too many wait", self.full.clone());
        registry.register("hub_tunnel_broken", "Requests that agents answered against the rules", self.broken.clone());
        registry.register("hub_tunnel_resumed", "Logs that went on after their agent came back", self.resumed.clone());
        registry.register("hub_tunnel_sent_bytes", "Bytes of requests to agents", self.bytes.sent.clone());
        registry.register("hub_tunnel_received_bytes", "Bytes of answers of agents", self.bytes.received.clone());
    }

    pub(super) fn resumed(&self) {
        self.resumed.inc();
    }

    /// Requests under way.
    pub fn open(&self) -> i64 {
        self.open.get()
    }

    /// Calls that agents have open.
    pub fn parked(&self) -> i64 {
        self.parked.get()
    }

    /// Requests that wait for a call.
    pub fn waiting(&self) -> i64 {
        self.waiting.get()
    }

    /// Answers that were ended because nobody took them.
    pub fn stuck(&self) -> u64 {
        self.stuck.get()
    }

    /// Answers that were against the rules.
    pub fn broken(&self) -> u64 {
        self.broken.get()
    }
}

/// The tunnels of all agents; clones are the same.
#[derive(Clone)]
pub struct Tunnels {
    shared: Arc<Shared>,
}

struct Shared {
    config: Config,
    metrics: Metrics,
    tasks: Tasks,
    agents: Mutex<HashMap<String, Lot>>,
    present: Mutex<HashMap<String, Presence>>,
    /// Told when an agent connects.
    arrived: Notify,
    next: AtomicU64,
}

/// A connected agent.
struct Presence {
    has_tunnel: bool,
    close: CancellationToken,
}

/// How an agent can be reached now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It is not connected.
    None,
    /// By its tunnel.
    Tunnel,
    /// By events alone: a Go agent, or one behind something that speaks only HTTP/1.1.
    Events,
}

impl Tunnels {
    /// No agent is connected yet.
    pub fn new(config: Config, tasks: Tasks) -> Self {
        let shared = Shared {
            config,
            metrics: Metrics::default(),
            tasks,
            agents: Mutex::default(),
            present: Mutex::default(),
            arrived: Notify::new(),
            next: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// What they count.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// An agent's stream of events is open, until `close`.
    pub fn connected(&self, identity: &Identity, close: CancellationToken) {
        let has_tunnel = identity.capabilities.contains(TUNNEL);
        let mut present = self.shared.present.lock();
        present.retain(|_, presence| !presence.close.is_cancelled());
        present.insert(identity.agent.clone(), Presence { has_tunnel, close });
        drop(present);
        self.shared.arrived.notify_waiters();
    }

    /// Waits until an agent is there with a tunnel.
    pub(super) async fn present(&self, agent: &str) {
        loop {
            let mut arrived = std::pin::pin!(self.shared.arrived.notified());
            // From here on no arrival is missed.
            arrived.as_mut().enable();
            if self.way(agent) == Way::Tunnel {
                return;
            }
            arrived.await;
        }
    }

    /// How an agent can be reached now.
    pub fn way(&self, agent: &str) -> Way {
        match self.shared.present.lock().get(agent) {
            Some(presence) if presence.close.is_cancelled() => Way::None,
            Some(Presence { has_tunnel: true, .. }) => Way::Tunnel,
            Some(_) => Way::Events,
            None => Way::None,
        }
    }

    /// Keeps a call of an agent until a request needs it; what goes to the agent is given back.
    pub fn park(&self, agent: &str, frames: Streaming<Frame>, ended: CancellationToken) -> Result<Outgoing, Status> {
        let (out, outgoing) = mpsc::channel(OUTGOING_MAX);
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let mut agents = self.shared.agents.lock();
        let lot = agents.entry(agent.to_owned()).or_default();
        if !lot.park(Parked { id, frames, out, ended }, self.shared.config.parked_max) {
            return Err(Status::resource_exhausted("enough calls of this agent wait already"));
        }
        drop(agents);
        self.shared.metrics.parked.inc();
        let (shared, agent) = (Arc::clone(&self.shared), agent.to_owned());
        let forget = move || shared.forget(&agent, id);
        Ok(Outgoing::new(outgoing, Box::new(forget)))
    }

    /// Bytes to and from a place that the agent reaches and may carry them to, given as `host:port`.
    pub async fn connect(&self, agent: &str, user: &Caller, place: &str) -> Result<TunnelStream, Unreachable> {
        let connecting = async {
            let parked = self.take(agent, user).await?;
            stream::connect(&self.shared, agent, user, place, parked).await
        };
        let late = |_| Unreachable::Late(agent.to_owned());
        tokio::time::timeout(self.shared.config.answer_timeout, connecting).await.map_err(late)?
    }

    async fn take(&self, agent: &str, user: &Caller) -> Result<Parked, Unreachable> {
        let absent = || Unreachable::NotConnected(agent.to_owned());
        let close = {
            let present = self.shared.present.lock();
            present.get(agent).map(|presence| presence.close.clone()).ok_or_else(absent)?
        };
        let coming = {
            let mut agents = self.shared.agents.lock();
            let lot = agents.entry(agent.to_owned()).or_default();
            if let Some(parked) = lot.take(&user.name) {
                return Ok(parked);
            }
            let (give, coming) = oneshot::channel();
            if !lot.wait(&user.name, give, self.shared.config.waiting_max) {
                self.shared.metrics.full.inc();
                return Err(Unreachable::Busy(agent.to_owned()));
            }
            coming
        };
        let _waiting = Waiting::begin(&self.shared.metrics.waiting);
        tokio::select! {
            parked = coming => parked.map_err(|_| absent()),
            () = close.cancelled() => Err(absent()),
        }
    }
}

/// Counts one that waits for as long as it does.
struct Waiting(Gauge);

impl Waiting {
    fn begin(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Shared {
    /// A call is over, or was never taken.
    fn forget(&self, agent: &str, id: u64) {
        self.metrics.parked.dec();
        let mut agents = self.agents.lock();
        if let Some(lot) = agents.get_mut(agent)
            && lot.forget(id)
        {
            agents.remove(agent);
        }
    }
}

impl Reach for Tunnels {
    fn send(
        &self,
        agent: &str,
        user: &Caller,
        request: http::Request<Body>,
    ) -> BoxFuture<'_, Result<http::Response<Body>, Unreachable>> {
        let (agent, user) = (agent.to_owned(), user.clone());
        Box::pin(async move {
            let late = || Unreachable::Late(agent.clone());
            let answering = async {
                let parked = self.take(&agent, &user).await?;
                call::Asked::new(&self.shared, &agent, &user, request).send(parked).await
            };
            tokio::time::timeout(self.shared.config.answer_timeout, answering).await.map_err(|_| late())?
        })
    }
}
