//! Agents as objects: who is connected, since when, in which mode, and what is in trouble there.

mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use thane_api::event::{BY_DESTINATION, BY_NAMESPACE};
use thane_runtime::{SharedClock, Tasks};
use thane_sync::link::{Report, Whose};
use thane_sync::mapping::Placement;
use tokio::sync::{Notify, mpsc};

use crate::gate::Identity;

/// Where agents are.
pub(super) const PATH: &str = "/apis/thane.dev/v1alpha1/agents";
/// Changes that wait to be written; at the bound the newest are left out, the next connection writes again.
const RECORDS_MAX: usize = 4_096;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AgentLabel {
    agent_name: String,
}

/// Who is connected: which of the agent's streams it is, and since when.
type Present = BTreeMap<String, (u64, Timestamp)>;

/// How long agents have been connected, on average, at the moment somebody asks.
struct Age {
    present: Arc<Mutex<Present>>,
    clock: SharedClock,
}

impl fmt::Debug for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Age")
    }
}

impl Collector for Age {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (now, present) = (self.clock.now(), self.present.lock());
        let ages = present.values().map(|(_, since)| now.duration_since(*since).as_secs_f64().max(0.0) / 60.0);
        let count = f64::from(u32::try_from(present.len()).unwrap_or(u32::MAX));
        let average = if present.is_empty() { 0.0 } else { ages.sum::<f64>() / count };
        let help = "How long agents have been connected on average, in minutes";
        let metric = encoder.encode_descriptor("principal_agent_avg_connection_time", help, None, MetricType::Gauge)?;
        ConstGauge::new(average).encode(metric)
    }
}

/// Writes down who is connected; never in the way of events.
#[derive(Clone)]
pub(super) struct Records {
    changes: mpsc::Sender<(String, Change)>,
    /// Changes of one agent are queued under this lock, so that they are written in the order they happened.
    present: Arc<Mutex<Present>>,
    troubles: Troubles,
    /// How the hub finds the agent of an Application.
    placement: Placement,
    connected: Gauge,
    connections: Family<AgentLabel, Counter>,
    left_out: Counter,
}

/// How that agent finds the namespaces of Applications, if it says so.
fn placement_of(capabilities: &BTreeSet<String>) -> Option<Placement> {
    let known = [(BY_NAMESPACE, Placement::Namespace), (BY_DESTINATION, Placement::Destination)];
    known.into_iter().find(|(word, _)| capabilities.contains(*word)).map(|(_, placement)| placement)
}

/// As settings say it.
fn said(placement: Placement) -> &'static str {
    match placement {
        Placement::Namespace => "namespace",
        Placement::Destination => "destination",
    }
}

/// What becomes of an agent's object.
#[derive(Debug, Clone, PartialEq)]
enum Change {
    /// It is there, with this status; it is made if it is not.
    Here(Value),
    /// Its status is this from now on, if it is still there.
    Status(Value),
    /// The agent is no more.
    Gone,
}

/// What is in trouble, until it is written: the newest of each agent.
#[derive(Clone, Default)]
struct Troubles {
    pending: Arc<Mutex<BTreeMap<String, Value>>>,
    /// Agents whose objects tell of troubles in their clusters.
    told: Arc<Mutex<BTreeSet<String>>>,
    changed: Arc<Notify>,
}

impl Troubles {
    /// What could not be written is to be tried again, unless something newer has come.
    fn again(&self, agent: String, mut report: Value) {
        let mut pending = self.pending.lock();
        if let Some(Value::Object(newer)) = pending.remove(&agent) {
            for (field, value) in newer {
                report[field] = value;
            }
        }
        pending.insert(agent, report);
        self.changed.notify_one();
    }

    fn put(&self, agent: &str, whose: Whose, report: Value) {
        let field = match whose {
            Whose::Agent => "agent",
            Whose::Hub => "hub",
        };
        let mut pending = self.pending.lock();
        pending.entry(agent.to_owned()).or_insert_with(|| json!({}))[field] = report;
        self.changed.notify_one();
    }
}

impl Records {
    /// `is_kept` is whether the API has agents as objects.
    pub(super) fn start(
        client: Client,
        clock: SharedClock,
        placement: Placement,
        is_kept: bool,
        tasks: &Tasks,
        registry: &mut Registry,
    ) -> Self {
        let (changes, received) = mpsc::channel(RECORDS_MAX);
        let records = Self {
            changes,
            present: Arc::default(),
            troubles: Troubles::default(),
            placement,
            connected: Gauge::default(),
            connections: Family::default(),
            left_out: Counter::default(),
        };
        registry.register("argocd_principal_connected_agents", "Agents that are connected", records.connected.clone());
        registry.register(
            "argocd_principal_agent_connections",
            "Connections agents have made",
            records.connections.clone(),
        );
        let present = Arc::clone(&records.present);
        registry.register_collector(Box::new(Age { present, clock: Arc::clone(&clock) }));
        registry.register("thane_hub_records_left_out", "Changes of agents not written down", records.left_out.clone());
        let writer = write::Writer { client, clock, present: Arc::clone(&records.present) };
        tasks.spawn("writer", writer.run(received, records.troubles.clone(), is_kept, tasks.clone()));
        records
    }

    /// That stream of an agent is open; numbers grow.
    pub(super) fn connected(&self, identity: &Identity, stream: u64, peer: SocketAddr, now: Timestamp) {
        self.connections.get_or_create(&AgentLabel { agent_name: identity.agent.clone() }).inc();
        let status = json!({
            "connected": true, "mode": identity.mode.to_string(), "version": identity.version,
            "namespace": identity.agent_namespace, "address": peer.to_string(), "since": now.to_string(),
            "fingerprint": identity.fingerprint, "placement": said(self.placement),
            "agentPlacement": placement_of(&identity.capabilities).map(said),
        });
        if placement_of(&identity.capabilities).is_some_and(|placement| placement != self.placement) {
            let (hub, agent) = (said(self.placement), identity.agent.as_str());
            tracing::warn!(agent, hub, "the agent finds namespaces of Applications in another way than the hub");
        }
        self.change(|present| {
            present.insert(identity.agent.clone(), (stream, now));
            Some((identity.agent.clone(), Change::Here(status)))
        });
        // An agent that is still in trouble says so at once, on each stream.
        self.troubled(&identity.agent, Whose::Agent, &Report::default());
    }

    /// That stream has ended; a newer one may have taken its place, or the agent may be no more.
    pub(super) fn disconnected(&self, agent: &str, stream: u64, now: Timestamp) {
        self.change(|present| {
            present.get(agent).filter(|(current, _)| *current == stream)?;
            present.remove(agent);
            Some((agent.to_owned(), Change::Status(json!({"connected": false, "since": now.to_string()}))))
        });
    }

    pub(super) fn removed(&self, agent: &str) {
        self.change(|present| {
            present.remove(agent);
            Some((agent.to_owned(), Change::Gone))
        });
        self.troubles.pending.lock().remove(agent);
        self.troubles.told.lock().remove(agent);
        self.connections.remove(&AgentLabel { agent_name: agent.to_owned() });
    }

    /// What cannot be done about an agent's objects, there or here.
    pub(super) fn troubled(&self, agent: &str, whose: Whose, report: &Report) {
        if report.count > 0 {
            if whose == Whose::Agent {
                self.troubles.told.lock().insert(agent.to_owned());
            }
            return self.troubles.put(agent, whose, json!(report));
        }
        if whose == Whose::Hub || self.troubles.told.lock().remove(agent) {
            self.troubles.put(agent, whose, Value::Null);
        }
    }

    fn change(&self, change: impl FnOnce(&mut Present) -> Option<(String, Change)>) {
        let mut present = self.present.lock();
        let queued = change(&mut present);
        self.connected.set(i64::try_from(present.len()).unwrap_or(i64::MAX));
        if queued.is_some_and(|queued| self.changes.try_send(queued).is_err()) {
            self.left_out.inc();
        }
    }
}

#[cfg(test)]
mod tests;
