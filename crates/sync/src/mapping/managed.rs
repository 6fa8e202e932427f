//! Copies of the hub's projects and repositories on a managed agent, and what all copies have in common.

use serde_json::{Value, json};

use super::copy::{body_of, fresh, overlaid, set_field};
use super::plan::{Plan, Precondition, Propagation, Reason, refuse, replace};
use super::{AgentSide, Mismatch, Mode, identity, keys};
use crate::object::{self, Key, Kind, SOURCE_UID, metadata_mut};

/// Agent: what to write when a project arrives from the hub.
pub fn managed_project(agent: &AgentSide, incoming: &Value, existing: Option<&Value>) -> Plan {
    copied(agent, Kind::AppProject, incoming, existing)
}

/// Agent: what to write when a repository arrives from the hub; a Secret that is nobody's copy is never touched.
pub fn managed_repository(agent: &AgentSide, incoming: &Value, existing: Option<&Value>) -> Plan {
    if let Some(existing) = existing.filter(|existing| object::source_uid(existing).is_none()) {
        let name = object::name(existing);
        return refuse(Reason::NotAdopted, format!("secret {name} is there already and not a copy of the hub's"));
    }
    copied(agent, Kind::Repository, incoming, existing)
}

/// Agent: what to write when an object of the hub is gone.
pub fn managed_delete(agent: &AgentSide, kind: Kind, incoming: &Value, existing: Option<&Value>) -> Plan {
    if let Err(plan) = arrived(agent, kind, incoming) {
        return plan;
    }
    let Some(existing) = existing.filter(|existing| !object::is_deleting(existing) && !object::is_ignored(existing))
    else {
        return Plan::Nothing;
    };
    let Some(source) = object::source_uid(existing) else {
        let name = object::name(existing);
        return refuse(Reason::NotAdopted, format!("{} {name} is not a copy of the hub's", kind.name()));
    };
    let gone = origin(kind, incoming);
    // The one that is gone may have a successor here already.
    if !gone.is_empty() && gone != source {
        return Plan::Nothing;
    }
    Plan::Delete(Precondition::of(existing), Propagation::Background)
}

/// The key here of what has arrived from the hub, at a managed agent.
pub(super) fn arrived(agent: &AgentSide, kind: Kind, incoming: &Value) -> Result<Key, Plan> {
    if agent.mode != Mode::Managed {
        return Err(refuse(Reason::WrongMode, "the hub does not decide about objects of an autonomous agent"));
    }
    let key = keys::key_of(kind, incoming).and_then(|key| keys::agent_key(agent, &key))?;
    if object::is_ignored(incoming) { Err(Plan::Nothing) } else { Ok(key) }
}

/// Replaces the copy of one object by that of its successor.
pub(super) fn recreate(incoming: &Value, existing: &Value, copy: impl FnOnce() -> Value) -> Plan {
    if object::is_deleting(existing) {
        return refuse(Reason::StillDeleting, format!("the old {} is still being deleted", object::name(existing)));
    }
    let delete = Precondition::of(existing);
    if object::is_deleting(incoming) {
        Plan::Delete(delete, Propagation::Background)
    } else {
        Plan::Recreate { delete, create: copy() }
    }
}

fn copied(agent: &AgentSide, kind: Kind, incoming: &Value, existing: Option<&Value>) -> Plan {
    let key = match arrived(agent, kind, incoming) {
        Ok(key) => key,
        Err(plan) => return plan,
    };
    let body = body_of(kind);
    if !incoming[body].is_object() {
        return refuse(Reason::Invalid, format!("{} {} has no {body}", kind.name(), key.name));
    }
    let origin = origin(kind, incoming);
    if origin.is_empty() {
        return refuse(Reason::Invalid, format!("{} {} has no uid", kind.name(), key.name));
    }
    let copy = || {
        let mut copy = fresh(kind, incoming);
        object::set_annotation(&mut copy, SOURCE_UID, origin);
        metadata_mut(&mut copy).insert("namespace".to_owned(), json!(key.namespace));
        set_field(&mut copy, "status", None);
        copy
    };
    let Some(existing) = existing else {
        return if object::is_deleting(incoming) { Plan::Nothing } else { Plan::Create(copy()) };
    };
    if object::is_ignored(existing) {
        return Plan::Nothing;
    }
    if object::source_uid(existing) != Some(origin) && identity::mismatch(agent, incoming) == Mismatch::Recreate {
        return recreate(incoming, existing, copy);
    }
    let mut wanted = overlaid(incoming, existing);
    set_field(&mut wanted, body, incoming.get(body).cloned());
    object::set_annotation(&mut wanted, SOURCE_UID, origin);
    replace(existing, wanted)
}

/// The uid that a copy names its source by. Only Applications are known by the annotation of their source: a hub that
/// took over keeps it there.
fn origin(kind: Kind, incoming: &Value) -> &str {
    let uid = object::uid(incoming);
    if kind == Kind::Application || uid.is_empty() { object::origin_uid(incoming) } else { uid }
}
