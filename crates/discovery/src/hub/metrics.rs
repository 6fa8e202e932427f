//! What the registry tells about itself.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use thane_runtime::metrics::Registry;

/// Figures of the registry.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    pub(super) writes: Counter,
    pub(super) refused: Counter,
    pub(super) busy: Counter,
    pub(super) commits: Counter,
    pub(super) lapsed: Counter,
    pub(super) reaped: Counter,
    pub(super) expired: Counter,
    pub(super) index: Gauge,
    pub(super) topics: Gauge,
    pub(super) tombs: Gauge,
}

impl Metrics {
    /// Makes them known.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("registry_writes", "Commands decided by the registry", self.writes.clone());
        registry.register("registry_refused", "Commands the registry refused", self.refused.clone());
        registry.register("registry_busy", "Commands and signs of life that found the queue full", self.busy.clone());
        registry.register("registry_commits", "Transactions that stored what commands changed", self.commits.clone());
        registry.register("registry_leases_lapsed", "Agents that were not heard of for too long", self.lapsed.clone());
        registry.register("registry_agents_reaped", "Agents forgotten with their nodes", self.reaped.clone());
        registry.register("registry_sessions_expired", "Sessions not renewed in time", self.expired.clone());
        registry.register("registry_index", "The newest point in the registry's history", self.index.clone());
        registry.register("registry_topics", "Topics kept ready or waited for", self.topics.clone());
        registry.register("registry_tombs", "Rows that went and are remembered", self.tombs.clone());
    }
}

pub(super) fn gauge(gauge: &Gauge, value: impl TryInto<i64>) {
    gauge.set(value.try_into().unwrap_or(i64::MAX));
}
