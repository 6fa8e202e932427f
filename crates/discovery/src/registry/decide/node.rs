//! Nodes: who may write them, what their ids mean, what goes with them.

use crate::command::Refusal;
use crate::model::{Index, Indexed, Node, Status};
use crate::registry::decide::agent::SERF_HEALTH;
use crate::registry::draft::Draft;
use crate::registry::id::Id;

impl Draft<'_> {
    /// Refuses whoever may not write a node: one that an agent owns is written by that agent alone.
    pub(super) fn check_owner(&self, node: &str) -> Result<(), Refusal> {
        let owner = self.node(node).and_then(|node| node.value.owner.as_deref());
        match owner {
            Some(owner) if self.asker.agent != Some(owner) => {
                Err(Refusal::Forbidden(format!("node {node:?} belongs to agent {owner:?}")))
            }
            _ => Ok(()),
        }
    }

    /// Makes a node what it is told to be. A node is known by its id and, without one, by its name; the name stays as it
    /// was first written for as long as the node is there.
    pub(super) fn put_node(&mut self, node: &Node) -> Result<Indexed<Node>, Refusal> {
        super::check_name("the node's name", &node.name)?;
        check_node_id(node)?;
        super::check_size("the node", node)?;
        let name = node.name.to_lowercase();
        let created = self.settle_id(&name, node)?;
        let shown = self.node(&name).map(|old| old.value.name.clone());
        let id = Id::Node(name);
        Ok(match (shown, created) {
            (Some(shown), _) => self.put(id, Node { name: shown, ..node.clone() }),
            (None, Some(created)) => self.put_created(id, node.clone(), created),
            (None, None) => self.put(id, node.clone()),
        })
    }

    /// Removes a node with everything on it and every session of it.
    pub(super) fn remove_node(&mut self, node: &str) {
        for session in self.sessions_on(node) {
            self.end_session(&session.value.id);
        }
        for check in self.checks_on(node) {
            self.remove(Id::Check(node.to_owned(), check.value.id.clone()));
        }
        for service in self.services_on(node) {
            self.remove(Id::Service(node.to_owned(), service.value.id.clone()));
        }
        self.remove(Id::Node(node.to_owned()));
    }

    /// Sees to it that no two nodes have one id. Gives back when the node came into being if it is being renamed.
    fn settle_id(&mut self, name: &str, node: &Node) -> Result<Option<Index>, Refusal> {
        if node.id.is_empty() {
            return Ok(None);
        }
        let id = &node.id;
        let known = self.node_by_id(id).map(|known| (known.create_index, known.value.name.to_lowercase()));
        match known {
            Some((_, known)) if known == name => Ok(None),
            Some((created, known)) => {
                self.check_owner(&known)?;
                self.check_name_free(name, node, false).map_err(|why| {
                    Refusal::Failed(format!("Error while renaming Node ID: {id:?} ({}): {why}", node.address))
                })?;
                self.remove_node(&known);
                Ok(Some(created))
            }
            None => {
                self.check_name_free(name, node, true)
                    .map_err(|why| Refusal::Failed(format!("Error while renaming Node ID: {id:?}: {why}")))?;
                Ok(None)
            }
        }
    }

    /// A name can be taken from a node with another id only when nobody is well there.
    fn check_name_free(&self, name: &str, node: &Node, without_id: bool) -> Result<(), String> {
        let Some(other) = self.node(name).filter(|other| other.value.id != node.id) else { return Ok(()) };
        let well = self.check(name, SERF_HEALTH).is_some_and(|check| check.value.status != Status::Critical);
        if well && !(without_id && other.value.id.is_empty()) {
            let (wanted, other) = (&node.name, &other.value);
            let (id, name, address) = (&other.id, &other.name, &other.address);
            return Err(format!("Node name {wanted} is reserved by node {id} with name {name} ({address})"));
        }
        Ok(())
    }
}

/// Refuses an id that is no UUID.
pub(super) fn check_node_id(node: &Node) -> Result<(), Refusal> {
    let id = &node.id;
    let why = if id.is_empty() || uuid::Uuid::try_parse(id).is_ok() && id.len() == 36 {
        return Ok(());
    } else if id.len() != 36 {
        "uuid string is wrong length"
    } else {
        "uuid is improperly formatted"
    };
    Err(Refusal::Failed(format!("Bad node ID: {why}")))
}
