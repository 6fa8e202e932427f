//! The agent's side of the connection with its hub.

mod autonomous;
mod managed;
mod resync;
mod send;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use thane_api::event::{Event, Mode, PRINCIPAL_UID, Type};

use crate::link::{Core, Link, Peer, Settled, Side, Why};
use crate::mapping::{self, AgentSide, Plan, Refusal};
use crate::object::{Key, Kind, Object};
use crate::resync::DigestItem;
use crate::store::Change;
use crate::time::Now;

/// The agent's side of one connection.
pub type AgentLink = Link<Agent>;

/// The agent's rules.
#[derive(Debug)]
pub struct Agent {
    pub(crate) side: AgentSide,
    /// Copies of the hub's objects, as they should be.
    pub(crate) copies: BTreeMap<Key, Object>,
    /// Copies whose end the hub wants.
    pub(crate) ending: BTreeSet<Key>,
    /// The hub's digests of single objects, as they come in.
    pub(crate) items: Vec<DigestItem>,
    /// Whether this process has told the hub once how every Application is.
    pub(crate) has_told_status: bool,
}

impl Agent {
    /// Rules of that agent.
    pub fn new(side: AgentSide) -> Self {
        Self {
            side,
            copies: BTreeMap::new(),
            ending: BTreeSet::new(),
            items: Vec::new(),
            has_told_status: false,
        }
    }

    pub(crate) fn is_managed(&self) -> bool {
        self.side.mode == Mode::Managed
    }

    fn plan_inbound(&self, core: &Core, key: &Key, event: &Event, body: &Value) -> Plan {
        let existing = core.store.get(key).map(AsRef::as_ref);
        let side = &self.side;
        let principal = event.extensions.get(PRINCIPAL_UID).map_or("", String::as_str);
        match (side.mode, key.kind, &event.kind) {
            (Mode::Managed, Kind::Application, Type::Create | Type::SpecUpdate) => {
                mapping::managed_application(side, body, principal, existing)
            }
            (Mode::Managed, Kind::AppProject, Type::Create | Type::SpecUpdate) => {
                mapping::managed_project(side, body, existing)
            }
            (Mode::Managed, Kind::Repository, Type::Create | Type::SpecUpdate) => {
                mapping::managed_repository(side, body, existing)
            }
            (Mode::Managed, _, Type::Delete) => mapping::managed_delete(side, key.kind, body, existing),
            (Mode::Managed, Kind::Application, Type::SetOperation) => {
                mapping::managed_operation(side, body, operation_id(event, body), existing)
            }
            (_, Kind::Application, Type::TerminateOperation) => mapping::terminate(body, existing),
            (Mode::Autonomous, Kind::Application, Type::SpecUpdate | Type::SetOperation) => {
                mapping::autonomous_application(side, body, operation_id(event, body), existing)
            }
            (mode, kind, what) => {
                let message = format!("{what:?} of {} is not for a hub to send in mode {mode}", kind.name());
                Plan::Refuse(Refusal::permanent(message))
            }
        }
    }
}

/// The id an operation is known by: the hub's, or for upstream's the event's.
fn operation_id<'a>(event: &'a Event, body: &'a Value) -> &'a str {
    mapping::operation_id(body).unwrap_or(&event.event_id)
}

impl Side for Agent {
    fn key(&self, _core: &Core, kind: Kind, _event: &Event, body: &Value) -> Result<Key, Refusal> {
        mapping::agent_key(&self.side, kind, body)
    }

    fn plan(&self, core: &Core, key: &Key, why: &Why) -> Plan {
        match why {
            Why::Inbound(incoming) => self.plan_inbound(core, key, &incoming.event, &incoming.body),
            Why::Repair => self.plan_repair(key, core.store.get(key).map(AsRef::as_ref)),
            Why::Stamp(_) => Plan::Nothing,
        }
    }

    fn changed(&mut self, core: &mut Core, now: Now, key: &Key, change: &Change) {
        match self.side.mode {
            Mode::Managed => self.copy_changed(core, now, key, change),
            Mode::Autonomous => self.source_changed(core, now, key, change),
        }
    }

    fn settled(&mut self, core: &mut Core, now: Now, key: &Key, why: &Why, settled: &Settled) {
        if let Why::Inbound(incoming) = why
            && self.is_managed()
        {
            self.copy_settled(core, now, key, &incoming.event.kind, settled);
        }
    }

    fn is_right(&self, core: &Core, key: &Key) -> bool {
        matches!(self.plan_repair(key, core.store.get(key).map(AsRef::as_ref)), Plan::Nothing)
    }

    fn compare(&mut self, core: &mut Core, now: Now, event: &Event) -> Result<(), Refusal> {
        self.compare_message(core, now, event)
    }

    fn connected(&mut self, core: &mut Core, now: Now, fresh: bool) {
        self.greet(core, now, fresh);
    }

    fn compare_due(&mut self, core: &mut Core, now: Now) {
        self.send_digest(core, now);
    }
}

impl Link<Agent> {
    /// The hub is connected and has told who this agent is and which namespace the hub works in.
    pub fn hub_connected(&mut self, now: Now, name: String, hub_namespace: String, peer: Peer) {
        self.side.side.name = name;
        self.side.side.hub_namespace = hub_namespace;
        self.connected(now, peer);
    }

    /// Everything this cluster has is known now: copies of the hub's objects are as they should be until the hub says
    /// otherwise.
    pub fn loaded(&mut self) {
        self.side.remember_copies(&self.core);
    }

    /// The agent's mode.
    pub fn mode(&self) -> Mode {
        self.side.side.mode
    }
}
