//! The hub's side of the connection with one agent.

mod managed;
mod mirrors;
mod resync;
mod send;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use thane_api::event::{Event, Type};

use crate::link::{Core, Link, Peer, Settled, Side, Why};
use crate::mapping::{self, HubSide, Mode, Plan, Refusal};
use crate::object::{self, Key, Kind, Object};
use crate::store::Change;
use crate::time::Now;

/// The hub's side of one connection.
pub type HubLink = Link<Hub>;

/// The hub's rules for one agent.
#[derive(Debug)]
pub struct Hub {
    pub(crate) side: Arc<HubSide>,
    pub(crate) agent: String,
    /// The agent's name in Argo CD's list of clusters.
    pub(crate) cluster: String,
    /// The agent's own namespace, once it has told.
    pub(crate) agent_namespace: String,
    /// Unknown until the agent has connected once.
    pub(crate) mode: Option<Mode>,
    /// Mirrors of an autonomous agent's objects, as they should be.
    pub(crate) mirrors: BTreeMap<Key, Object>,
    /// Applications whose end the agent has told of.
    pub(crate) ended: std::collections::BTreeSet<Key>,
}

impl Hub {
    /// Rules for that agent.
    pub fn new(side: Arc<HubSide>, agent: String, cluster: String) -> Self {
        Self {
            side,
            agent,
            cluster,
            agent_namespace: String::new(),
            mode: None,
            mirrors: BTreeMap::new(),
            ended: std::collections::BTreeSet::new(),
        }
    }

    pub(crate) fn is_managed(&self) -> bool {
        self.mode == Some(Mode::Managed)
    }

    pub(crate) fn is_autonomous(&self) -> bool {
        self.mode == Some(Mode::Autonomous)
    }

    fn plan_inbound(&self, core: &Core, key: &Key, event: &Event, body: &Value) -> Plan {
        let existing = core.store.get(key).map(AsRef::as_ref);
        match (self.mode, key.kind, &event.kind) {
            (Some(Mode::Managed), Kind::Application, Type::StatusUpdate) => {
                let delivered = self.is_operation_delivered(core, key);
                mapping::status_on_hub(&self.side, body, existing, delivered)
            }
            (Some(Mode::Managed), Kind::Application, Type::Delete) => mapping::deletion_on_hub(existing),
            (Some(Mode::Managed), Kind::Application, Type::Error) => mapping::error_on_hub(body, existing),
            (Some(Mode::Autonomous), _, Type::Create | Type::SpecUpdate) => self.plan_mirror(key, body, existing),
            (Some(Mode::Autonomous), Kind::Application | Kind::AppProject, Type::Delete) => {
                mapping::mirror_delete(body, existing)
            }
            (mode, kind, what) => {
                let mode = mode.map_or_else(|| "unknown".to_owned(), |mode| mode.to_string());
                Plan::Refuse(Refusal::permanent(format!(
                    "{what:?} of {} is not for an agent to send in mode {mode}",
                    kind.name()
                )))
            }
        }
    }
}

impl Side for Hub {
    fn key(&self, core: &Core, kind: Kind, event: &Event, body: &Value) -> Result<Key, Refusal> {
        let _ = (core, event);
        let mode = self.mode.ok_or_else(|| Refusal::permanent("the agent's mode is not known"))?;
        mapping::hub_key(&self.side, &self.agent, &self.agent_namespace, mode, kind, body)
    }

    fn plan(&self, core: &Core, key: &Key, why: &Why) -> Plan {
        let existing = core.store.get(key).map(AsRef::as_ref);
        match why {
            Why::Inbound(incoming) => self.plan_inbound(core, key, &incoming.event, &incoming.body),
            Why::Repair => self.plan_repair(key, existing),
            Why::Stamp(id) => mapping::stamp_operation(id, existing),
        }
    }

    fn changed(&mut self, core: &mut Core, now: Now, key: &Key, change: &Change) {
        match self.mode {
            None => {}
            Some(Mode::Managed) => self.managed_changed(core, now, key, change),
            Some(Mode::Autonomous) => self.mirror_changed(core, now, key, change),
        }
    }

    fn settled(&mut self, core: &mut Core, now: Now, key: &Key, why: &Why, settled: &Settled) {
        match why {
            Why::Inbound(incoming) => self.inbound_settled(core, key, &incoming.event.kind, settled),
            Why::Stamp(_) if *settled == Settled::Written => self.send_operation(core, now, key),
            Why::Stamp(_) | Why::Repair => {}
        }
    }

    fn is_right(&self, core: &Core, key: &Key) -> bool {
        let existing = core.store.get(key).map(AsRef::as_ref);
        !self.is_autonomous() || matches!(self.plan_repair(key, existing), Plan::Nothing)
    }

    fn compare(&mut self, core: &mut Core, now: Now, event: &Event) -> Result<(), Refusal> {
        self.compare_message(core, now, event)
    }

    fn connected(&mut self, core: &mut Core, now: Now, fresh: bool) {
        self.greet(core, now, fresh);
    }

    fn compare_due(&mut self, _core: &mut Core, _now: Now) {
        // In our own pairs the agent speaks first; upstream's has no comparison but at a start.
    }
}

impl Link<Hub> {
    /// The agent is connected, in that mode, from that namespace of its own cluster.
    pub fn agent_connected(&mut self, now: Now, mode: Mode, agent_namespace: String, peer: Peer) {
        if self.side.mode != Some(mode) {
            if self.side.mode.is_some() {
                self.core.outbox.clear();
            }
            self.core.forget_peer_state();
            self.side.mode = Some(mode);
            self.side.remember_mirrors(&self.core);
        }
        self.side.agent_namespace = agent_namespace;
        self.connected(now, peer);
    }

    /// The agent's cluster has that name in Argo CD.
    pub fn set_cluster(&mut self, cluster: String) {
        self.side.cluster = cluster;
    }

    /// The agent's mode, once it is known.
    pub fn mode(&self) -> Option<Mode> {
        self.side.mode
    }
}

/// Whether an object is the agent's own, mirrored here.
pub(crate) fn is_mirror(object: &Value) -> bool {
    object::source_uid(object).is_some()
}
