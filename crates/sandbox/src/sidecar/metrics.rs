//! What sidecars count. No label has a value of a user's choosing.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

type Labels = [(&'static str, &'static str); 1];

/// Counts of all sandboxes that are served here; clones count together.
#[derive(Debug, Clone)]
pub struct Metrics {
    steps: Family<Labels, Counter>,
    step_seconds: Histogram,
    snapshots: Family<Labels, Counter>,
    snapshot_seconds: Histogram,
    restores: Family<Labels, Counter>,
    refused: Family<Labels, Counter>,
    pub(super) served: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let histogram = || Histogram::new(exponential_buckets(0.0005, 2.5, 14));
        Self {
            steps: Family::default(),
            step_seconds: histogram(),
            snapshots: Family::default(),
            snapshot_seconds: histogram(),
            restores: Family::default(),
            refused: Family::default(),
            served: Gauge::default(),
        }
    }
}

impl Metrics {
    /// Makes them visible.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("arl_sidecar_steps", "Steps by how they ended", self.steps.clone());
        registry.register("arl_sidecar_step_seconds", "How long steps took", self.step_seconds.clone());
        registry.register("arl_sidecar_snapshots", "Files kept after steps", self.snapshots.clone());
        registry.register("arl_sidecar_snapshot_seconds", "How long keeping files took", self.snapshot_seconds.clone());
        registry.register("arl_sidecar_restores", "Files brought back", self.restores.clone());
        registry.register("arl_sidecar_refused", "Calls refused because a bound was reached", self.refused.clone());
        registry.register("arl_sidecar_sandboxes", "Sandboxes that are served", self.served.clone());
    }

    /// All of them as they are now.
    pub(super) fn text(&self) -> String {
        let mut registry = Registry::default();
        self.register(&mut registry);
        // Writing to a text does not fail.
        thane_runtime::metrics::encode(&registry).unwrap_or_default()
    }

    pub(super) fn step(&self, result: &'static str, took: Duration) {
        self.steps.get_or_create(&[("result", result)]).inc();
        self.step_seconds.observe(took.as_secs_f64());
    }

    pub(super) fn snapshot(&self, result: &'static str, took: Duration) {
        self.snapshots.get_or_create(&[("result", result)]).inc();
        self.snapshot_seconds.observe(took.as_secs_f64());
    }

    pub(super) fn restore(&self, result: &'static str) {
        self.restores.get_or_create(&[("result", result)]).inc();
    }

    pub(super) fn full(&self, bound: &'static str) {
        self.refused.get_or_create(&[("bound", bound)]).inc();
    }
}
