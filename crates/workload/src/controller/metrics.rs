//! What can be counted.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Counts of one controller.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    pub(super) looks: Counter,
    pub(super) writes: Counter,
    pub(super) conflicts: Counter,
    pub(super) starts: Counter,
    pub(super) lodged: Counter,
    pub(super) refusals: Counter,
    pub(super) ended: Counter,
    pub(super) waiting: Gauge,
}

impl Metrics {
    /// Counts that a registry shows.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("workflow_looks", "Looks at Workflows", metrics.looks.clone());
        registry.register("workflow_writes", "Statuses written", metrics.writes.clone());
        registry.register(
            "workflow_conflicts",
            "Statuses not written as the Workflow had changed",
            metrics.conflicts.clone(),
        );
        registry.register("workflow_steps_started", "Pods made for steps", metrics.starts.clone());
        registry.register("workflow_steps_lodged", "Steps put into warm sandboxes", metrics.lodged.clone());
        registry.register("workflow_steps_refused", "Steps whose pod could not be made", metrics.refusals.clone());
        registry.register("workflow_ended", "Workflows that ended", metrics.ended.clone());
        registry.register("workflow_queue_length", "Workflows that wait for a look", metrics.waiting.clone());
        metrics
    }
}
