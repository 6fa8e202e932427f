//! What the listener counts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use thane_api::event::Fault;

use super::calls::Calls;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Why {
    reason: &'static str,
}

/// What the listener counts; clones count together.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    connections: Gauge,
    streams: Gauge,
    full: Counter,
    cut: Family<Why, Counter>,
    frames: Family<Why, Counter>,
    calls: Calls,
}

impl Metrics {
    /// Makes the counts visible.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("hub_connections", "Connections that are open", self.connections.clone());
        registry.register("hub_streams", "Streams of events that are open", self.streams.clone());
        registry.register("hub_connections_full", "Times no further connection was accepted", self.full.clone());
        registry.register("hub_connections_cut", "Connections that the hub ended, by reason", self.cut.clone());
        registry.register("hub_frames_refused", "Frames that were no event, by reason", self.frames.clone());
    }

    /// Makes the counts of calls visible, under names that gRPC servers share.
    pub fn register_calls(&self, registry: &mut Registry) {
        self.calls.register(registry);
    }

    /// What is counted about calls.
    pub(super) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// One more connection, until what is given back is dropped.
    pub(super) fn connected(&self) -> Open {
        Open::new(&self.connections)
    }

    /// One more stream, until what is given back is dropped.
    pub(super) fn subscribed(&self) -> Open {
        Open::new(&self.streams)
    }

    /// There is no place for a further connection.
    pub(super) fn full(&self) {
        self.full.inc();
    }

    /// A connection was ended by us.
    pub(super) fn cut(&self, reason: &'static str) {
        self.cut.get_or_create(&Why { reason }).inc();
    }

    /// A frame was no event.
    pub(super) fn refused(&self, fault: &Fault) {
        self.frames.get_or_create(&Why { reason: fault.label() }).inc();
    }

    /// A message was larger than allowed, or could not be unpacked.
    pub(super) fn broken(&self) {
        self.frames.get_or_create(&Why { reason: "message" }).inc();
    }

    /// Frames that were no event, for this reason.
    pub fn frames_refused(&self, reason: &'static str) -> u64 {
        self.frames.get_or_create(&Why { reason }).get()
    }
}

/// Something that is counted while it is there.
#[derive(Debug)]
pub(super) struct Open(Gauge);

impl Open {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}
