//! Live access: requests of the hub to this cluster's Kubernetes API, over calls that wait for them.

mod answer;
mod reach;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use thane_api::wire::tunnel::frame::Part;
use thane_api::wire::tunnel::{Frame, Request};
use thane_link::tunnel::{Bytecounts, OUTGOING_MAX};
use thane_runtime::Tasks;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use crate::connection::Calls;
pub use reach::Places;

/// Bounds of the tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Calls that wait for a request: as many can begin at once without a further round trip, and the hub keeps as many
    /// for every agent there is.
    pub idle_max: usize,
    /// Calls at all, idle and at work; the hub allows 256 on a connection, events and logs among them.
    pub calls_max: usize,
    /// Bytes of a request's body; Kubernetes takes no more than three MiB itself.
    pub body_bytes_max: usize,
    /// Time for the API to begin its answer.
    pub answer_timeout: Duration,
    /// How long to wait after a call could not be made.
    pub again_after: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            idle_max: 4,
            calls_max: 192,
            body_bytes_max: 8 * 1024 * 1024,
            answer_timeout: Duration::from_secs(30),
            again_after: Duration::from_secs(1),
        }
    }
}

/// What the tunnel counts; clones count together.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    requests: Counter,
    failed: Counter,
    open: Gauge,
    bytes: Bytecounts,
}

impl Metrics {
    /// Makes the counts visible.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("agent_tunnel_requests", "Requests of the hub to the cluster's API", self.requests.clone());
        registry.register("agent_tunnel_failed", "Such requests that broke off or got no answer", self.failed.clone());
        registry.register("agent_tunnel_open", "Such requests under way", self.open.clone());
        registry.register("agent_tunnel_sent_bytes", "Bytes of answers", self.bytes.sent.clone());
        registry.register("agent_tunnel_received_bytes", "Bytes of requests", self.bytes.received.clone());
    }

    /// Requests under way.
    pub fn open(&self) -> i64 {
        self.open.get()
    }
}

/// The cluster's API, as the hub may use it.
#[derive(Clone)]
pub struct Tunnel {
    client: Client,
    config: Config,
    places: Option<Places>,
    metrics: Metrics,
}

impl Tunnel {
    /// Requests are made as the user of this client.
    pub fn new(client: Client, config: Config) -> Self {
        Self { client, config, places: None, metrics: Metrics::default() }
    }

    /// The hub may have bytes carried to these places, too; to none, unless this is said.
    #[must_use]
    pub fn reaching(self, places: Places) -> Self {
        Self { places: Some(places), ..self }
    }

    /// What it counts.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Keeps calls waiting on one connection, until that closes.
    pub async fn serve(self, calls: Calls, close: CancellationToken, tasks: Tasks) {
        let idle = Arc::new(Semaphore::new(self.config.idle_max));
        let places = Arc::new(Semaphore::new(self.config.calls_max));
        loop {
            let both = async {
                let place = Arc::clone(&places).acquire_owned().await;
                (place, Arc::clone(&idle).acquire_owned().await)
            };
            let (Ok(place), Ok(waiting)) = (tokio::select! {
                () = close.cancelled() => return,
                () = tasks.cancelled() => return,
                both = both => both,
            }) else {
                return;
            };
            let (tunnel, calls, close) = (self.clone(), calls.clone(), close.clone());
            let stop = tasks.token();
            tasks.spawn("tunnel-call", async move {
                tokio::select! {
                    () = close.cancelled() => {}
                    () = stop.cancelled() => {}
                    () = tunnel.call(calls, waiting) => {}
                }
                drop(place);
            });
        }
    }

    /// One call: it waits for a request, and answers it.
    async fn call(&self, calls: Calls, waiting: OwnedSemaphorePermit) {
        let (out, outgoing) = mpsc::channel(OUTGOING_MAX);
        let mut frames = match calls.tunnel(outgoing).await {
            Ok(frames) => frames,
            Err(reason) => {
                tracing::debug!(%reason, "no call for live access");
                // With its place taken, so that a hub that refuses is not asked without end.
                return tokio::time::sleep(self.config.again_after).await;
            }
        };
        let Some(request) = asked(&mut frames).await else {
            return tokio::time::sleep(self.config.again_after).await;
        };
        drop(waiting);
        self.metrics.requests.inc();
        tracing::debug!(user = request.user, method = request.method, target = request.target, "a request of the hub");
        self.metrics.open.inc();
        let _open = Open(&self.metrics.open);
        if let Err(broken) = answer::answer(self, request, frames, out).await {
            self.metrics.failed.inc();
            tracing::debug!(%broken, "a request of the hub ended early");
        }
    }
}

/// Something that is counted while it is there.
struct Open<'a>(&'a Gauge);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Waits for the request of a call; none if the call ended, or began with anything else.
async fn asked(frames: &mut Streaming<Frame>) -> Option<Request> {
    match frames.message().await.ok()??.part? {
        Part::Request(request) => Some(request),
        Part::Answer(_) | Part::Refusal(_) | Part::Data(_) | Part::Credit(_) | Part::End(_) => None,
    }
}
