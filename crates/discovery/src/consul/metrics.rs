//! What the API counts.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// Counts of blocked queries; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    refused: Counter,
}

impl Metrics {
    /// Makes the counts visible.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Blocking queries refused because too many were waiting";
        registry.register("discovery_blocked_queries_refused", help, self.refused.clone());
    }

    pub(super) fn too_many_blocked(&self) {
        self.refused.inc();
    }
}
