//! Discovery in this process: the hub's registry, and an agent's part of it with its listeners.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use prometheus_client::registry::Registry as Metrics;
use thane_api::code;
use thane_discovery::agent::{self, Agent};
use thane_discovery::backend::Backend;
use thane_discovery::consul::{self, Consul};
use thane_discovery::http::{self, Edge, Limits, Routes};
use thane_discovery::hub::{self, Registry};
use thane_discovery::{dns, wire};
use thane_hub::transport::Guests;
use thane_kv::{RedbOptions, RedbStore, Store};
use thane_runtime::net::{Listener, SharedNetwork};
use thane_runtime::tls::ClientTls;
use thane_runtime::{SharedClock, Tasks};

use crate::failure::Failure;

/// What the paths of agents' calls begin with.
const PACKAGE: &str = "/konsul.agent.";
/// Bytes of an agent's file set aside for small writes; what is registered on one node is little.
const AGENT_JOURNAL: usize = 4 * 1024 * 1024;

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
) -> Result<(Arc<Registry>, Guests), Failure> {
    let store = open(file, RedbOptions::default())?;
    let opened = Registry::open(store, options, Arc::clone(&ground.clock), &ground.tasks.child("registry")).await;
    let registry = opened.map_err(|error| Failure::new(code::DATA_UNUSABLE, format!("{}: {error}", file.display())))?;
    registry.metrics().register(metrics);
    let counted = wire::Metrics::default();
    counted.register(metrics);
    let service =
        wire::service(Arc::clone(&registry), counted, Arc::clone(&ground.clock), &ground.tasks.child("agents"));
    Ok((registry, Guests::new(PACKAGE, tonic::service::Routes::new(service))))
}

/// Starts an agent's part, whether a hub is there or not.
pub(crate) async fn agent(
    file: &Path,
    options: agent::Options,
    tls: Option<ClientTls>,
    ground: &Ground,
    metrics: &mut Metrics,
) -> Result<Arc<Agent>, Failure> {
    let store = open(file, RedbOptions { journal_bytes: AGENT_JOURNAL, ..RedbOptions::default() })?;
    let (network, clock) = (Arc::clone(&ground.network), Arc::clone(&ground.clock));
    let started = Agent::start(options, store, network, tls, clock, ground.tasks.child("agent")).await;
    let agent = started.map_err(|error| Failure::from(error).about(&file.display().to_string()))?;
    agent.register_metrics(metrics);
    Ok(agent)
}

/// Serves Consul's API and ours from an agent.
pub(crate) fn serve(agent: &Arc<Agent>, listener: Box<dyn Listener>, ground: &Ground, metrics: &mut Metrics) {
    let consul = consul(Arc::clone(agent) as Arc<dyn Backend>, metrics);
    answer(vec![Arc::new(consul)], listener, ground, metrics);
}

/// Serves Consul's API from the registry itself.
pub(crate) fn serve_hub(registry: Arc<Registry>, listener: Box<dyn Listener>, ground: &Ground, metrics: &mut Metrics) {
    let consul = consul(registry, metrics);
    answer(vec![Arc::new(consul)], listener, ground, metrics);
}

/// Answers DNS; where.
pub(crate) async fn resolve(
    backend: Arc<dyn Backend>,
    address: SocketAddr,
    ground: &Ground,
    metrics: &mut Metrics,
) -> Result<String, Failure> {
    let tcp = ground.network.bind(address).await?;
    let address = tcp.local_addr();
    let udp = ground.network.bind_datagrams(address).await?;
    let counted = dns::Metrics::default();
    counted.register(metrics);
    let edge = dns::Edge {
        backend,
        settings: dns::Settings::default(),
        clock: Arc::clone(&ground.clock),
        metrics: counted,
        chance: Box::new(rand::random),
    };
    dns::serve(udp, tcp, edge, &ground.tasks);
    Ok(format!("udp://{address}"))
}

fn consul(backend: Arc<dyn Backend>, metrics: &mut Metrics) -> Consul {
    let counted = consul::Metrics::default();
    counted.register(metrics);
    Consul::new(backend, consul::Options::default(), counted)
}

fn answer(routes: Vec<Arc<dyn Routes>>, listener: Box<dyn Listener>, ground: &Ground, metrics: &mut Metrics) {
    let counted = http::Metrics::default();
    counted.register(metrics);
    let local_only = listener.local_addr().ip().is_loopback();
    let edge = Edge { routes, limits: Limits { local_only, ..Limits::default() }, metrics: counted };
    http::serve(listener, edge, &ground.tasks.child("api"));
}

fn open(file: &Path, options: RedbOptions) -> Result<Arc<dyn Store>, Failure> {
    if let Some(folder) = file.parent() {
        thane_runtime::pki::store::create_directory(folder)?;
    }
    let store: Arc<dyn Store> = RedbStore::open(file, options)?;
    Ok(store)
}
