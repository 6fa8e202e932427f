//! Counts of a node.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// What a node counts.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Pods that are looked after now.
    pub(crate) pods: Gauge,
    /// Pods for which there was no room.
    pub(crate) refused: Counter,
    /// Containers started.
    pub(crate) started: Counter,
    /// Containers that could not be started.
    pub(crate) failed: Counter,
    /// Pods ended because they wrote too much.
    pub(crate) evicted: Counter,
}

impl Metrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("node");
        registry.register("pods", "Pods that are looked after now", self.pods.clone());
        registry.register("pods_refused", "Pods for which there was no room", self.refused.clone());
        registry.register("pods_evicted", "Pods ended because they wrote too much", self.evicted.clone());
        registry.register("containers_started", "Containers started", self.started.clone());
        registry.register("containers_failed", "Containers that could not be started", self.failed.clone());
    }
}
