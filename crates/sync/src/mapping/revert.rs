//! Undoing what was changed on the side that does not decide.

use serde_json::{Value, json};

use super::copy::{LOCAL, body_of, finalizers, fresh, local_note, set_field, travels};
use super::plan::{Plan, replace};
use super::same::{includes, same};
use super::{AgentSide, OnRecreate};
use crate::object::{self, Kind, LAST_APPLIED, OPERATION_ID, SOURCE_UID, map_mut, metadata_mut};

/// Agent: undoes what someone changed on a copy. `copy` is what the API answered when the copy was last written, so
/// that what the API itself changes is not fought over. Labels, annotations and finalizers that were added stay.
pub fn revert_tampering(kind: Kind, copy: &Value, existing: &Value) -> Plan {
    if object::is_ignored(existing) {
        return Plan::Nothing;
    }
    let body = body_of(kind);
    let mut wanted = existing.clone();
    if !same(&copy[body], &existing[body]) {
        set_field(&mut wanted, body, copy.get(body).cloned());
    }
    for field in ["labels", "annotations"] {
        let mut kept = copy["metadata"][field].clone();
        if let Value::Object(entries) = &mut kept {
            entries.retain(|name, _| !LOCAL.contains(&name.as_str()) && name != LAST_APPLIED);
        }
        if !includes(&existing["metadata"][field], &kept)
            && let Value::Object(entries) = kept
            && let Some(metadata) = wanted.get_mut("metadata")
        {
            map_mut(metadata, field).extend(entries);
        }
    }
    if !object::is_deleting(existing) {
        let there: Vec<&str> = finalizers(existing).collect();
        let missing: Vec<&str> = finalizers(copy).filter(|name| travels(name) && !there.contains(name)).collect();
        if !missing.is_empty() {
            metadata_mut(&mut wanted).insert("finalizers".to_owned(), json!([there, missing].concat()));
        }
    }
    replace(existing, wanted)
}

/// Agent: makes a copy again that someone deleted. `last` is how it was last seen, which has its status.
pub fn revert_deletion(agent: &AgentSide, kind: Kind, copy: &Value, last: &Value) -> Plan {
    let mut again = fresh(kind, copy);
    for name in LOCAL {
        match local_note(last, name) {
            Some(value) => object::set_annotation(&mut again, name, value),
            None => object::remove_annotation(&mut again, name),
        }
    }
    if kind == Kind::Application {
        set_field(&mut again, "status", last.get("status").cloned());
        set_field(&mut again, "operation", last.get("operation").cloned());
        match agent.on_recreate {
            OnRecreate::Ignore => {}
            OnRecreate::ClearStatus => {
                if let Some(Value::Object(status)) = again.get_mut("status") {
                    status.remove("operationState");
                }
            }
            OnRecreate::Resync => set_field(&mut again, "operation", Some(json!({ "sync": {} }))),
        }
    }
    Plan::Create(again)
}

/// Hub: undoes what someone changed on a mirror. `mirror` is what the API answered when it was last written.
///
/// What people may set on a mirror stays: an operation, a refresh, annotations and labels of their own.
pub fn revert_mirror(mirror: &Value, existing: &Value) -> Plan {
    let mut wanted = existing.clone();
    if !same(&mirror["spec"], &existing["spec"]) {
        set_field(&mut wanted, "spec", mirror.get("spec").cloned());
    }
    if let Some(source) = object::source_uid(mirror) {
        object::set_annotation(&mut wanted, SOURCE_UID, source);
    }
    // A deletion that waits for a finalizer would wait for ever: nothing on the hub removes it.
    if object::is_deleting(existing) {
        metadata_mut(&mut wanted).remove("finalizers");
    }
    replace(existing, wanted)
}

/// Hub: makes a mirror again that someone deleted; `last` is how it was last seen.
pub fn revert_mirror_deletion(kind: Kind, last: &Value) -> Plan {
    let mut again = fresh(kind, last);
    set_field(&mut again, "operation", None);
    object::remove_annotation(&mut again, OPERATION_ID);
    Plan::Create(again)
}
