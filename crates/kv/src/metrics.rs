//! What a store tells about itself.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// The metrics of one store; clones share their values.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// How long commits took, from the start of the batch to durable.
    pub commit_seconds: Histogram,
    /// How many requests were committed together.
    pub batch_requests: Histogram,
    /// Requests that wait for the writer.
    pub queued: Gauge,
    /// Requests refused because too many waited.
    pub refused: Counter,
    /// Open watches.
    pub watchers: Gauge,
    /// Open watches that read history.
    pub lagging: Gauge,
    /// How often a watcher's queue overflowed.
    pub overflows: Counter,
    /// The newest revision.
    pub revision: Gauge,
    /// The newest revision whose history is gone.
    pub compacted: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            commit_seconds: Histogram::new(exponential_buckets(0.000_05, 2.0, 18)),
            batch_requests: Histogram::new(exponential_buckets(1.0, 2.0, 11)),
            queued: Gauge::default(),
            refused: Counter::default(),
            watchers: Gauge::default(),
            lagging: Gauge::default(),
            overflows: Counter::default(),
            revision: Gauge::default(),
            compacted: Gauge::default(),
        }
    }
}

impl Metrics {
    /// Makes the metrics visible under `kv_`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("kv");
        let seconds = self.commit_seconds.clone();
        registry.register_with_unit("commit", "Time from the start of a batch to durable", Unit::Seconds, seconds);
        registry.register("batch_requests", "Requests committed together", self.batch_requests.clone());
        registry.register("queued_requests", "Requests that wait for the writer", self.queued.clone());
        registry.register("refused_requests", "Requests refused because too many waited", self.refused.clone());
        registry.register("watchers", "Open watches", self.watchers.clone());
        registry.register("lagging_watchers", "Open watches that read history", self.lagging.clone());
        registry.register("watch_overflows", "Watch queues that overflowed", self.overflows.clone());
        registry.register("revision", "Newest revision", self.revision.clone());
        registry.register("compacted_revision", "Newest revision without history", self.compacted.clone());
    }
}

/// A number as a gauge takes it.
pub(crate) fn gauge(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
