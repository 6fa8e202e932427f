//! What the hub writes on its own Applications when a managed agent reports.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::copy::{set_field, set_refresh};
use super::plan::{Plan, Reason, Refusal, refuse, replace};
use super::route::{Route, route};
use super::{Agent, HubSide, Mode, keys, operation};
use crate::object::{self, Kind, map_mut, metadata_mut};

/// The condition of an Application that its agent could not take over.
const AGENT_ERROR: &str = "AgentError";

/// Hub: what to write when a managed agent says how an Application is: status, operation and refresh, nothing else.
///
/// `operation_delivered` is whether the agent has acknowledged the operation that the hub's object has; without that,
/// one whose id the agent's copy does not carry stays.
pub fn status_on_hub(
    hub: &HubSide,
    agent: &Agent,
    incoming: &Value,
    existing: Option<&Value>,
    operation_delivered: bool,
) -> Plan {
    let existing = match owned(hub, agent, incoming, existing) {
        Ok(Some(existing)) => existing,
        Ok(None) => {
            return refuse(Reason::Missing, format!("Application {} is not on the hub", object::name(incoming)));
        }
        Err(plan) => return plan,
    };
    match object::source_uid(incoming) {
        None => {
            return refuse(
                Reason::NotAdopted,
                format!("Application {} of the agent is not a copy", object::name(incoming)),
            );
        }
        Some(source) if source != object::origin_uid(existing) => {
            return refuse(
                Reason::OtherSource,
                format!("Application {} of the agent is a copy of another one", object::name(incoming)),
            );
        }
        Some(_) => {}
    }
    let mut wanted = existing.clone();
    set_field(&mut wanted, "status", incoming.get("status").filter(|status| !status.is_null()).cloned());
    operation::merge(&mut wanted, existing, incoming, operation_delivered);
    set_refresh(&mut wanted, incoming);
    replace(existing, wanted)
}

/// Hub: what to write when a managed agent says that an Application is gone: one that is being deleted may go.
pub fn deletion_on_hub(hub: &HubSide, agent: &Agent, incoming: &Value, existing: Option<&Value>) -> Plan {
    let existing = match owned(hub, agent, incoming, existing) {
        Ok(Some(existing)) => existing,
        Ok(None) => return Plan::Nothing,
        Err(plan) => return plan,
    };
    // It may have been the copy of one that had this name before.
    if object::source_uid(incoming).is_some_and(|source| source != object::origin_uid(existing)) {
        return Plan::Nothing;
    }
    release(existing)
}

/// Hub: lets an object go that is being deleted and that no agent has any more. A project may go at once: what its
/// finalizers wait for is on the agents.
pub fn release(existing: &Value) -> Plan {
    if !object::is_deleting(existing) {
        return Plan::Nothing;
    }
    let mut wanted = existing.clone();
    metadata_mut(&mut wanted).remove("finalizers");
    replace(existing, wanted)
}

/// Hub: what to write when a managed agent could not take an Application over.
pub fn error_on_hub(hub: &HubSide, agent: &Agent, existing: Option<&Value>, message: &str, now: Timestamp) -> Plan {
    let Some(existing) = existing else { return Plan::Nothing };
    if let Err(plan) = belongs(hub, agent, existing) {
        return plan;
    }
    let mut wanted = existing.clone();
    let status = map_mut(&mut wanted, "status");
    status.insert("health".to_owned(), json!({ "status": "Degraded", "message": message }));
    let said = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let is_ours = |condition: &Value| condition["type"] == AGENT_ERROR;
    let mut conditions: Vec<Value> = said.iter().filter(|condition| !is_ours(condition)).cloned().collect();
    let same_as_before = said.iter().find(|condition| is_ours(condition) && condition["message"] == message).cloned();
    conditions.push(same_as_before.unwrap_or_else(|| {
        let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        json!({ "type": AGENT_ERROR, "message": message, "lastTransitionTime": at })
    }));
    status.insert("conditions".to_owned(), Value::Array(conditions));
    replace(existing, wanted)
}

/// The hub's Application, if it is one of that agent's.
fn owned<'a>(
    hub: &HubSide,
    agent: &Agent,
    incoming: &Value,
    existing: Option<&'a Value>,
) -> Result<Option<&'a Value>, Plan> {
    if agent.mode != Mode::Managed {
        return Err(refuse(Reason::WrongMode, format!("agent {} is autonomous", agent.name)));
    }
    keys::key_of(Kind::Application, incoming)?;
    if let Some(existing) = existing {
        belongs(hub, agent, existing)?;
    }
    Ok(existing)
}

fn belongs(hub: &HubSide, agent: &Agent, existing: &Value) -> Result<(), Plan> {
    match route(hub, existing, false) {
        Route::To(name) if name == agent.name => Ok(()),
        Route::Ignored => Err(Plan::Nothing),
        Route::To(_) | Route::Nowhere => Err(Refusal::new(
            Reason::NotYours,
            format!("Application {} does not belong to agent {}", object::name(existing), agent.name),
        )
        .into()),
    }
}
