//! What live access counts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Why {
    reason: &'static str,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Metrics {
    open: Gauge,
    refused: Family<Why, Counter>,
}

impl Metrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Requests, logs and terminals that are open by events";
        registry.register("hub_live_sessions", help, self.open.clone());
        registry.register("hub_live_refused", "What live access refused, by reason", self.refused.clone());
    }

    pub(super) fn opened(&self) {
        self.open.inc();
    }

    pub(super) fn ended(&self) {
        self.open.dec();
    }

    pub(super) fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&Why { reason }).inc();
    }
}
