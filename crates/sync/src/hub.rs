//! The hub's side of the connection with one agent.

mod managed;
mod mirrors;
mod resync;
mod send;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use thane_api::event::{Event, Type};

use crate::link::{Core, Incoming, Link, Peer, Report, Settled, Side, Whose, Why};
use crate::mapping::{self, Agent, HubSide, Mode, Plan, Reason, Refusal};
use crate::object::{self, Key, Kind, Object};
use crate::store::Change;
use crate::time::Now;
use crate::work::Write;

/// The hub's side of one connection.
pub type HubLink = Link<Hub>;

/// The hub's rules for one agent.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the agent")]
pub struct Hub {
    side: Arc<HubSide>,
    /// The hub's persistent id.
    principal_uid: String,
    agent: Agent,
    /// Whether the agent has connected once and told its mode.
    is_known: bool,
    /// Whether the namespace of an autonomous agent's mirrors may be made.
    makes_namespace: bool,
    /// Mirrors of an autonomous agent's objects, as they should be.
    mirrors: BTreeMap<Key, Object>,
    /// Applications whose end the agent has told of.
    ended: BTreeSet<Key>,
    /// Whether everything is to be sent again, as somebody asked, when the agent is there.
    everything_due: bool,
    /// Whether the agent says which operation it has got; upstream's only acknowledges it.
    echoes: bool,
}

impl Hub {
    /// Rules for the agent of that name, known to Argo CD as that cluster.
    pub fn new(
        side: Arc<HubSide>,
        principal_uid: String,
        agent: String,
        cluster: String,
        makes_namespace: bool,
    ) -> Self {
        let agent = Agent { name: agent, mode: Mode::Managed, namespace: String::new(), cluster };
        Self {
            side,
            principal_uid,
            agent,
            is_known: false,
            makes_namespace,
            mirrors: BTreeMap::new(),
            ended: BTreeSet::new(),
            everything_due: false,
            echoes: true,
        }
    }

    /// How much is remembered only until something that is on its way has arrived.
    pub fn leftovers(&self) -> usize {
        self.ended.len()
    }

    fn is_managed(&self) -> bool {
        self.is_known && self.agent.mode == Mode::Managed
    }

    fn is_autonomous(&self) -> bool {
        self.is_known && self.agent.mode == Mode::Autonomous
    }

    fn plan_inbound(&self, core: &Core, now: Now, key: &Key, incoming: &Incoming) -> Plan {
        let existing = core.store.get(key).map(AsRef::as_ref);
        let (hub, agent, body) = (&*self.side, &self.agent, &incoming.body);
        let delivered = self.is_operation_delivered(core, key, incoming);
        match (agent.mode, key.kind, &incoming.event.kind) {
            (Mode::Managed, Kind::Application, Type::StatusUpdate) => {
                mapping::status_on_hub(hub, agent, body, existing, delivered)
            }
            (Mode::Managed, Kind::Application, Type::Delete) => mapping::deletion_on_hub(hub, agent, body, existing),
            (Mode::Managed, Kind::Application, Type::Error) => {
                let message = body["message"].as_str().unwrap_or_default();
                mapping::error_on_hub(hub, agent, existing, message, now.wall)
            }
            (Mode::Autonomous, Kind::Application | Kind::AppProject, Type::Create | Type::SpecUpdate) => {
                self.plan_mirror(key.kind, body, existing, delivered, now)
            }
            (Mode::Autonomous, Kind::Application | Kind::AppProject, Type::Delete) => {
                mapping::mirror_delete(hub, agent, key.kind, body, existing)
            }
            (mode, kind, what) => {
                let what = what.as_str();
                let message = format!("{what} of {} is not for an agent to send in mode {mode}", kind.name());
                Plan::Refuse(Refusal::new(Reason::WrongMode, message))
            }
        }
    }
}

impl Side for Hub {
    fn key(&self, _core: &Core, kind: Kind, event: &Event, body: &Value) -> Result<Key, Refusal> {
        if !self.is_known {
            return Err(Refusal::new(Reason::WrongMode, "the agent's mode is not known"));
        }
        let key = if event.kind == Type::Error { reported(kind, body) } else { mapping::key_of(kind, body)? };
        let remapped = object::annotation(body, object::NAMESPACE_REMAPPED).is_some();
        mapping::hub_key(&self.side, &self.agent, &key, remapped)
    }

    fn plan(&self, core: &Core, now: Now, key: &Key, why: &Why) -> Plan {
        match why {
            Why::Inbound(incoming) | Why::Retry(incoming) => self.plan_inbound(core, now, key, incoming),
            Why::Repair => self.plan_repair(key, core.store.get(key).map(AsRef::as_ref)),
            Why::Stamp => plan_stamp(core, key),
        }
    }

    fn changed(&mut self, core: &mut Core, now: Now, key: &Key, change: &Change) {
        if self.is_managed() {
            self.managed_changed(core, now, key, change);
        } else if self.is_autonomous() {
            self.mirror_changed(core, now, key, change);
        }
    }

    fn settled(&mut self, core: &mut Core, now: Now, key: &Key, why: &Why, settled: &Settled) {
        match why {
            Why::Inbound(incoming) | Why::Retry(incoming) if self.is_autonomous() => {
                self.mirror_settled(core, now, key, incoming, settled);
            }
            Why::Inbound(incoming) | Why::Retry(incoming) => {
                self.managed_settled(core, now, key, incoming, settled);
            }
            // It may have been written before by an attempt whose answer was lost.
            Why::Stamp if !matches!(settled, Settled::Refused(_)) => self.send_operation(core, now, key),
            Why::Stamp | Why::Repair => {}
        }
    }

    fn done_late(&mut self, core: &mut Core, now: Now, key: &Key) {
        if self.is_autonomous() {
            self.ask_for(core, now, key);
        }
    }

    fn wants(&self, core: &Core, key: &Key) -> Option<Why> {
        let existing = core.store.get(key);
        if !core.is_behind(key) && !matches!(self.plan_repair(key, existing.map(AsRef::as_ref)), Plan::Nothing) {
            return Some(Why::Repair);
        }
        existing.filter(|_| self.is_known && managed::needs_stamp(key, existing)).map(|_| Why::Stamp)
    }

    fn namespace_first(&self, key: &Key, write: &Write) -> Option<String> {
        let is_first = self.makes_namespace
            && self.is_autonomous()
            && key.kind == Kind::Application
            && matches!(write, Write::Create(_));
        is_first.then(|| key.namespace.clone())
    }

    fn compare(&mut self, core: &mut Core, now: Now, event: &Event) -> Result<(), Refusal> {
        self.compare_message(core, now, event)
    }

    fn connected(&mut self, core: &mut Core, now: Now, fresh: bool) {
        self.greet(core, now, fresh);
    }

    fn compare_now(&mut self, core: &mut Core, now: Now) {
        Hub::compare_now(self, core, now);
    }

    fn compare_due(&mut self, _core: &mut Core, _now: Now) {
        // In our own pairs the agent speaks first; upstream's compares only at a start.
    }

    fn troubled(&mut self, core: &mut Core, _now: Now, report: Report) -> bool {
        core.tell(Whose::Hub, report);
        true
    }
}

fn plan_stamp(core: &Core, key: &Key) -> Plan {
    let Some(existing) = core.store.get(key) else { return Plan::Nothing };
    match mapping::pending_operation(existing) {
        mapping::Pending::Unstamped(id) => mapping::stamp_operation(existing, &id),
        mapping::Pending::Stale => mapping::unstamp_operation(existing),
        mapping::Pending::None | mapping::Pending::Stamped(_) => Plan::Nothing,
    }
}

/// The object that an agent's complaint names.
fn reported(kind: Kind, body: &Value) -> Key {
    let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
    Key { kind, namespace: text("resourceNamespace"), name: text("resourceName") }
}

impl Link<Hub> {
    /// The agent is connected, in that mode, from that namespace of its own cluster.
    pub fn agent_connected(&mut self, now: Now, mode: Mode, agent_namespace: String, peer: Peer) {
        if !self.side.is_known || self.side.agent.mode != mode {
            self.core.outbox.clear();
            self.core.forget_peer_state();
            self.side.is_known = true;
            self.side.agent.mode = mode;
            self.side.remember_mirrors(&self.core);
        }
        self.side.agent.namespace = agent_namespace;
        self.side.echoes = peer.can(crate::resync::DIGEST);
        self.connected(now, peer);
    }

    /// Sends the agent everything again, or asks an autonomous one for everything; now, or when it is back.
    pub fn send_everything(&mut self, now: Now) {
        self.side.everything_due = true;
        self.resync(now);
    }

    /// The agent's cluster has that name in Argo CD.
    pub fn set_cluster(&mut self, cluster: String) {
        self.side.agent.cluster = cluster;
    }
}
