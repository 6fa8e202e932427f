//! Operations: which one the hub still has to deliver, and how an agent starts and ends one.
//!
//! An operation has an id, so that it is neither lost nor run twice. The hub stamps it on its Application; the agent
//! writes it together with the operation and skips an id it already has. The id is made of the operation and of the last
//! one that was seen to run, so one whose stamp is lost gets the same id again.
//!
//! The stamp is an annotation. Argo CD's controller of `ApplicationSets` removes annotations it does not know, so on an
//! Application that has one for an owner the stamp is an entry in the information of the operation instead, which Argo CD
//! keeps with the result.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::plan::{Plan, Reason, refuse, replace};
use super::same::same;
use super::{AgentSide, Mode, keys};
use crate::checksum::go_json;
use crate::object::{self, Kind, OPERATION_ID};

/// The stamp of an operation that the agent reported: it runs already.
const FROM_AGENT: &str = "agent";

/// What is to be done about the operation of an Application on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pending {
    /// Nothing.
    None,
    /// Someone has just asked for it: stamp it with this id, and deliver it.
    Unstamped(String),
    /// Deliver it with this id, unless the agent has said that it got it.
    Stamped(String),
    /// There is none any more, but a stamp: remove that, lest it is taken for the next one's.
    Stale,
}

/// What is to be done about the operation of an Application on the hub.
pub fn pending_operation(app: &Value) -> Pending {
    match (is_set(&app["operation"]), stamp_of(app)) {
        (false, None) | (true, Some(FROM_AGENT)) => Pending::None,
        (false, Some(_)) => Pending::Stale,
        (true, Some(id)) => Pending::Stamped(id.to_owned()),
        (true, None) if is_running(app) => Pending::None,
        (true, None) => Pending::Unstamped(derived_id(app)),
    }
}

/// Hub: writes the id of an operation on its Application.
pub fn stamp_operation(app: &Value, id: &str) -> Plan {
    let mut wanted = app.clone();
    stamp(&mut wanted, id);
    replace(app, wanted)
}

/// Hub: removes the id of an operation that is no more.
pub fn unstamp_operation(app: &Value) -> Plan {
    let mut wanted = app.clone();
    object::remove_annotation(&mut wanted, OPERATION_ID);
    replace(app, wanted)
}

/// Hub: whether someone has asked between two versions of an Application to end its operation.
pub fn is_terminated(before: &Value, after: &Value) -> bool {
    phase(before).is_some_and(|phase| phase != "Terminating") && phase(after) == Some("Terminating")
}

/// Hub: whether someone has asked to end an operation, and it has not ended as far as the hub knows.
pub fn is_terminating(app: &Value) -> bool {
    phase(app) == Some("Terminating")
}

/// Agent, both modes: what to write when an operation is to start. `event_id` identifies it when the hub gave it no id.
pub fn managed_operation(agent: &AgentSide, incoming: &Value, event_id: &str, existing: Option<&Value>) -> Plan {
    let existing = match addressed(agent, incoming, existing) {
        Ok(existing) => existing,
        Err(plan) => return plan,
    };
    if !is_set(&incoming["operation"]) {
        return refuse(
            Reason::Invalid,
            format!("no operation for {} in an event that sets one", object::name(incoming)),
        );
    }
    let id = object::annotation(incoming, OPERATION_ID).unwrap_or(event_id);
    if has_got(existing, id) {
        return Plan::Nothing;
    }
    if object::is_deleting(existing) {
        return refuse(Reason::StillDeleting, format!("{} is being deleted", object::name(existing)));
    }
    if phase(existing) == Some("Terminating") {
        return refuse(
            Reason::Terminating,
            format!("the last operation of {} is still being ended", object::name(existing)),
        );
    }
    // Argo CD would take it for the one that runs, and drop it when that ends.
    if is_set(&existing["operation"]) || phase(existing) == Some("Running") {
        return refuse(Reason::Busy, format!("another operation of {} is running", object::name(existing)));
    }
    let mut wanted = existing.clone();
    set(&mut wanted, incoming["operation"].clone(), id);
    replace(existing, wanted)
}

/// Agent, both modes: what to write when the running operation is to end.
pub fn managed_terminate(agent: &AgentSide, incoming: &Value, existing: Option<&Value>) -> Plan {
    let existing = match addressed(agent, incoming, existing) {
        Ok(existing) => existing,
        Err(plan) => return plan,
    };
    if !existing["status"]["operationState"].is_object() {
        return refuse(Reason::NoOperation, format!("{} has no operation to end", object::name(existing)));
    }
    // It may be a late repeat: the one that it was for has ended, and another may run.
    let started = |app: &Value| app["status"]["operationState"]["startedAt"].as_str().unwrap_or_default().to_owned();
    let meant = started(incoming);
    if !meant.is_empty() && meant != started(existing) {
        return Plan::Nothing;
    }
    if !matches!(phase(existing), None | Some("" | "Running")) {
        return Plan::Nothing;
    }
    let mut wanted = existing.clone();
    wanted["status"]["operationState"]["phase"] = Value::from("Terminating");
    replace(existing, wanted)
}

/// Sets the operation that a hub sent along with a spec, as Go's does when it compares both sides, unless it has been
/// started since the hub last heard.
pub(super) fn set_carried(wanted: &mut Value, existing: &Value, incoming: &Value, event_id: &str) {
    let operation = &incoming["operation"];
    let started = |app: &Value| app["status"]["operationState"]["startedAt"].as_str().unwrap_or_default().to_owned();
    let ran_since =
        started(existing) > started(incoming) && same(&existing["status"]["operationState"]["operation"], operation);
    let known = is_set(&existing["operation"]) || has_got(existing, event_id);
    if is_set(operation) && !known && !ran_since && phase(existing) != Some("Terminating") {
        set(wanted, operation.clone(), event_id);
    }
}

/// Writes what the agent says about its operation on the hub's object, which has its status already, keeping one that it
/// has not got yet.
pub(super) fn merge(wanted: &mut Value, existing: &Value, incoming: &Value, delivered: bool) {
    let theirs = &incoming["operation"];
    let (ours, delivered) = match pending_operation(existing) {
        // What the new status shows to run is not waiting any more.
        Pending::Stamped(_) | Pending::Unstamped(_) if pending_operation(wanted) == Pending::None => (None, delivered),
        Pending::Stamped(id) => (Some(id), delivered),
        // It has not even been sent.
        Pending::Unstamped(id) => (Some(id), false),
        Pending::None | Pending::Stale => (None, delivered),
    };
    if let Some(id) = &ours
        && !delivered
        && !has_got(incoming, id)
    {
        return;
    }
    match ours {
        Some(id) if is_set(theirs) => set(wanted, theirs.clone(), &id),
        _ => adopt(wanted, incoming),
    }
}

/// Writes what the agent says about its operation on the hub's object, whatever is there.
pub(super) fn adopt(wanted: &mut Value, incoming: &Value) {
    let theirs = &incoming["operation"];
    if is_set(theirs) {
        return set(wanted, theirs.clone(), FROM_AGENT);
    }
    if let Value::Object(fields) = wanted {
        fields.remove("operation");
    }
    object::remove_annotation(wanted, OPERATION_ID);
}

/// Whether someone has asked to end the operation that the agent says still runs.
pub fn is_to_end(existing: &Value, incoming: &Value) -> bool {
    let started = |app: &Value| app["status"]["operationState"]["startedAt"].clone();
    is_terminating(existing) && phase(incoming) == Some("Running") && started(existing) == started(incoming)
}

/// Keeps the wish to end an operation until the agent has heard of it.
pub(super) fn keep_termination(wanted: &mut Value, existing: &Value, incoming: &Value) {
    if is_to_end(existing, incoming) {
        wanted["status"]["operationState"]["phase"] = Value::from("Terminating");
    }
}

/// Puts an operation and its id into an Application.
pub(super) fn set(app: &mut Value, operation: Value, id: &str) {
    if let Value::Object(fields) = app {
        fields.insert("operation".to_owned(), operation);
    }
    stamp(app, id);
}

fn stamp(app: &mut Value, id: &str) {
    if !is_generated(app) {
        return object::set_annotation(app, OPERATION_ID, id);
    }
    if let Some(Value::Object(operation)) = app.get_mut("operation") {
        let info = operation.entry("info").or_insert(Value::Null);
        let mut entries = info.as_array().cloned().unwrap_or_default();
        entries.retain(|entry| entry["name"] != OPERATION_ID);
        entries.push(json!({ "name": OPERATION_ID, "value": id }));
        *info = Value::Array(entries);
    }
}

/// The id that an Application has for its operation.
fn stamp_of(app: &Value) -> Option<&str> {
    id_within(&app["operation"]).or_else(|| object::annotation(app, OPERATION_ID))
}

/// Whether an Application on an agent has, or had last, the operation of that id.
fn has_got(app: &Value, id: &str) -> bool {
    let ids = [&app["operation"], &app["status"]["operationState"]["operation"]].map(id_within);
    object::annotation(app, OPERATION_ID) == Some(id) || ids.contains(&Some(id))
}

fn id_within(operation: &Value) -> Option<&str> {
    let entries = operation["info"].as_array()?;
    entries.iter().find(|entry| entry["name"] == OPERATION_ID)?["value"].as_str()
}

/// Whether an `ApplicationSet` made it.
fn is_generated(app: &Value) -> bool {
    let owners = app["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().any(|owner| owner["kind"] == "ApplicationSet")
}

/// The Application on the agent that an event about an operation is for.
fn addressed<'a>(agent: &AgentSide, incoming: &Value, existing: Option<&'a Value>) -> Result<&'a Value, Plan> {
    let key = keys::key_of(Kind::Application, incoming).and_then(|key| keys::agent_key(agent, &key))?;
    let Some(existing) = existing else {
        return Err(refuse(Reason::Missing, format!("Application {} is not here", key.name)));
    };
    if object::is_ignored(existing) {
        return Err(Plan::Nothing);
    }
    let (known, sent) = match agent.mode {
        Mode::Managed => (object::source_uid(existing).unwrap_or_default(), object::origin_uid(incoming)),
        // The hub's object is the mirror, and says whose.
        Mode::Autonomous => {
            (object::uid(existing), object::source_uid(incoming).unwrap_or_else(|| object::uid(existing)))
        }
    };
    if known != sent {
        return Err(refuse(Reason::OtherSource, format!("Application {} is not the one the hub means", key.name)));
    }
    Ok(existing)
}

fn is_set(operation: &Value) -> bool {
    !operation.is_null()
}

fn phase(app: &Value) -> Option<&str> {
    app["status"]["operationState"]["phase"].as_str()
}

/// Whether the operation is the one that the agent reports to be running.
pub fn is_running(app: &Value) -> bool {
    matches!(phase(app), Some("Running" | "Terminating"))
        && same(&app["status"]["operationState"]["operation"], &app["operation"])
}

/// Hub: whether what the agent reports has begun since the hub last heard and is what the hub's object asks for. For
/// agents that do not tell ids; they write out fields that are empty.
pub fn shows_run(existing: &Value, incoming: &Value) -> bool {
    let (before, after) = (&existing["status"]["operationState"], &incoming["status"]["operationState"]);
    let asked = without_empty(&existing["operation"]);
    let is_asked = |state: &Value| without_empty(&state["operation"]) == asked;
    is_set(&existing["operation"])
        && is_asked(after)
        && (before["startedAt"] != after["startedAt"] || !is_asked(before))
}

/// A value without fields that say nothing.
fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().map(|(name, value)| (name.clone(), without_empty(value)));
            let says_nothing = |value: &Value| {
                value.is_null()
                    || value.as_object().is_some_and(serde_json::Map::is_empty)
                    || value.as_array().is_some_and(Vec::is_empty)
            };
            Value::Object(kept.filter(|(_, value)| !says_nothing(value)).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_empty).collect()),
        other => other.clone(),
    }
}

fn derived_id(app: &Value) -> String {
    let mut hash = Sha256::new();
    for part in [
        object::uid(app).as_bytes(),
        app["status"]["operationState"]["startedAt"].as_str().unwrap_or_default().as_bytes(),
        &go_json(&app["operation"]),
    ] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digits = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>();
    digits.concat()
}
