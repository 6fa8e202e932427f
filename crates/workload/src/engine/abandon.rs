//! The end of a Workflow whose status has outgrown what can be stored.

use jiff::Timestamp;

use super::{COMPLETED_LABEL, Operated, PHASE_LABEL};
use crate::status::{Moment, NodePhase, Nodes, Phase};

/// What is stored of it: an error, and the tree without what steps were given and left, or without the tree.
pub(crate) fn abandoned(operated: &Operated, why: &str, keeps_nodes: bool, now: Timestamp) -> Operated {
    let now = Moment::of(now);
    let mut ended = Operated { effects: Vec::new(), wake_at: None, changed: true, ..operated.clone() };
    let status = &mut ended.status;
    (status.phase, status.finished_at) = (Phase::Error, now);
    why.clone_into(&mut status.message);
    status.outputs = None;
    for node in status.nodes.iter_mut() {
        (node.inputs, node.outputs) = (None, None);
        if !node.is_ended() {
            (node.phase, node.finished_at, node.daemoned) = (NodePhase::Error, now, None);
            "the workflow has ended: its status is too large".clone_into(&mut node.message);
        }
        node.task_result_synced = node.task_result_synced.map(|_| true);
    }
    if !keeps_nodes {
        status.nodes = Nodes::default();
        status.stored_templates.clear();
    }
    status.observe("PodRunning", false);
    status.observe("Completed", true);
    ended.labels.insert(PHASE_LABEL.to_owned(), Phase::Error.word().to_owned());
    ended.labels.insert(COMPLETED_LABEL.to_owned(), "true".to_owned());
    ended
}
