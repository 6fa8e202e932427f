//! What is counted about questions to the agent's Redis.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Counts; clones count together.
#[derive(Debug, Clone, Default)]
pub(super) struct Metrics {
    pub(super) requests: Counter,
    pub(super) errors: Counter,
    pub(super) subscriptions: Gauge,
}

impl Metrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("argocd_agent_redis_proxy_requests", "Questions to this Redis", self.requests.clone());
        registry.register("argocd_agent_redis_proxy_errors", "Questions that failed", self.errors.clone());
        registry.register("thane_redis_subscriptions", "Channels the hub listens to", self.subscriptions.clone());
    }
}
