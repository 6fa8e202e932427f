//! What we count, under argocd-agent's names too, so that its dashboards and alerts go on working.
//!
//! Some of its counters do not end in `_total`, as counters must in the text format used here: those are shown as gauges
//! that only grow. Queries over them read the same.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::Role;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Resource {
    resource_type: String,
}

/// Counts of all connections of a role.
#[derive(Debug, Clone)]
pub(super) struct Upstream {
    received: Gauge,
    sent: Gauge,
    discarded: Counter,
    errors: Family<Resource, Gauge>,
    latency: Family<Resource, Histogram, fn() -> Histogram>,
}

impl Upstream {
    pub(super) fn new() -> Self {
        Self {
            received: Gauge::default(),
            sent: Gauge::default(),
            discarded: Counter::default(),
            errors: Family::default(),
            latency: Family::new_with_constructor(super::seconds),
        }
    }

    pub(super) fn register(&self, role: Role, registry: &mut Registry) {
        let name = role.as_str();
        registry.register(format!("{name}_events_received"), "Events that came", self.received.clone());
        registry.register(format!("{name}_events_sent"), "Events that were sent", self.sent.clone());
        registry.register(format!("{name}_errors"), "Events refused and writes that failed", self.errors.clone());
        registry.register(
            format!("argocd_{name}_event_writer_events_discarded"),
            "Events dropped because the peer was away too long or there was no room",
            self.discarded.clone(),
        );
        if role == Role::Agent {
            registry.register(
                "agent_event_propagation_latency_seconds",
                "From sent by the hub to applied here",
                self.latency.clone(),
            );
        }
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let labels = vec![("version".to_owned(), version), ("git_revision".to_owned(), String::new())];
        registry.register("argocd_agent_build", "The version of this program", Info::new(labels));
    }

    pub(super) fn received(&self) {
        self.received.inc();
    }

    pub(super) fn sent(&self) {
        self.sent.inc();
    }

    pub(super) fn discarded(&self, events: u64) {
        self.discarded.inc_by(events);
    }

    pub(super) fn failed(&self, resource: &str) {
        self.errors.get_or_create(&Resource { resource_type: resource.to_owned() }).inc();
    }

    pub(super) fn propagated(&self, resource: &str, seconds: f64) {
        self.latency.get_or_create(&Resource { resource_type: resource.to_owned() }).observe(seconds);
    }
}
