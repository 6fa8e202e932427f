//! What the connection counts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Failure;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Why {
    reason: &'static str,
}

/// What the connection counts; clones count together.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    connected: Gauge,
    connections: Counter,
    failures: Family<Why, Counter>,
    frames: Family<Why, Counter>,
}

impl Metrics {
    /// Makes the counts visible.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("agent_connected", "Whether the stream of events is open", self.connected.clone());
        registry.register("agent_connections", "Streams of events opened so far", self.connections.clone());
        registry.register(
            "agent_connection_failures",
            "Attempts and connections that failed, by reason",
            self.failures.clone(),
        );
        registry.register("agent_frames_refused", "Frames that were no event, by reason", self.frames.clone());
    }

    pub(super) fn opened(&self) {
        self.connections.inc();
        self.connected.set(1);
    }

    pub(super) fn failed(&self, failure: &Failure) {
        self.connected.set(0);
        self.failures.get_or_create(&Why { reason: failure.label() }).inc();
    }

    pub(super) fn refused(&self, fault: &thane_api::event::Fault) {
        self.frames.get_or_create(&Why { reason: fault.label() }).inc();
    }
}
