//! What live access counts.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(super) enum Kind {
    Resource,
    Log,
    Terminal,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(super) enum Outcome {
    Done,
    Refused,
    Failed,
    Busy,
    Unreadable,
}

impl Outcome {
    pub(super) fn of_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Done,
            429 => Self::Busy,
            400..=499 => Self::Refused,
            _ => Self::Failed,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    kind: Kind,
    outcome: Outcome,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Metrics {
    requests: Family<Labels, Counter>,
}

impl Metrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("agent_live_requests", "Requests of live access by how they ended", self.requests.clone());
    }

    pub(super) fn count(&self, kind: Kind, outcome: Outcome) {
        self.requests.get_or_create(&Labels { kind, outcome }).inc();
    }
}
