//! Conditions of a workload: whether it has started, whether its gates are open, whether it is done.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::kind::AgentWorkloadStatus;
use super::plan::closing;
use super::view::WorkflowView;

/// Sets a condition; the time is that of its last change of status.
pub(super) fn say(
    status: &mut AgentWorkloadStatus,
    (kind, holds): (&str, bool),
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let is = if holds { "True" } else { "False" };
    let known = status.conditions.iter().position(|condition| condition.type_ == kind);
    let before = known.map(|at| status.conditions.remove(at));
    let since = before.filter(|before| before.status == is).map_or(Time(now), |before| before.last_transition_time);
    let said = Condition {
        type_: kind.to_owned(),
        status: is.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: since,
        observed_generation: status.observed_generation,
    };
    status.conditions.insert(known.unwrap_or(status.conditions.len()), said);
}

/// Says whether gates are open, if there are some.
pub(super) fn tell_gates(status: &mut AgentWorkloadStatus, view: &WorkflowView, now: Timestamp) {
    let closed: Vec<String> = status.current().filter_map(closing).map(|(gate, _)| gate).collect();
    let waits: Vec<&str> =
        view.gates().filter(|gate| !closed.contains(&gate.id)).map(|gate| gate.display_name.as_str()).collect();
    if !waits.is_empty() {
        let message = format!("waits: {}", waits.join(", "));
        return say(status, (GATE_OPEN, false), "Waiting", &message, now);
    }
    let last = status.current().filter(|record| closing(record).is_some()).last();
    if let Some((allow, message)) = last.map(|last| (last.allow, format!("by {}: {}", last.by, last.reason))) {
        say(status, (GATE_OPEN, allow), if allow { "Approved" } else { "Denied" }, &message, now);
    }
}

/// Whether the gates it has met are open.
const GATE_OPEN: &str = "GateOpen";
