//! Whether whoever runs a Workflow still lives: for some minutes its status has not shown something that it must have seen.

use jiff::{SignedDuration, Timestamp};

use super::view::WorkflowView;

/// How long that may be.
pub(super) const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// A pod of a Workflow that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedPod {
    /// The node it was for.
    pub node: String,
    /// Its name.
    pub name: String,
    /// When it ended.
    pub at: Timestamp,
}

/// What must have been seen and was not, and since when. `resumed` are gates that were opened or closed, and when.
pub(super) fn unseen(
    view: &WorkflowView,
    pods: &[EndedPod],
    resumed: &[(String, Timestamp)],
) -> Option<(Timestamp, String)> {
    if view.ended() {
        return None;
    }
    if view.phase.is_none() {
        return view.created.map(|created| (created, "nobody has taken up the Workflow".to_owned()));
    }
    let mut found: Option<(Timestamp, String)> = None;
    let mut note = |at: Timestamp, why: String| {
        if found.as_ref().is_none_or(|(earliest, _)| at < *earliest) {
            found = Some((at, why));
        }
    };
    for pod in pods {
        // Making a pod may have been the last thing it did: then the status does not know its node.
        let open = view.nodes.get(&pod.node).is_none_or(|node| matches!(node.phase.as_str(), "Pending" | "Running"));
        if open && view.hidden.is_none() {
            note(pod.at, format!("pod {} has ended and its node has not", pod.name));
        }
    }
    for (gate, at) in resumed {
        let moved = view.nodes.values().any(|node| {
            let times = [node.started_at, node.finished_at];
            node.id != *gate && times.into_iter().flatten().any(|time| time >= *at)
        });
        let busy =
            view.nodes.values().any(|node| node.kind == "Pod" && matches!(node.phase.as_str(), "Pending" | "Running"));
        // What comes next may need another gate as well, and that has a deadline of its own.
        let waits = view.gates().any(|other| other.id != *gate);
        if !moved && !busy && !waits {
            note(*at, "a gate was decided and nothing has followed".to_owned());
        }
    }
    found
}
