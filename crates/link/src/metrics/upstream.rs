//! What we count, under argocd-agent's names too, so that its dashboards and alerts go on working.
//!
//! Some of its counters do not end in `_total`, as counters must in the text format used here: those are shown as gauges
//! that only grow. Queries over them read the same.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use thane_api::event::Mode;

use super::Role;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Resource {
    resource_type: String,
}

/// Whom events came from: the hub names the agent, an agent its own mode.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FromAgent {
    status: &'static str,
    agent_name: String,
    resource_type: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FromHub {
    status: &'static str,
    agent_mode: &'static str,
    resource_type: String,
}

/// What was dropped; the hub names the agent it was for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ForAgent {
    agent_name: String,
    event_type: String,
    resource_type: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ForHub {
    event_type: String,
    resource_type: String,
}

/// Which queue: what comes, or what goes, of all connections together.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Queue {
    queue: &'static str,
}

/// How processing ended.
pub(super) const SUCCESS: &str = "success";
pub(super) const FAILURE: &str = "failure";
pub(super) const NOT_ALLOWED: &str = "not-allowed";

const RECEIVED: Queue = Queue { queue: "recv" };
const SENT: Queue = Queue { queue: "send" };

type Times<L> = Family<L, Histogram, fn() -> Histogram>;

/// Counts of all connections of a role.
#[derive(Debug, Clone)]
pub(super) struct Upstream {
    role: Role,
    received: Gauge,
    sent: Gauge,
    to_agents: Family<ForAgent, Counter>,
    to_hub: Family<ForHub, Counter>,
    errors: Family<Resource, Gauge>,
    latency: Times<Resource>,
    from_agents: Times<FromAgent>,
    from_hub: Times<FromHub>,
    depth: Family<Queue, Gauge>,
    adds: Family<Queue, Counter>,
    queue_duration: Times<Queue>,
    work_duration: Times<Queue>,
    retries: Family<Queue, Counter>,
}

/// What one connection adds to the depths of the queues; it takes that back when it ends.
#[derive(Debug)]
pub(super) struct Depths {
    sending: Depth,
    receiving: Depth,
}

#[derive(Debug)]
struct Depth {
    all: Gauge,
    own: AtomicI64,
}

impl Depth {
    fn set(&self, depth: usize) {
        let depth = i64::try_from(depth).unwrap_or(i64::MAX);
        self.all.inc_by(depth - self.own.swap(depth, Ordering::Relaxed));
    }
}

impl Drop for Depth {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Depths {
    pub(super) fn new(upstream: &Upstream) -> Self {
        let of = |queue| Depth { all: upstream.depth.get_or_create_owned(&queue), own: AtomicI64::new(0) };
        Self { sending: of(SENT), receiving: of(RECEIVED) }
    }

    pub(super) fn set(&self, sending: usize, receiving: usize) {
        self.sending.set(sending);
        self.receiving.set(receiving);
    }
}

impl Upstream {
    pub(super) fn new(role: Role) -> Self {
        Self {
            role,
            received: Gauge::default(),
            sent: Gauge::default(),
            to_agents: Family::default(),
            to_hub: Family::default(),
            errors: Family::default(),
            latency: Family::new_with_constructor(super::seconds),
            from_agents: Family::new_with_constructor(super::seconds),
            from_hub: Family::new_with_constructor(super::seconds),
            depth: Family::default(),
            adds: Family::default(),
            queue_duration: Family::new_with_constructor(super::seconds),
            work_duration: Family::new_with_constructor(super::seconds),
            retries: Family::default(),
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let name = self.role.as_str();
        registry.register(format!("{name}_events_received"), "Events that came", self.received.clone());
        registry.register(format!("{name}_events_sent"), "Events that were sent", self.sent.clone());
        registry.register(format!("{name}_errors"), "Events refused and writes that failed", self.errors.clone());
        let discarded = format!("argocd_{name}_event_writer_events_discarded");
        let help = "Events dropped because the peer was away too long or there was no room";
        match self.role {
            Role::Principal => registry.register(discarded, help, self.to_agents.clone()),
            Role::Agent(_) => registry.register(discarded, help, self.to_hub.clone()),
        }
        let times = "From an event's turn to its effect";
        match self.role {
            Role::Principal => registry.register("principal_event_processing_time", times, self.from_agents.clone()),
            Role::Agent(_) => registry.register("agent_event_processing_time", times, self.from_hub.clone()),
        }
        self.register_queues(registry);
        if matches!(self.role, Role::Agent(_)) {
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

    fn register_queues(&self, registry: &mut Registry) {
        let name = |end: &str| format!("argocd_{}_workqueue_{end}", self.role.as_str());
        registry.register(name("depth"), "Events that wait: to be processed, to be acknowledged", self.depth.clone());
        registry.register(name("adds"), "Events that came, events that were sent", self.adds.clone());
        let waited = "From queued to acknowledged";
        registry.register(name("queue_duration_seconds"), waited, self.queue_duration.clone());
        let worked = "From an event's turn to its effect";
        registry.register(name("work_duration_seconds"), worked, self.work_duration.clone());
        registry.register(name("retries"), "Writes that failed and are tried again", self.retries.clone());
    }

    pub(super) fn received(&self) {
        self.received.inc();
        self.adds.get_or_create(&RECEIVED).inc();
    }

    pub(super) fn sent(&self) {
        self.sent.inc();
        self.adds.get_or_create(&SENT).inc();
    }

    /// An event of that peer had its effect, or had not.
    pub(super) fn processed(&self, peer: &str, status: &'static str, resource: &str, took: Duration) {
        let (seconds, resource_type) = (took.as_secs_f64(), resource.to_owned());
        self.work_duration.get_or_create(&RECEIVED).observe(seconds);
        match self.role {
            Role::Principal => {
                let labels = FromAgent { status, agent_name: peer.to_owned(), resource_type };
                self.from_agents.get_or_create(&labels).observe(seconds);
            }
            Role::Agent(mode) => {
                let agent_mode = match mode {
                    Mode::Managed => "managed",
                    Mode::Autonomous => "autonomous",
                };
                let labels = FromHub { status, agent_mode, resource_type };
                self.from_hub.get_or_create(&labels).observe(seconds);
            }
        }
    }

    /// An event was acknowledged after so long.
    pub(super) fn waited(&self, time: Duration) {
        self.queue_duration.get_or_create(&SENT).observe(time.as_secs_f64());
    }

    pub(super) fn retried(&self) {
        self.retries.get_or_create(&RECEIVED).inc();
    }

    /// An agent is gone for good.
    pub(super) fn forget(&self, peer: &str) {
        for status in [SUCCESS, FAILURE, NOT_ALLOWED] {
            for resource_type in super::target_labels() {
                self.from_agents.remove(&FromAgent { status, agent_name: peer.to_owned(), resource_type });
            }
        }
        for resource_type in super::target_labels() {
            for event_type in super::type_labels() {
                let (agent_name, resource_type) = (peer.to_owned(), resource_type.clone());
                self.to_agents.remove(&ForAgent { agent_name, event_type, resource_type });
            }
        }
    }

    pub(super) fn discarded(&self, peer: &str, event_type: String, resource_type: String, events: u64) {
        match self.role {
            Role::Principal => {
                let labels = ForAgent { agent_name: peer.to_owned(), event_type, resource_type };
                self.to_agents.get_or_create(&labels).inc_by(events);
            }
            Role::Agent(_) => {
                self.to_hub.get_or_create(&ForHub { event_type, resource_type }).inc_by(events);
            }
        }
    }

    pub(super) fn failed(&self, resource: &str) {
        self.errors.get_or_create(&Resource { resource_type: resource.to_owned() }).inc();
    }

    pub(super) fn propagated(&self, resource: &str, seconds: f64) {
        self.latency.get_or_create(&Resource { resource_type: resource.to_owned() }).observe(seconds);
    }
}
