//! Counts of sandboxes, under upstream's names where it has them.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::reconciled::Reconciliations;

/// What is counted.
#[derive(Clone)]
pub(crate) struct Metrics {
    pub(super) sandboxes: Gauge,
    pub(super) failed: Counter,
    pub(super) no_idle: Counter,
    pub(super) conflicts: Counter,
    /// From a Sandbox's creation to its readiness, where it was made by hand; gateways count their own.
    pub(super) ready_seconds: Histogram,
    /// How long nothing was done in a Sandbox when it was ended for that.
    pub(super) idle_seconds: Histogram,
    reconciled: Reconciliations,
}

impl Metrics {
    pub(crate) fn new(registry: &mut Registry, reconciled: Reconciliations) -> Self {
        let metrics = Self {
            sandboxes: Gauge::default(),
            failed: Counter::default(),
            no_idle: Counter::default(),
            conflicts: Counter::default(),
            ready_seconds: Histogram::new(exponential_buckets(0.005, 2.5, 12)),
            idle_seconds: Histogram::new(exponential_buckets(1.0, 3.0, 10)),
            reconciled,
        };
        let help = "From a Sandbox's creation to its readiness";
        registry.register("arl_sandbox_e2e_ready_seconds", help, metrics.ready_seconds.clone());
        let help = "How long nothing was done in a Sandbox when it was ended for that";
        registry.register("arl_sandbox_idle_seconds", help, metrics.idle_seconds.clone());
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

    /// Counts something that was done, or not.
    pub(super) fn reconciled(&self, is_done: bool) {
        self.reconciled.count("sandbox", is_done);
    }
}
