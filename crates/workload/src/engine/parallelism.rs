//! How many may run at once.

use super::{Halt, Operation};
use crate::spec::{Template, TemplateType};
use crate::status::{NodePhase, NodeStatus, NodeType};

const FAIL_FAST: &str = "template has failed or errored children and failFast enabled";

impl Operation<'_> {
    /// Whether a template may run now, as far as others that run are concerned.
    pub(super) fn check_parallelism(&mut self, name: &str, template: &Template, boundary: &str) -> Result<(), Halt> {
        let limit = self.spec.parallelism.and_then(|limit| usize::try_from(limit).ok());
        let node = self.node(name).cloned();
        let runs = node.as_ref().is_some_and(|node| matches!(node.phase, NodePhase::Pending | NodePhase::Running));
        let is_begun = node.as_ref().is_some_and(|node| self.is_begun(node));
        if limit.is_some_and(|limit| !is_begun && template.is_pod() && self.active_pods("") >= limit) {
            return Err(Halt::Parallelism);
        }
        if let Some(node) = &node
            && matches!(template.kind(), Some(TemplateType::Dag | TemplateType::Steps))
        {
            self.fail_fast(&node.id, template)?;
            let limit = limit_of(template);
            if limit.is_some_and(|limit| self.active_pods(&node.id) >= limit) {
                return Err(Halt::Parallelism);
            }
        }
        if boundary.is_empty() || runs {
            return Ok(());
        }
        let Some(around) = self.boundary_template(boundary) else { return Ok(()) };
        self.fail_fast(boundary, &around)?;
        match limit_of(&around) {
            Some(limit) if self.active_children(boundary) >= limit => Err(Halt::Parallelism),
            _ => Ok(()),
        }
    }

    /// A template's own limits may come from its inputs.
    fn boundary_template(&mut self, boundary: &str) -> Option<Template> {
        let template = self.template_of(boundary)?;
        (template.parallelism.is_some() || template.fail_fast.is_some()).then_some(template)
    }

    fn fail_fast(&mut self, id: &str, template: &Template) -> Result<(), Halt> {
        if template.fail_fast != Some(true) || !self.has_failed_children(id) {
            return Ok(());
        }
        if self.active_pods(id) == 0 {
            if let Some(group) = self.last_group(id) {
                self.mark(&group, NodePhase::Failed, Some(FAIL_FAST));
            }
            if let Some(name) = self.status.nodes.get(id).map(|node| node.name.clone()) {
                self.mark(&name, NodePhase::Failed, Some(FAIL_FAST));
            }
        }
        Err(Halt::Parallelism)
    }

    /// The last group of steps of a template.
    fn last_group(&self, id: &str) -> Option<String> {
        let groups = self.status.nodes.iter().filter(|node| node.boundary_id == id && node.kind == NodeType::StepGroup);
        groups.max_by_key(|node| (node.name.len(), node.name.clone())).map(|node| node.name.clone())
    }

    pub(super) fn has_pod(&self, id: &str) -> bool {
        self.seen.pods.contains_key(id) || self.started.contains(id)
    }

    /// Whether a step has its pod, or its sandbox, which a controller that has just started may not know yet.
    fn is_begun(&self, node: &NodeStatus) -> bool {
        let runs = node.kind == NodeType::Pod && node.phase == NodePhase::Running;
        runs || self.has_pod(&node.id) || self.seen.lodged.contains_key(&node.id)
    }

    fn active_pods(&self, boundary: &str) -> usize {
        let counts = |node: &&NodeStatus| {
            node.kind == NodeType::Pod
                && (boundary.is_empty() || node.boundary_id == boundary)
                && matches!(node.phase, NodePhase::Pending | NodePhase::Running)
                && self.is_begun(node)
        };
        self.status.nodes.iter().filter(counts).count()
    }

    fn active_children(&self, boundary: &str) -> usize {
        let counts = |node: &&NodeStatus| {
            is_child(node, boundary) && matches!(node.phase, NodePhase::Pending | NodePhase::Running)
        };
        self.status.nodes.iter().filter(counts).count()
    }

    fn has_failed_children(&self, boundary: &str) -> bool {
        self.status.nodes.iter().any(|node| is_child(node, boundary) && node.phase.is_failure())
    }
}

fn limit_of(template: &Template) -> Option<usize> {
    template.parallelism.filter(|limit| *limit > 0).and_then(|limit| usize::try_from(limit).ok())
}

fn is_child(node: &NodeStatus, boundary: &str) -> bool {
    node.boundary_id == boundary && matches!(node.kind, NodeType::Pod | NodeType::Steps | NodeType::Dag)
}
