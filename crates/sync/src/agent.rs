//! The agent's side of the connection with its hub.

mod autonomous;
mod managed;
mod resync;
mod send;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use thane_api::event::{Event, OPERATION, PRINCIPAL_UID, Type};

use crate::failure::Class;
use crate::link::{Core, Incoming, Link, Peer, Report, Settled, Side, Why};
use crate::mapping::{self, AgentSide, Mode, Placement, Plan, Reason, Refusal};
use crate::object::{self, Key, Kind, OPERATION_ID, Object};
use crate::resync::{Checksum, DigestItem};
use crate::store::Change;
use crate::time::Now;
use crate::work::Write;

/// The agent's side of one connection.
pub type AgentLink = Link<Agent>;

/// The agent's rules.
#[derive(Debug)]
pub struct Agent {
    side: AgentSide,
    /// Whether namespaces of Applications may be made.
    makes_namespaces: bool,
    /// Copies of the hub's objects, as they should be.
    copies: BTreeMap<Key, Object>,
    /// How copies were that someone deleted.
    lost: BTreeMap<Key, Object>,
    /// Copies whose end the hub wants.
    ending: BTreeSet<Key>,
    /// The hub's digests of single objects, as they come in.
    items: Vec<DigestItem>,
    /// The digest they answer.
    round: Option<Checksum>,
}

impl Agent {
    /// Rules of that agent.
    pub fn new(side: AgentSide, makes_namespaces: bool) -> Self {
        Self {
            side,
            makes_namespaces,
            copies: BTreeMap::new(),
            lost: BTreeMap::new(),
            ending: BTreeSet::new(),
            items: Vec::new(),
            round: None,
        }
    }

    /// How much is remembered only until something that is on its way has arrived.
    pub fn leftovers(&self) -> usize {
        self.lost.len() + self.ending.len() + self.items.len()
    }

    fn is_managed(&self) -> bool {
        self.side.mode == Mode::Managed
    }

    fn plan_inbound(&self, core: &Core, key: &Key, incoming: &Incoming) -> Plan {
        let existing = core.store.get(key).map(AsRef::as_ref);
        let (side, event) = (&self.side, &incoming.event);
        let body = &*without_foreign_id(incoming);
        let principal = event.extensions.get(PRINCIPAL_UID).map_or("", String::as_str);
        let id = event.event_id.as_str();
        match (side.mode, key.kind, &event.kind) {
            (Mode::Managed, Kind::Application, Type::Create | Type::SpecUpdate) => {
                mapping::managed_application(side, body, principal, id, existing)
            }
            (Mode::Managed, Kind::AppProject, Type::Create | Type::SpecUpdate) => {
                mapping::managed_project(side, body, existing)
            }
            (Mode::Managed, Kind::Repository, Type::Create | Type::SpecUpdate) => {
                mapping::managed_repository(side, body, existing)
            }
            (Mode::Managed, _, Type::Delete) => mapping::managed_delete(side, key.kind, body, existing),
            (_, Kind::Application, Type::SetOperation) => mapping::managed_operation(side, body, id, existing),
            (_, Kind::Application, Type::TerminateOperation) => mapping::managed_terminate(side, body, existing),
            (Mode::Autonomous, Kind::Application, Type::SpecUpdate) => {
                mapping::autonomous_application(side, body, id, existing)
            }
            (mode, kind, what) => {
                let what = what.as_str();
                let message = format!("{what} of {} is not for a hub to send in mode {mode}", kind.name());
                Plan::Refuse(Refusal::new(Reason::WrongMode, message))
            }
        }
    }
}

/// A hub that gives operations no ids only hands back the id of the last one, which it got from its mirror.
fn without_foreign_id(incoming: &Incoming) -> Cow<'_, Value> {
    let body = &incoming.body;
    if incoming.event.extensions.contains_key(OPERATION) || object::annotation(body, OPERATION_ID).is_none() {
        return Cow::Borrowed(body);
    }
    let mut body = body.clone();
    object::remove_annotation(&mut body, OPERATION_ID);
    Cow::Owned(body)
}

impl Side for Agent {
    fn key(&self, _core: &Core, kind: Kind, _event: &Event, body: &Value) -> Result<Key, Refusal> {
        mapping::agent_key(&self.side, &mapping::key_of(kind, body)?)
    }

    fn plan(&self, core: &Core, _now: Now, key: &Key, why: &Why) -> Plan {
        match why {
            Why::Inbound(incoming) | Why::Retry(incoming) => self.plan_inbound(core, key, incoming),
            Why::Repair => self.plan_repair(key, core.store.get(key).map(AsRef::as_ref)),
            Why::Stamp => Plan::Nothing,
        }
    }

    fn changed(&mut self, core: &mut Core, now: Now, key: &Key, change: &Change) {
        match self.side.mode {
            Mode::Managed => self.copy_changed(core, now, key, change),
            Mode::Autonomous => self.source_changed(core, now, key, change),
        }
    }

    fn settled(&mut self, core: &mut Core, now: Now, key: &Key, why: &Why, settled: &Settled) {
        match why {
            Why::Inbound(incoming) if *settled == Settled::Refused(Class::Recoverable) => {
                self.ask_again(core, now, incoming);
            }
            Why::Inbound(incoming) | Why::Retry(incoming) if self.is_managed() => {
                core.goes_back_to(key, &incoming.event);
                self.copy_settled(core, now, key, incoming, settled);
            }
            Why::Repair => {
                self.lost.remove(key);
            }
            Why::Inbound(_) | Why::Retry(_) | Why::Stamp => {}
        }
    }

    fn done_late(&mut self, core: &mut Core, now: Now, key: &Key) {
        if self.is_managed() {
            self.ask_for(core, now, key);
        }
    }

    fn wants(&self, core: &Core, key: &Key) -> Option<Why> {
        let plan = self.plan_repair(key, core.store.get(key).map(AsRef::as_ref));
        (!core.is_behind(key) && !matches!(plan, Plan::Nothing)).then_some(Why::Repair)
    }

    fn namespace_first(&self, key: &Key, write: &Write) -> Option<String> {
        let is_first = self.makes_namespaces
            && self.side.placement == Placement::Destination
            && key.namespace != self.side.namespace
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
        self.greet(core, now, true);
    }

    fn compare_due(&mut self, core: &mut Core, now: Now) {
        self.send_digest(core, now);
    }

    fn troubled(&mut self, core: &mut Core, now: Now, report: Report) -> bool {
        Self::send_troubles(core, now, &report)
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
}

/// Whether it came from the hub.
fn is_copy(object: &Value) -> bool {
    object::source_uid(object).is_some()
}
