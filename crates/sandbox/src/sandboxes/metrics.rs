//! Counts of sandboxes, under upstream's names where it has them.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// What is counted.
#[derive(Clone)]
pub(crate) struct Metrics {
    pub(super) sandboxes: Gauge,
    pub(super) failed: Counter,
    pub(super) no_idle: Counter,
    pub(super) conflicts: Counter,
}

impl Metrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            sandboxes: Gauge::default(),
            failed: Counter::default(),
            no_idle: Counter::default(),
            conflicts: Counter::default(),
        };
        registry.register("arl_sandboxes", "Sandboxes there are", metrics.sandboxes.clone());
        registry.register("arl_sandbox_failed", "Sandboxes that ended unasked", metrics.failed.clone());
        registry.register("arl_sandbox_no_idle_pods", "Claims that no pod came for in time", metrics.no_idle.clone());
        registry.register(
            "arl_reconcile_conflicts",
            "Writes based on what was no longer so",
            metrics.conflicts.clone(),
        );
        metrics
    }
}
