//! Making nodes, moving them on, and tying them together.

use super::{Call, Operation};
use crate::spec::Template;
use crate::status::names::display_name;
use crate::status::{Moment, NodeFlag, NodePhase, NodeStatus, NodeType, Nodes};
use crate::steps::names::node_id;

impl Operation<'_> {
    /// The id of the node with that name.
    pub(super) fn id(&self, name: &str) -> String {
        node_id(&self.identity.name, name)
    }

    /// The node with that name.
    pub(super) fn node(&self, name: &str) -> Option<&NodeStatus> {
        self.status.nodes.get(&self.id(name))
    }

    /// Makes a node, unless there is one of that name.
    pub(super) fn make(&mut self, name: &str, kind: NodeType, call: &Call<'_>, phase: NodePhase) -> &mut NodeStatus {
        let id = self.id(name);
        if self.status.nodes.get(&id).is_none() {
            let now = Moment::of(self.now);
            let boundary = self.status.nodes.get(call.boundary);
            let shown = boundary.map_or_else(|| name.to_owned(), |boundary| display_name(name, &boundary.name));
            self.status.nodes.set(NodeStatus {
                id: id.clone(),
                name: name.to_owned(),
                display_name: shown,
                kind,
                template_name: call.template_name.to_owned(),
                template_ref: call.template_ref.cloned(),
                template_scope: call.scope.text(),
                phase,
                boundary_id: call.boundary.to_owned(),
                message: String::new(),
                started_at: now,
                finished_at: if phase.is_fulfilled() { now } else { Moment::default() },
                progress: String::new(),
                resources_duration: std::collections::BTreeMap::new(),
                pod_ip: String::new(),
                daemoned: None,
                node_flag: call.flag,
                inputs: None,
                outputs: None,
                children: Vec::new(),
                outbound_nodes: Vec::new(),
                host_node_name: String::new(),
                task_result_synced: None,
                rest: serde_json::Map::new(),
            });
        }
        self.changed = true;
        self.status.nodes.get_mut(&id).expect("it was set above if it was not there")
    }

    /// Makes the node of a template that runs, with what it was given.
    pub(super) fn make_running(
        &mut self,
        name: &str,
        kind: NodeType,
        call: &Call<'_>,
        template: &Template,
        phase: NodePhase,
    ) -> &mut NodeStatus {
        let node = self.make(name, kind, call, phase);
        if !template.inputs.parameters.is_empty() || !template.inputs.artifacts.is_empty() {
            node.inputs = Some(template.inputs.clone());
        }
        node
    }

    /// Makes a node for something that does not run.
    pub(super) fn make_skipped(&mut self, name: &str, call: &Call<'_>, phase: NodePhase, message: &str) {
        let flag = Some(call.flag.unwrap_or_default());
        let node = self.make(name, NodeType::Skipped, &Call { flag, ..*call }, phase);
        message.clone_into(&mut node.message);
    }

    /// Says that a node cannot go on, making it if it is not there.
    pub(super) fn make_or_mark_error(&mut self, name: &str, call: &Call<'_>, message: &str) {
        if self.node(name).is_some() {
            self.mark(name, NodePhase::Error, Some(message));
        } else {
            let node = self.make(name, NodeType::Skipped, call, NodePhase::Error);
            message.clone_into(&mut node.message);
        }
    }

    /// Moves a node on.
    pub(super) fn mark(&mut self, name: &str, phase: NodePhase, message: Option<&str>) {
        let (id, now) = (self.id(name), Moment::of(self.now));
        let Some(node) = self.status.nodes.get_mut(&id) else { return };
        if node.phase != NodePhase::Running && phase.is_failure() && node.task_result_synced.is_some() {
            // It never ran, so nothing will be reported.
            node.task_result_synced = Some(true);
        }
        let before = (node.phase, node.finished_at);
        node.phase = phase;
        if let Some(message) = message
            && node.message != message
        {
            message.clone_into(&mut node.message);
            self.changed = true;
        }
        if node.is_fulfilled() && node.finished_at.is_none() {
            node.finished_at = now;
        }
        self.changed |= before != (node.phase, node.finished_at);
    }

    /// Makes one node follow another.
    pub(super) fn follow(&mut self, parent: &str, child: &str) {
        let (parent, child) = (self.id(parent), self.id(child));
        self.follow_id(&parent, child);
    }

    /// Makes the node with an id follow another.
    pub(super) fn follow_id(&mut self, parent: &str, child: String) {
        if let Some(parent) = self.status.nodes.get_mut(parent)
            && !parent.children.contains(&child)
        {
            parent.children.push(child);
            self.changed = true;
        }
    }

    /// The last nodes of what a node runs, to which what follows is tied.
    pub(super) fn outbound(&self, id: &str) -> Vec<String> {
        let mut found = Vec::new();
        outbound(&self.status.nodes, id, &mut found, 0);
        found
    }

    /// A retry node's last attempt.
    pub(super) fn last_attempt(&self, node: &NodeStatus) -> Option<&NodeStatus> {
        attempts(&self.status.nodes, node).last().copied()
    }

    /// The node whose outputs count: a retry node's last attempt, or the node itself.
    pub(super) fn effective<'n>(&'n self, node: &'n NodeStatus) -> &'n NodeStatus {
        if node.kind != NodeType::Retry {
            return node;
        }
        let children = node.children.iter().rev().filter_map(|id| self.status.nodes.get(id));
        children.into_iter().find(|child| !child.is_hooked()).unwrap_or(node)
    }

    /// Whether a node and all that it is made of are fulfilled.
    pub(super) fn is_group_fulfilled(&self, name: &str) -> bool {
        let Some(node) = self.node(name).filter(|node| node.is_fulfilled()) else { return false };
        node.children.iter().all(|id| self.status.nodes.get(id).is_some_and(NodeStatus::is_fulfilled))
    }

    /// Whether all hooks of a node have ended.
    pub(super) fn are_hooks_fulfilled(&self, node: &NodeStatus) -> bool {
        let mut children = node.children.iter().filter_map(|id| self.status.nodes.get(id));
        children.all(|child| !child.is_hooked() || child.is_fulfilled())
    }
}

/// The attempts of a retry node, first to last.
pub(super) fn attempts<'n>(nodes: &'n Nodes, node: &NodeStatus) -> Vec<&'n NodeStatus> {
    node.children
        .iter()
        .filter_map(|id| nodes.get(id))
        .filter(|child| child.is_retried() && !is_hook_of(node, child))
        .collect()
}

/// A hook's attempt is flagged as both; only a hook of the retry node itself is no attempt.
fn is_hook_of(node: &NodeStatus, child: &NodeStatus) -> bool {
    child.is_hooked() && !node.is_hooked()
}

fn outbound(nodes: &Nodes, id: &str, found: &mut Vec<String>, depth: usize) {
    // As deep as templates may call each other, and more; what is stored may be broken.
    const DEPTH_MAX: usize = 4096;
    let Some(node) = nodes.get(id).filter(|_| depth < DEPTH_MAX) else { return };
    match node.kind {
        NodeType::Skipped | NodeType::Suspend | NodeType::Http | NodeType::Plugin | NodeType::Pod => {
            found.push(node.id.clone());
        }
        NodeType::Container | NodeType::TaskGroup if node.children.is_empty() => found.push(node.id.clone()),
        NodeType::Container | NodeType::TaskGroup => {
            for child in &node.children {
                outbound(nodes, child, found, depth + 1);
            }
        }
        NodeType::Retry if !node.children.is_empty() => found.extend(node.children.last().cloned()),
        NodeType::Retry | NodeType::Steps | NodeType::StepGroup | NodeType::Dag => {
            for next in &node.outbound_nodes {
                outbound(nodes, next, found, depth + 1);
            }
        }
    }
}

/// What a node's flag becomes when it is an attempt.
pub(super) fn as_attempt(flag: Option<NodeFlag>) -> NodeFlag {
    NodeFlag { retried: true, ..flag.unwrap_or_default() }
}
