//! Pods that still run though their nodes have ended: whoever decided that may not have come to ending them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::{Effect, Operation};
use crate::status::{NodeStatus, NodeType, WorkflowStatus};
use crate::steps::names::{MAIN, pod_name};

/// What such a pod's time is cut to.
pub(crate) const OVER_SECONDS: i64 = 1;

/// The names of such pods.
pub(crate) fn leftovers(status: &WorkflowStatus, pods: &BTreeMap<String, Arc<Pod>>) -> Vec<String> {
    let over = |id: &String| status.nodes.get(id).map_or(status.phase.is_completed(), is_over);
    let left = pods.iter().filter(|(id, pod)| is_alive(pod) && over(id));
    left.filter_map(|(_, pod)| pod.metadata.name.clone()).collect()
}

fn is_over(node: &NodeStatus) -> bool {
    node.phase.is_completed() && !node.is_daemoned()
}

/// Whether a pod has a step to end that nobody has ended yet.
fn is_alive(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    let mut containers = status.into_iter().flat_map(|status| status.container_statuses.iter().flatten());
    let main = containers.find(|one| one.name == MAIN).and_then(|one| one.state.as_ref());
    // Until it has a machine, nobody looks at the clock.
    let is_ended = pod.spec.as_ref().is_some_and(|spec| {
        spec.node_name.is_some() && spec.active_deadline_seconds.is_some_and(|seconds| seconds <= OVER_SECONDS)
    });
    matches!(phase, "Pending" | "Running")
        && pod.metadata.deletion_timestamp.is_none()
        && main.is_none_or(|state| state.terminated.is_none())
        && !is_ended
}

impl Operation<'_> {
    /// Ends what was to be ended before.
    pub(super) fn end_leftovers(&mut self) {
        let mut names = leftovers(&self.status, self.seen.pods);
        let nodes = self.seen.lodged.keys().filter(|id| !self.is_recorded(id));
        let guests = nodes.filter_map(|id| self.status.nodes.get(id)).filter(|node| node.kind == NodeType::Pod);
        let guests: Vec<NodeStatus> = guests.filter(|node| is_over(node)).cloned().collect();
        for node in guests {
            let template = self.template_of(&node.id).map(|template| template.name).unwrap_or_default();
            names.push(pod_name(&self.identity.name, &template, &node.name));
        }
        self.effects.extend(names.into_iter().map(|pod| Effect::End { pod }));
    }
}
