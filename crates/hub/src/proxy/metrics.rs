//! What the proxy counts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Agents that are told apart; further ones are counted together.
const AGENTS_MAX: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    agent: String,
    verb: &'static str,
    code: u16,
}

/// What the proxy counts; clones count together.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    requests: Family<Labels, Counter>,
    agents: std::sync::Arc<parking_lot::Mutex<std::collections::HashSet<String>>>,
    pub(super) connections: Gauge,
    pub(super) connections_full: Counter,
    pub(super) unproven: Counter,
    /// Room taken by bodies of requests, and those for which there was none.
    pub(super) bodies: Gauge,
    pub(super) bodies_full: Counter,
    pub(super) reviews_full: Counter,
}

impl Metrics {
    /// Makes the counts visible.
    pub fn register(&self, registry: &mut Registry) {
        let requests = "Requests to agents' clusters, by agent, verb and code of the answer";
        registry.register("hub_proxy_requests", requests, self.requests.clone());
        registry.register("hub_proxy_connections", "Connections to the proxy", self.connections.clone());
        for (name, help, counter) in [
            ("connections_full", "Times no further connection to the proxy was accepted", &self.connections_full),
            ("connections_unproven", "Connections closed because nothing was proved on them", &self.unproven),
            ("bodies_full", "Requests refused because there was no room for their bodies", &self.bodies_full),
            ("reviews_full", "Requests refused because too many tokens were to be reviewed", &self.reviews_full),
        ] {
            registry.register(format!("hub_proxy_{name}"), help, counter.clone());
        }
        registry.register("hub_proxy_bodies_bytes", "Bytes of requests' bodies that are held", self.bodies.clone());
    }

    /// Counts an answer; only agents that are there have names.
    pub(super) fn answered(&self, agent: Option<&str>, verb: &'static str, code: u16) {
        let agent = agent.filter(|agent| self.is_told_apart(agent)).unwrap_or("other").to_owned();
        self.requests.get_or_create(&Labels { agent, verb, code }).inc();
    }

    fn is_told_apart(&self, agent: &str) -> bool {
        let mut agents = self.agents.lock();
        agents.contains(agent) || (agents.len() < AGENTS_MAX && agents.insert(agent.to_owned()))
    }
}
