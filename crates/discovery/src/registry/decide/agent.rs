//! What agents say about their nodes, and what their silence means.

use std::collections::BTreeSet;

use crate::command::{Batch, Item, ItemResult, Refusal};
use crate::model::{Check, Definition, Node, Status};
use crate::registry::decide::node::check_node_id;
use crate::registry::draft::Draft;
use crate::registry::id::Id;
use crate::registry::thing::AgentRecord;

/// The check that says whether a node's agent is there.
pub const SERF_HEALTH: &str = "serfHealth";

/// Items a batch may have unless it is everything.
const ITEMS_MAX: usize = 100;
/// Items everything may be.
const FULL_ITEMS_MAX: usize = 50_000;
/// Past lives of an agent's data that are remembered.
const PAST_MAX: usize = 8;

impl<'a> Draft<'a> {
    pub(super) fn batch(&mut self, agent: &'a str, batch: &Batch) -> Result<Vec<ItemResult>, Refusal> {
        let most = if batch.full { FULL_ITEMS_MAX } else { ITEMS_MAX };
        if batch.items.len() > most {
            return Err(Refusal::TooLarge(format!("a batch has at most {most} items")));
        }
        if agent.is_empty() || batch.node.name.is_empty() {
            return Err(Refusal::Invalid("Must provide node".to_owned()));
        }
        super::check_name("the agent's name", agent)?;
        super::check_name("the incarnation", &batch.incarnation)?;
        self.asker.agent = Some(agent);
        let old = self.find::<AgentRecord>(&Id::Agent(agent.to_owned())).map(|old| AgentRecord::clone(&old.value));
        let old = old.unwrap_or_default();
        if old.incarnation == batch.incarnation && batch.sequence <= old.sequence {
            return Ok(batch.items.iter().map(|_| Ok(())).collect());
        }
        if old.past.contains(&batch.incarnation) {
            return Err(Refusal::Failed("this life of the agent's data is over".to_owned()));
        }
        let node = self.own_node(agent, &old, &batch.node)?;
        let results = batch.items.iter().map(|item| self.item(&node, item)).collect();
        if batch.full {
            self.keep_only(&node, &batch.items);
        }
        self.put(Id::Agent(agent.to_owned()), next_record(old, node, batch));
        Ok(results)
    }

    /// An agent was heard of.
    pub(super) fn revive(&mut self, agent: &str) {
        let Some(record) = self.find::<AgentRecord>(&Id::Agent(agent.to_owned())) else { return };
        let record = AgentRecord::clone(&record.value);
        if record.lost.is_none() {
            return;
        }
        self.set_alive(&record.node, true);
        self.put(Id::Agent(agent.to_owned()), AgentRecord { lost: None, ..record });
    }

    /// An agent was not heard of for too long.
    pub(super) fn lapse(&mut self, agent: &str) {
        let Some(record) = self.find::<AgentRecord>(&Id::Agent(agent.to_owned())) else { return };
        let record = AgentRecord::clone(&record.value);
        if record.lost.is_none() {
            self.set_alive(&record.node, false);
            self.put(Id::Agent(agent.to_owned()), AgentRecord { lost: Some(self.asker.now), ..record });
        }
    }

    /// An agent is forgotten, with its node.
    pub(super) fn reap(&mut self, agent: &str) {
        let Some(record) = self.find::<AgentRecord>(&Id::Agent(agent.to_owned())) else { return };
        let node = record.value.node.clone();
        if self.owns(agent, &node) {
            self.remove_node(&node);
        }
        self.remove(Id::Agent(agent.to_owned()));
    }

    /// Makes sure of the agent's node: it is the agent's own, it is as the agent says, and it is well.
    fn own_node(&mut self, agent: &str, old: &AgentRecord, node: &Node) -> Result<String, Refusal> {
        let name = node.name.to_lowercase();
        if let Some(other) = self.node(&name).and_then(|node| node.value.owner.as_deref())
            && other != agent
        {
            return Err(Refusal::Forbidden(format!("node {name:?} belongs to agent {other:?}")));
        }
        if !old.node.is_empty() && old.node != name && self.owns(agent, &old.node) {
            self.remove_node(&old.node);
        }
        self.take_id(agent, &name, node)?;
        self.put_node(&Node { owner: Some(agent.to_owned()), ..node.clone() })?;
        self.set_alive(&name, true);
        Ok(name)
    }

    /// An agent that lost its data comes back with another id for its node: the certificate says that it is the same.
    fn take_id(&mut self, agent: &str, name: &str, node: &Node) -> Result<(), Refusal> {
        check_node_id(node)?;
        let is_free = node.id.is_empty() || self.node_by_id(&node.id).is_none();
        if is_free
            && self.owns(agent, name)
            && let Some(known) = self.node(name).map(|known| Node::clone(&known.value))
        {
            self.put(Id::Node(name.to_owned()), Node { id: node.id.clone(), ..known });
        }
        Ok(())
    }

    fn owns(&self, agent: &str, node: &str) -> bool {
        self.node(node).is_some_and(|node| node.value.owner.as_deref() == Some(agent))
    }

    fn item(&mut self, node: &str, item: &Item) -> ItemResult {
        match item {
            Item::Service(service) => self.put_own_service(node, service),
            Item::NoService(id) => {
                self.remove_service(node, id);
                Ok(())
            }
            Item::Check(check) if check.id.eq_ignore_ascii_case(SERF_HEALTH) => Err(own_check()),
            Item::Check(check) => self.put_check(node, check).map(|_| ()),
            Item::NoCheck(id) if id.eq_ignore_ascii_case(SERF_HEALTH) => Err(own_check()),
            Item::NoCheck(id) => {
                self.remove_check(node, id);
                Ok(())
            }
        }
    }

    /// Removes what an agent did not name. What it named badly stays as it was.
    fn keep_only(&mut self, node: &str, items: &[Item]) {
        let mut services = BTreeSet::new();
        let mut checks = BTreeSet::from([SERF_HEALTH]);
        for item in items {
            match item {
                Item::Service(service) if service.id.is_empty() => services.insert(service.name.as_str()),
                Item::Service(service) => services.insert(service.id.as_str()),
                Item::Check(check) if check.id.is_empty() => checks.insert(check.name.as_str()),
                Item::Check(check) => checks.insert(check.id.as_str()),
                Item::NoService(_) | Item::NoCheck(_) => false,
            };
        }
        for check in self.checks_on(node) {
            if !checks.contains(check.value.id.as_str()) {
                self.remove_check(node, &check.value.id);
            }
        }
        for service in self.services_on(node) {
            if !services.contains(service.value.id.as_str()) {
                self.remove_service(node, &service.value.id);
            }
        }
    }

    /// Says on a node whether its agent is there.
    fn set_alive(&mut self, node: &str, alive: bool) {
        if self.node(node).is_none() {
            return;
        }
        self.put(Id::Check(node.to_owned(), SERF_HEALTH.to_owned()), serf_health(alive));
        if !alive {
            self.end_sessions_on(node, SERF_HEALTH);
        }
    }
}

/// The check that says whether a node's agent is there.
pub fn serf_health(alive: bool) -> Check {
    let (status, output) = if alive {
        (Status::Passing, "Agent alive and reachable")
    } else {
        (Status::Critical, "Agent not live or unreachable")
    };
    Check {
        id: SERF_HEALTH.to_owned(),
        name: "Serf Health Status".to_owned(),
        status,
        notes: String::new(),
        output: output.to_owned(),
        service_id: String::new(),
        service_name: String::new(),
        service_tags: Vec::new(),
        kind: String::new(),
        definition: Definition::default(),
    }
}

fn own_check() -> Refusal {
    Refusal::Invalid(format!("the check {SERF_HEALTH} is the registry's own"))
}

fn next_record(old: AgentRecord, node: String, batch: &Batch) -> AgentRecord {
    let mut past = old.past;
    if !old.incarnation.is_empty() && old.incarnation != batch.incarnation {
        past.push(old.incarnation);
        past.drain(..past.len().saturating_sub(PAST_MAX));
    }
    AgentRecord { node, incarnation: batch.incarnation.clone(), sequence: batch.sequence, past, lost: None }
}
