//! What the server counts.

use std::sync::Arc;

use http::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    api: &'static str,
    code: u16,
    via: &'static str,
}

/// Counts of connections and requests; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    via: &'static str,
    requests: Family<Outcome, Counter>,
    connections: Gauge,
    full: Counter,
    limited: Counter,
    crowded: Counter,
    // The answer nearly every request gets, without looking it up.
    fine: Arc<parking_lot::RwLock<Vec<(&'static str, Counter)>>>,
}

impl Metrics {
    /// Counts of requests that come by an agent, or directly to the hub: whoever scrapes both can tell the shares.
    pub fn of(via: &'static str) -> Self {
        Self { via, ..Self::default() }
    }

    /// Makes the counts visible.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "discovery_requests",
            "Requests answered, by API, status code, and whether an agent or the hub itself was asked",
            self.requests.clone(),
        );
        registry.register("discovery_connections", "Open connections", self.connections.clone());
        registry.register(
            "discovery_connections_full",
            "Times that the bound on connections was hit",
            self.full.clone(),
        );
        registry.register(
            "discovery_rate_limited",
            "Requests refused because a client asked too much",
            self.limited.clone(),
        );
        registry.register(
            "discovery_rate_crowded",
            "Such requests of clients that had to share a bucket because the table of clients is full",
            self.crowded.clone(),
        );
    }

    /// A client asked too much, by itself or with others for whom there is no room.
    pub(super) fn limited(&self, crowded: bool) {
        self.limited.inc();
        if crowded {
            self.crowded.inc();
        }
    }

    pub(super) fn answered(&self, api: &'static str, status: StatusCode) {
        let via = self.via;
        if status == StatusCode::OK {
            if let Some((_, counter)) = self.fine.read().iter().find(|(known, _)| *known == api) {
                counter.inc();
                return;
            }
            let counter = self.requests.get_or_create(&Outcome { api, code: 200, via }).clone();
            self.fine.write().push((api, counter));
        }
        self.requests.get_or_create(&Outcome { api, code: status.as_u16(), via }).inc();
    }

    pub(super) fn connected(&self) -> Connected {
        self.connections.inc();
        Connected(self.connections.clone())
    }

    pub(super) fn full(&self) {
        self.full.inc();
    }
}

/// An open connection is counted as long as this lives.
pub(super) struct Connected(Gauge);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.dec();
    }
}
