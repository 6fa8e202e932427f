//! Agents as objects: who is connected, since when, in which mode.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use http::Request;
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
use thane_link::explain;
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::mpsc;

use crate::gate::Identity;

/// Where agents are.
pub(super) const PATH: &str = "/apis/thane.dev/v1alpha1/agents";
/// Changes that wait to be written; at the bound the newest are left out, the next connection writes again.
const RECORDS_MAX: usize = 4_096;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AgentLabel {
    agent_name: String,
}

/// How long agents have been connected, on average, at the moment somebody asks.
struct Age {
    present: Arc<Mutex<BTreeMap<String, Timestamp>>>,
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
        let ages = present.values().map(|since| now.duration_since(*since).as_secs_f64().max(0.0) / 60.0);
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
    changes: mpsc::Sender<(String, Value)>,
    present: Arc<Mutex<BTreeMap<String, Timestamp>>>,
    connected: Gauge,
    connections: Family<AgentLabel, Counter>,
    left_out: Counter,
}

impl Records {
    pub(super) fn start(client: Client, clock: SharedClock, tasks: &Tasks, registry: &mut Registry) -> Self {
        let (changes, received) = mpsc::channel(RECORDS_MAX);
        let records = Self {
            changes,
            present: Arc::default(),
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
        registry.register_collector(Box::new(Age { present: Arc::clone(&records.present), clock }));
        registry.register("thane_hub_records_left_out", "Changes of agents not written down", records.left_out.clone());
        tasks.spawn("writer", write_all(client, received, tasks.clone()));
        records
    }

    pub(super) fn connected(&self, identity: &Identity, peer: SocketAddr, now: Timestamp) {
        self.connections.get_or_create(&AgentLabel { agent_name: identity.agent.clone() }).inc();
        self.count(|present| {
            present.insert(identity.agent.clone(), now);
        });
        self.change(
            &identity.agent,
            json!({
                "connected": true, "mode": identity.mode.to_string(), "version": identity.version,
                "namespace": identity.agent_namespace, "address": peer.to_string(), "since": now.to_string(),
                "fingerprint": identity.fingerprint,
            }),
        );
    }

    pub(super) fn disconnected(&self, agent: &str, now: Timestamp) {
        self.count(|present| {
            present.remove(agent);
        });
        self.change(agent, json!({"connected": false, "since": now.to_string()}));
    }

    pub(super) fn removed(&self, agent: &str) {
        self.count(|present| {
            present.remove(agent);
        });
        self.connections.remove(&AgentLabel { agent_name: agent.to_owned() });
        self.change(agent, Value::Null);
    }

    fn count(&self, change: impl FnOnce(&mut BTreeMap<String, Timestamp>)) {
        let mut present = self.present.lock();
        change(&mut present);
        self.connected.set(i64::try_from(present.len()).unwrap_or(i64::MAX));
    }

    fn change(&self, agent: &str, status: Value) {
        if self.changes.try_send((agent.to_owned(), status)).is_err() {
            self.left_out.inc();
        }
    }
}

async fn write_all(client: Client, mut changes: mpsc::Receiver<(String, Value)>, tasks: Tasks) {
    loop {
        let (agent, status) = tokio::select! {
            change = changes.recv() => match change {
                Some(change) => change,
                None => return,
            },
            () = tasks.cancelled() => return,
        };
        if let Err(error) = write(&client, &agent, status).await {
            // An API without this kind is fine: nothing but `thane agents list` reads it.
            let error = explain(&error, "patch", PATH);
            tracing::debug!(agent, error, "the agent's record was not written");
        }
    }
}

async fn write(client: &Client, agent: &str, status: Value) -> Result<(), kube::Error> {
    if status.is_null() {
        let request = Request::delete(format!("{PATH}/{agent}")).body(Vec::new()).map_err(kube::Error::HttpError)?;
        return client.request::<Value>(request).await.map(|_| ());
    }
    let patch = json!({"status": status}).to_string().into_bytes();
    let request = Request::patch(format!("{PATH}/{agent}?fieldManager=thane-hub"))
        .header("content-type", "application/merge-patch+json")
        .body(patch)
        .map_err(kube::Error::HttpError)?;
    match client.request::<Value>(request).await {
        Err(kube::Error::Api(answer)) if answer.code == 404 => {}
        answer => return answer.map(|_| ()),
    }
    let object = json!({
        "apiVersion": "thane.dev/v1alpha1", "kind": "Agent", "metadata": {"name": agent}, "status": status,
    });
    let request = Request::post(format!("{PATH}?fieldManager=thane-hub"))
        .header("content-type", "application/json")
        .body(object.to_string().into_bytes())
        .map_err(kube::Error::HttpError)?;
    client.request::<Value>(request).await.map(|_| ())
}
