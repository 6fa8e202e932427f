//! What the connection counts.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jiff::Timestamp;
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
    since: Gauge,
    first_event: Gauge<f64, AtomicU64>,
    unauthenticated: Counter,
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
        let first = "From the last dial to the first event, in seconds";
        registry.register("agent_first_event_seconds", first, self.first_event.clone());
        registry.register("agent_frames_refused", "Frames that were no event, by reason", self.frames.clone());
    }

    /// Makes the counts visible under argocd-agent's names.
    pub fn register_upstream(&self, registry: &mut Registry) {
        let status = "Whether the stream of events is open";
        registry.register("argocd_agent_connection_status", status, self.connected.clone());
        let since = "When the stream of events was opened, in seconds since 1970; 0 while it is not";
        registry.register("argocd_agent_connection_start_timestamp_seconds", since, self.since.clone());
        registry.register("argocd_agent_connections", "Streams of events opened so far", self.connections.clone());
        let failures = "Attempts that failed because the hub did not believe who this is";
        registry.register("argocd_agent_auth_failures", failures, self.unauthenticated.clone());
    }

    pub(super) fn opened(&self, now: Timestamp) {
        self.connections.inc();
        self.connected.set(1);
        self.since.set(now.as_second());
    }

    pub(super) fn first_event(&self, after: Duration) {
        self.first_event.set(after.as_secs_f64());
    }

    /// From the last dial to the first event; zero before there was one.
    pub fn first_event_after(&self) -> Duration {
        Duration::from_secs_f64(self.first_event.get().max(0.0))
    }

    pub(super) fn failed(&self, failure: &Failure) {
        self.connected.set(0);
        self.since.set(0);
        if matches!(failure.label(), "unauthenticated" | "credentials") {
            self.unauthenticated.inc();
        }
        self.failures.get_or_create(&Why { reason: failure.label() }).inc();
    }

    pub(super) fn refused(&self, fault: &thane_api::event::Fault) {
        self.frames.get_or_create(&Why { reason: fault.label() }).inc();
    }
}
