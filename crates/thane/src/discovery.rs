//! Discovery in this process: the hub's registry, and an agent's part of it with its listeners.

pub(crate) mod direct;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry as Metrics;
use thane_api::code;
use thane_discovery::agent::{self, Agent};
use thane_discovery::backend::Backend;
use thane_discovery::consul::{self, Consul};
use thane_discovery::http::{self, Edge, Limits};
use thane_discovery::hub::{self, Registry};
use thane_discovery::native::{self, Native};
use thane_discovery::{dns, wire};
use thane_hub::transport::Guests;
use thane_kv::{HistoryLimits, RedbOptions, RedbStore, Store};
use thane_runtime::metrics::PREFIX;
use thane_runtime::net::{Listener, SharedNetwork};
use thane_runtime::tls::ClientTls;
use thane_runtime::{SharedClock, Tasks};
use tonic::service::Routes;

use crate::failure::Failure;

/// What the paths of agents' calls begin with.
const PACKAGE: &str = "/konsul.agent.";
/// Bytes of an agent's file set aside for small writes; what is registered on one node is little.
const AGENT_JOURNAL: usize = 4 * 1024 * 1024;
/// Memory for pages of that file; it is read when the agent starts.
const AGENT_CACHE: usize = 2 * 1024 * 1024;

/// Neither file is read as it was before: what changed since when is kept with the things themselves.
const LITTLE_HISTORY: HistoryLimits =
    HistoryLimits { age: Duration::from_secs(10), revisions: 1_000, bytes: 4 * 1024 * 1024 };

/// What everything here stands on.
pub(crate) struct Ground {
    pub(crate) clock: SharedClock,
    pub(crate) network: SharedNetwork,
    pub(crate) tasks: Tasks,
}

/// Opens the hub's registry, in a file of its own, and what agents call it by.
pub(crate) async fn registry(
    file: &Path,
    options: hub::Options,
    ground: &Ground,
    metrics: &mut Metrics,
) -> Result<Opened, Failure> {
    let store = open(file, RedbOptions { history: LITTLE_HISTORY, ..RedbOptions::default() }, &ground.tasks)?;
    let opened = Registry::open(store, options, Arc::clone(&ground.clock), &ground.tasks.child("registry")).await;
    let registry = opened.map_err(|error| Failure::new(code::DATA_UNUSABLE, format!("{}: {error}", file.display())))?;
    registry.metrics().register(metrics.sub_registry_with_prefix(PREFIX));
    let counted = wire::Metrics::default();
    counted.register(metrics);
    let service =
        wire::service(Arc::clone(&registry), counted, Arc::clone(&ground.clock), &ground.tasks.child("agents"));
    Ok(Opened { registry, routes: Routes::new(service) })
}

/// The hub's registry.
pub(crate) struct Opened {
    pub(crate) registry: Arc<Registry>,
    /// What agents call it by.
    pub(crate) routes: Routes,
}

impl Opened {
    /// The same, for the hub's listener.
    pub(crate) fn guests(&self) -> Guests {
        Guests::new(PACKAGE, self.routes.clone())
    }
}

/// Starts an agent's part, whether a hub is there or not.
pub(crate) async fn agent(
    file: &Path,
    options: agent::Options,
    tls: Option<ClientTls>,
    ground: &Ground,
    metrics: &mut Metrics,
) -> Result<Arc<Agent>, Failure> {
    let kept = RedbOptions { journal_bytes: AGENT_JOURNAL, cache_bytes: AGENT_CACHE, ..RedbOptions::default() };
    let store = open(file, RedbOptions { history: LITTLE_HISTORY, ..kept }, &ground.tasks)?;
    let (network, clock) = (Arc::clone(&ground.network), Arc::clone(&ground.clock));
    let started = Agent::start(options, store, network, tls, clock, ground.tasks.child("agent")).await;
    let agent = started.map_err(|error| Failure::from(error).about(&file.display().to_string()))?;
    agent.register_metrics(metrics);
    Ok(agent)
}

/// Serves Consul's API and ours from an agent, on each of its listeners.
pub(crate) fn serve(
    agent: &Arc<Agent>,
    listeners: Vec<Box<dyn Listener>>,
    limits: &Limits,
    ground: &Ground,
    metrics: &mut Metrics,
) {
    let counted = Counted::of("agent");
    counted.register(metrics);
    // what `/agent/metrics` shows is this agent's alone
    let mut own = Metrics::default();
    agent.register_metrics(&mut own);
    counted.register(&mut own);
    let metrics_text: Arc<dyn Fn() -> String + Send + Sync> =
        Arc::new(move || thane_runtime::metrics::encode(&own).unwrap_or_default());
    let checked = Arc::clone(agent);
    let ours = native::Options {
        check_interval: Arc::new(move || checked.check_interval()),
        metrics_text: Some(Arc::clone(&metrics_text)),
        ..native::Options::default()
    };
    let theirs = consul::Options { metrics_text: Some(metrics_text), ..consul::Options::default() };
    let backend: Arc<dyn Backend> = Arc::clone(agent) as _;
    let consul = Arc::new(Consul::new(Arc::clone(&backend), theirs, counted.consul.clone()));
    let native = Arc::new(Native::new(backend, ours));
    for listener in listeners {
        answer(vec![Arc::clone(&consul) as _, Arc::clone(&native) as _], listener, limits, &counted, ground);
    }
}

/// Serves the same from the registry itself, for clients that have no agent yet.
pub(crate) fn serve_hub(
    registry: Arc<dyn Backend>,
    listener: Box<dyn Listener>,
    limits: &Limits,
    ground: &Ground,
    metrics: &mut Metrics,
) {
    let counted = Counted::of("hub");
    counted.register(metrics);
    let consul = Consul::new(Arc::clone(&registry), consul::Options::default(), counted.consul.clone());
    let native = Native::new(registry, native::Options::default());
    answer(vec![Arc::new(consul), Arc::new(native)], listener, limits, &counted, ground);
}

/// What the APIs count.
struct Counted {
    consul: consul::Metrics,
    http: http::Metrics,
}

impl Counted {
    /// Requests that come by an agent, or directly to the hub.
    fn of(via: &'static str) -> Self {
        Self { consul: consul::Metrics::default(), http: http::Metrics::of(via) }
    }

    fn register(&self, metrics: &mut Metrics) {
        let metrics = metrics.sub_registry_with_prefix(PREFIX);
        self.consul.register(metrics);
        self.http.register(metrics);
    }
}

fn answer(
    routes: Vec<Arc<dyn http::Routes>>,
    listener: Box<dyn Listener>,
    limits: &Limits,
    counted: &Counted,
    ground: &Ground,
) {
    let local_only = listener.local_addr().ip().is_loopback();
    let edge = Edge { routes, limits: Limits { local_only, ..limits.clone() }, metrics: counted.http.clone() };
    http::serve(listener, edge, &ground.tasks.child("api"));
}

/// Answers DNS; where.
pub(crate) async fn resolve(
    backend: Arc<dyn Backend>,
    address: SocketAddr,
    settings: dns::Settings,
    ground: &Ground,
    metrics: &mut Metrics,
) -> Result<String, Failure> {
    let tcp = ground.network.bind(address).await?;
    let address = tcp.local_addr();
    let udp = ground.network.bind_datagrams(address).await?;
    let counted = dns::Metrics::default();
    counted.register(metrics.sub_registry_with_prefix(PREFIX));
    let edge = dns::Edge {
        backend,
        settings,
        clock: Arc::clone(&ground.clock),
        metrics: counted,
        chance: Box::new(rand::random),
    };
    dns::serve(udp, tcp, edge, &ground.tasks);
    Ok(format!("udp://{address}"))
}

/// Opens a store; the process ends when it fails.
fn open(file: &Path, options: RedbOptions, tasks: &Tasks) -> Result<Arc<dyn Store>, Failure> {
    if let Some(folder) = file.parent() {
        thane_runtime::pki::store::create_directory(folder)?;
    }
    let store = RedbStore::open(file, options)?;
    let (stopped, stop) = (store.stopped(), tasks.token());
    tasks.spawn_essential("store", async move {
        tokio::select! {
            () = stop.cancelled() => Ok(()),
            Err(failure) = stopped => Err(failure),
        }
    });
    Ok(store)
}
