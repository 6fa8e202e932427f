//! Counts of claims.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// What is counted.
#[derive(Debug)]
pub(super) struct Metrics {
    /// Those who wait for a pod.
    pub(super) waiting: Gauge,
    /// Those turned away because too many waited.
    pub(super) crowded: Counter,
    /// Pods that were somebody else's, or changed, when they were claimed.
    pub(super) lost: Counter,
    /// Pods made for one claim.
    pub(super) cold: Counter,
    /// Pods claimed.
    pub(super) claimed: Counter,
    /// How long a claim took, waiting included.
    pub(super) seconds: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            waiting: Gauge::default(),
            crowded: Counter::default(),
            lost: Counter::default(),
            cold: Counter::default(),
            claimed: Counter::default(),
            seconds: Histogram::new(exponential_buckets(0.001, 2.5, 14)),
        }
    }
}

impl Metrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("claims");
        registry.register("waiting", "Those who wait for a pod", self.waiting.clone());
        registry.register("crowded", "Claims refused because too many waited", self.crowded.clone());
        registry.register("lost", "Pods that were no longer as seen when they were claimed", self.lost.clone());
        registry.register("cold", "Pods made for one claim", self.cold.clone());
        registry.register("claimed", "Pods claimed", self.claimed.clone());
        registry.register("seconds", "How long a claim took, waiting included", self.seconds.clone());
    }
}
