//! What controllers did, by what became of it, under upstream's name.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reconciled {
    controller: &'static str,
    result: &'static str,
}

/// Counts of all controllers of a process.
#[derive(Clone, Default)]
pub(crate) struct Reconciliations(Family<Reconciled, Counter>);

impl Reconciliations {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let all = Self::default();
        registry.register("arl_reconcile", "Things controllers did, by what became of them", all.0.clone());
        all
    }

    /// Counts something that was done, or not.
    pub(crate) fn count(&self, controller: &'static str, is_done: bool) {
        let result = if is_done { "success" } else { "error" };
        self.0.get_or_create(&Reconciled { controller, result }).inc();
    }
}
