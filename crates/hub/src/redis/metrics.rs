//! What the proxy counts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    agent_name: String,
    command: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Why {
    reason: &'static str,
}

/// What the proxy counts; clones count together.
#[derive(Debug, Clone, Default)]
pub(super) struct Metrics {
    requests: Family<Asked, Counter>,
    errors: Family<Asked, Counter>,
    closed: Family<Why, Counter>,
    pub(super) connections: Gauge,
    pub(super) full: Counter,
    pub(super) info_failures: Counter,
}

impl Metrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("argocd_principal_redis_proxy_requests", "Questions to agents' Redis", self.requests.clone());
        registry.register(
            "argocd_principal_redis_proxy_errors",
            "Questions to agents' Redis that were not answered",
            self.errors.clone(),
        );
        registry.register("thane_redis_connections", "Connections to the Redis proxy", self.connections.clone());
        registry.register(
            "thane_redis_connections_full",
            "Times no further connection to the Redis proxy was accepted",
            self.full.clone(),
        );
        registry.register(
            "thane_redis_connections_closed",
            "Connections that the Redis proxy closed, by reason",
            self.closed.clone(),
        );
        registry.register(
            "thane_redis_cluster_info_failures",
            "Times the connections of agents could not be written to the hub's Redis",
            self.info_failures.clone(),
        );
    }

    pub(super) fn asked(&self, agent: &str, command: &'static str, is_answered: bool) {
        let labels = Asked { agent_name: agent.to_owned(), command };
        self.requests.get_or_create(&labels).inc();
        if !is_answered {
            self.errors.get_or_create(&labels).inc();
        }
    }

    pub(super) fn closed(&self, reason: &'static str) {
        self.closed.get_or_create(&Why { reason }).inc();
    }
}
