//! What the edges (Consul's API, the native API, DNS) stand on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::command::{Command, Done, Refusal};
use crate::model::{Check, Index, Service, Status};
use crate::topic::{Topic, TopicData};

/// The registry, seen from an edge: the hub's own, or an agent's part of it.
pub trait Backend: Send + Sync + 'static {
    /// The topic if it can be answered at once; never waits. `None`: ask with [`Backend::read`].
    fn ready(&self, topic: &Topic, consistency: Consistency) -> Option<Reading>;

    /// The topic; an agent that does not hold it asks the hub, and from then on keeps it fresh.
    fn read<'a>(&'a self, topic: &'a Topic, consistency: Consistency) -> BoxFuture<'a, Result<Reading, Unavailable>>;

    /// The same for somebody: what the hub is asked for on the way, it answers only as far as their token goes.
    fn read_for<'a>(
        &'a self,
        caller: &'a Caller,
        topic: &'a Topic,
        consistency: Consistency,
    ) -> BoxFuture<'a, Result<Reading, Refusal>> {
        let _ = caller;
        Box::pin(async move { self.read(topic, consistency).await.map_err(Refusal::from) })
    }

    /// Resolves when the topic may have changed. Take it before the reading it is meant for, or a change is missed.
    fn wake(&self, topic: &Topic) -> Wake;

    /// Writes; durable, and in what this backend reads, before it resolves.
    fn write<'a>(&'a self, caller: &'a Caller, command: Command) -> BoxFuture<'a, Result<Done, Refusal>>;

    /// Everything the registry has, in one piece.
    fn save<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Result<Bytes, Refusal>> {
        let _ = caller;
        Box::pin(async { Err(Refusal::NoHub) })
    }

    /// Replaces everything the registry has by what was saved; the index it is at then.
    fn restore<'a>(&'a self, caller: &'a Caller, saved: Bytes) -> BoxFuture<'a, Result<Index, Refusal>> {
        let _ = (caller, saved);
        Box::pin(async { Err(Refusal::NoHub) })
    }

    /// Whether everybody may do everything until it is known which tokens there are.
    fn is_open_until_told(&self) -> bool {
        false
    }

    /// What time it is.
    fn now(&self) -> jiff::Timestamp;

    /// The agent beside this edge; the hub has none.
    fn local(&self) -> Option<&dyn LocalAgent>;

    /// The datacenter, the name of the node and where it is reached.
    fn place(&self) -> &Place;
}

/// Where an edge is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The datacenter.
    pub datacenter: String,
    /// The node's name.
    pub node: String,
    /// A UUID that stays with the node.
    pub node_id: String,
    /// Where the node is reached.
    pub address: String,
}

/// Resolves when something may have changed.
pub type Wake = BoxFuture<'static, ()>;

/// How sure a reader wants to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Consistency {
    /// What is pushed here, as long as it is being pushed.
    #[default]
    Default,
    /// What the hub has now.
    Consistent,
    /// Whatever is here, however old.
    Stale,
}

/// A topic as read.
#[derive(Debug, Clone)]
pub struct Reading {
    /// Its content.
    pub data: Arc<TopicData>,
    /// How fresh that is.
    pub freshness: Freshness,
}

/// How fresh a reading is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Freshness {
    /// Whether the hub is there (`X-Consul-KnownLeader`).
    pub connected: bool,
    /// How long ago the hub was last heard of (`X-Consul-LastContact`); zero while its push is open.
    pub last_contact: Duration,
    /// Answered from what was here (`X-Cache: HIT`), how old that is (`Age`); `None`: it had to be fetched.
    pub hit: Option<Duration>,
}

/// Nobody can answer: the hub is away and nothing is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("No cluster leader")]
pub struct Unavailable;

impl From<Unavailable> for Refusal {
    fn from(_: Unavailable) -> Self {
        Self::NoHub
    }
}

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// The token shown, if any.
    pub token: Option<String>,
}

/// What is registered with the agent itself: answered, and durable, before the hub knows.
pub trait LocalAgent: Send + Sync {
    /// Everything registered here.
    fn services(&self) -> Arc<BTreeMap<String, LocalService>>;

    /// Every check that runs here, by id.
    fn checks(&self) -> Arc<BTreeMap<String, Arc<Check>>>;

    /// One instance registered here.
    fn service(&self, id: &str) -> Option<Arc<Service>> {
        self.services().get(id).map(|known| Arc::clone(&known.service))
    }

    /// One check that runs here.
    fn check(&self, id: &str) -> Option<Arc<Check>> {
        self.checks().get(id).cloned()
    }

    /// The checks about an instance, or, without id, about the node; by id.
    fn checks_about(&self, service_id: &str) -> Vec<Arc<Check>> {
        self.checks().values().filter(|check| check.service_id == service_id).cloned().collect()
    }

    /// Registers or replaces an instance with its checks. With `replace_checks`, checks of it not named go.
    fn register(
        &self,
        service: Service,
        checks: Vec<Check>,
        replace_checks: bool,
    ) -> BoxFuture<'_, Result<(), Refusal>>;

    /// Removes an instance and its checks.
    fn deregister<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), Refusal>>;

    /// Registers or replaces a check.
    fn register_check(&self, check: Check) -> BoxFuture<'_, Result<(), Refusal>>;

    /// Removes a check.
    fn deregister_check<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), Refusal>>;

    /// What a TTL check is told.
    fn update_check<'a>(&'a self, id: &'a str, status: Status, output: String) -> BoxFuture<'a, Result<(), Refusal>>;

    /// Puts an instance (or, without id, the node) in or out of maintenance.
    fn maintain<'a>(&'a self, id: Option<&'a str>, enable: bool, reason: &'a str)
    -> BoxFuture<'a, Result<(), Refusal>>;

    /// Reads its configuration again; the names of settings that are others now and take effect after a restart only.
    fn reload(&self) -> BoxFuture<'_, Result<Vec<&'static str>, Refusal>>;

    /// Resolves when something registered here may have changed. Take it before the reading it is meant for.
    fn changed(&self) -> Wake;
}

/// An instance registered here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalService {
    /// The instance.
    pub service: Arc<Service>,
    /// Whether the hub has it as it is.
    pub in_step: bool,
}
