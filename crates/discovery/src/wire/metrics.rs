//! What the hub counts of its agents.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// What the hub counts of its agents; clones count together.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(super) agents: Gauge,
    requests: Counter,
    durations: Histogram,
    pub(super) full_sets: Counter,
    pub(super) follows: Counter,
    pub(super) too_large: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            agents: Gauge::default(),
            requests: Counter::default(),
            durations: Histogram::new(exponential_buckets(0.000_25, 4.0, 9)),
            full_sets: Counter::default(),
            follows: Counter::default(),
            too_large: Counter::default(),
        }
    }
}

impl Metrics {
    /// Makes the counts visible under the names the design record gives them.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("konsul_server_connected_agents", "Agents that follow topics", self.agents.clone());
        registry.register("konsul_server_agent_sync_requests", "Calls of agents", self.requests.clone());
        registry.register(
            "konsul_server_agent_sync_duration_seconds",
            "Time to answer a call of an agent",
            self.durations.clone(),
        );
        registry.register(
            "konsul_server_agent_stream_messages",
            "Messages of agents on the streams they follow topics by: topics asked for, and signs of life",
            self.follows.clone(),
        );
        registry.register(
            "konsul_server_agent_topics_too_large",
            "Topics not pushed because there is too much in one",
            self.too_large.clone(),
        );
        registry.register(
            "konsul_server_agent_topics_refused",
            "Topics not pushed because an agent follows too many",
            self.full_sets.clone(),
        );
    }

    pub(super) fn answered(&self, took: Duration) {
        self.requests.inc();
        self.durations.observe(took.as_secs_f64());
    }

    /// How many agents follow topics.
    pub fn connected_agents(&self) -> i64 {
        self.agents.get()
    }

    /// How many calls were answered.
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }
}

/// Something that is counted while it is there.
pub(super) struct Open(Gauge);

impl Open {
    pub(super) fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}
