//! All nodes of a Workflow, by id.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::NodeStatus;

/// The nodes of one Workflow.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nodes {
    by_id: BTreeMap<String, NodeStatus>,
}

impl Nodes {
    /// The node with that id.
    pub fn get(&self, id: &str) -> Option<&NodeStatus> {
        self.by_id.get(id)
    }

    /// The node with that id, to be changed.
    pub fn get_mut(&mut self, id: &str) -> Option<&mut NodeStatus> {
        self.by_id.get_mut(id)
    }

    /// Puts a node in its place.
    pub fn set(&mut self, node: NodeStatus) {
        self.by_id.insert(node.id.clone(), node);
    }

    /// Takes a node away.
    pub fn remove(&mut self, id: &str) -> Option<NodeStatus> {
        self.by_id.remove(id)
    }

    /// Every node, in the order of ids.
    pub fn iter(&self) -> impl Iterator<Item = &NodeStatus> {
        self.by_id.values()
    }

    /// Every node, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut NodeStatus> {
        self.by_id.values_mut()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Whether the node is part of an exit handler.
    pub fn is_of_exit_handler(&self, node: &NodeStatus) -> bool {
        let mut current = node;
        // A chain of boundaries is no longer than there are nodes, however broken what is stored may be.
        for _ in 0..=self.len() {
            if current.display_name.ends_with(".onExit") {
                return true;
            }
            match self.get(&current.boundary_id) {
                Some(boundary) => current = boundary,
                None => return false,
            }
        }
        false
    }
}
