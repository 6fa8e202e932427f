//! How a DAG as a whole is.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Operation;
use super::depends::Dependencies;
use super::steps::continues_on;
use crate::spec::Dag;
use crate::status::{NodePhase, NodeStatus, NodeType};

impl Operation<'_> {
    /// How a DAG is: of tasks that did not run, what came before them counts.
    pub(super) fn dag_phase(
        &self,
        id: &str,
        name: &str,
        dag: &Dag,
        tasks: &Dependencies<'_>,
        targets: &[String],
    ) -> NodePhase {
        let mut found: BTreeMap<String, Option<NodePhase>> =
            targets.iter().map(|task| (self.id(&format!("{name}.{task}")), None)).collect();
        let children = self.status.nodes.get(id).map(|node| node.children.clone()).unwrap_or_default();
        let mut queue: VecDeque<(String, NodePhase)> =
            children.into_iter().map(|child| (child, NodePhase::Succeeded)).collect();
        let mut seen: BTreeSet<(String, NodePhase)> = queue.iter().cloned().collect();
        while let Some((id, before)) = queue.pop_front() {
            let Some(node) = self.status.nodes.get(&id) else { return NodePhase::Running };
            if !node.is_fulfilled() {
                return NodePhase::Running;
            }
            let phase = if node.is_completed() { node.phase } else { before };
            if let Some(target) = found.get_mut(&id)
                && !target.is_some_and(NodePhase::is_failure)
            {
                *target = Some(phase);
            }
            for next in self.following(node) {
                let next = (next, phase);
                if seen.insert(next.clone()) {
                    queue.push_back(next);
                }
            }
        }
        let fail_fast = dag.fail_fast != Some(false);
        let mut result = NodePhase::Succeeded;
        for task in targets {
            match found.get(&self.id(&format!("{name}.{task}"))).copied().flatten() {
                None => {
                    result = NodePhase::Running;
                    if !fail_fast {
                        break;
                    }
                }
                Some(phase) if phase.is_failure() => {
                    if tasks.task(task).is_some_and(|task| continues_on(task, phase)) {
                        continue;
                    }
                    result = phase;
                    if fail_fast {
                        break;
                    }
                }
                Some(_) => {}
            }
        }
        result
    }

    /// What follows a node; of a retry node only what follows its attempts, as it stands for them.
    fn following(&self, node: &NodeStatus) -> Vec<String> {
        if node.kind != NodeType::Retry {
            return node.children.clone();
        }
        let children = node.children.iter().rev().filter_map(|id| self.status.nodes.get(id));
        let mut all = Vec::new();
        for child in children {
            if child.is_hooked() && !node.is_hooked() {
                all.push(child.id.clone());
            } else {
                all.extend(child.children.iter().cloned());
            }
        }
        all
    }
}
