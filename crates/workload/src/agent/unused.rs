//! Fields of the kind that others act on and we do not: whoever sets one is told.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::kind::{AgentWorkloadSpec, AgentWorkloadStatus};

/// The condition that names them.
pub(super) const CONDITION: &str = "FieldsWithoutEffect";

/// Those that a workload sets. What only describes it is not among them, and policies see them all.
fn unused(spec: &AgentWorkloadSpec) -> Vec<&'static str> {
    let set = [
        (spec.mcp_server_endpoint.is_some(), "mcpServerEndpoint"),
        (spec.target_prefix.is_some(), "targetPrefix"),
        (spec.script_url.is_some(), "scriptUrl"),
        (spec.resources.is_some(), "resources"),
        (spec.model_strategy.is_some(), "modelStrategy"),
        (spec.task_classifier.is_some(), "taskClassifier"),
        (!spec.providers.is_empty(), "providers"),
        (!spec.model_mapping.is_empty(), "modelMapping"),
        (spec.collaboration_mode.is_some(), "collaborationMode"),
        (!spec.agent_refs.is_empty(), "agentRefs"),
        (spec.persona.is_some(), "persona"),
    ];
    set.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name).collect()
}

/// Says so in the status, once.
pub(super) fn tell(spec: &AgentWorkloadSpec, status: &mut AgentWorkloadStatus, now: Timestamp) {
    let names = unused(spec);
    let message = format!("accepted, but nothing here acts on spec.{}", names.join(", spec."));
    let known = status.conditions.iter().find(|condition| condition.type_ == CONDITION);
    if known.is_some_and(|known| known.message == message) {
        return;
    }
    status.conditions.retain(|condition| condition.type_ != CONDITION);
    if !names.is_empty() {
        status.conditions.push(Condition {
            type_: CONDITION.to_owned(),
            status: "True".to_owned(),
            reason: "NotSupported".to_owned(),
            message,
            last_transition_time: Time(now),
            observed_generation: status.observed_generation,
        });
    }
}

/// What the status says of them, if it did not say so before.
pub(super) fn told<'s>(before: &AgentWorkloadStatus, after: &'s AgentWorkloadStatus) -> Option<&'s str> {
    let message =
        |status: &'_ AgentWorkloadStatus| status.conditions.iter().position(|condition| condition.type_ == CONDITION);
    let new = after.conditions.get(message(after)?)?;
    let is_known =
        message(before).and_then(|at| before.conditions.get(at)).is_some_and(|old| old.message == new.message);
    (!is_known).then_some(new.message.as_str())
}
