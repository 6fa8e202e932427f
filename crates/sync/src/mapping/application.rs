//! Copies of the hub's objects on an agent: made, kept in step, defended and deleted.

mod identity;

use serde_json::{Map, Value, json};

use self::identity::Decision;
use super::plan::{Plan, Precondition, Propagation, Reason, refuse, replace};
use super::same::{includes, same};
use super::{AgentSide, Mode, OnRecreate, keys, operation, wire};
use crate::object::{
    self, Key, Kind, LAST_APPLIED, NAMESPACE_REMAPPED, NOTIFIED, OPERATION_ID, PRINCIPAL_UID, REFRESH, SOURCE_UID,
    map_mut, metadata_mut,
};

/// Annotations that belong to whoever works on the object where it is.
const LOCAL: [&str; 3] = [REFRESH, OPERATION_ID, NOTIFIED];
/// Finalizers that Argo CD's controller adds and removes where the Application is.
const LOCAL_FINALIZERS: [&str; 2] =
    ["pre-delete-finalizer.argocd.argoproj.io", "post-delete-finalizer.argocd.argoproj.io"];
/// Finalizers of an API server, which belong to one deletion.
const DELETION_FINALIZERS: [&str; 2] = ["foregroundDeletion", "orphan"];
/// Metadata that only the API server an object is on can give it.
const SERVER_METADATA: [&str; 9] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "ownerReferences",
    "selfLink",
];

/// Agent: what to write when an Application arrives that is new or to be like this.
///
/// `principal_uid` is the hub's id, empty if it did not say; `event_id` identifies an operation that came along.
pub fn managed_application(
    agent: &AgentSide,
    incoming: &Value,
    principal_uid: &str,
    event_id: &str,
    existing: Option<&Value>,
) -> Plan {
    let key = match arrived(agent, Kind::Application, incoming) {
        Ok(key) => key,
        Err(plan) => return plan,
    };
    if !incoming["spec"].is_object() {
        return refuse(Reason::Invalid, format!("Application {} has no spec", key.name));
    }
    let copy = |source_uid: &str| application_copy(agent, &key, incoming, principal_uid, event_id, source_uid);
    let Some(existing) = existing else {
        return if object::is_deleting(incoming) {
            Plan::ConfirmGone
        } else {
            Plan::Create(copy(object::origin_uid(incoming)))
        };
    };
    if object::is_ignored(existing) {
        return Plan::Nothing;
    }
    match identity::decide(agent, incoming, principal_uid, existing) {
        Decision::Update => update(agent, incoming, principal_uid, event_id, existing, object::origin_uid(existing)),
        Decision::Adopt => {
            let source_uid =
                Some(object::origin_uid(incoming)).filter(|uid| !uid.is_empty()).or(object::source_uid(existing));
            update(agent, incoming, principal_uid, event_id, existing, source_uid.unwrap_or_default())
        }
        Decision::Recreate => recreate(incoming, existing, || copy(object::origin_uid(incoming))),
        Decision::Leave => {
            refuse(Reason::NotAdopted, format!("Application {} is there already and not to be taken over", key.name))
        }
    }
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
    let Some(source_uid) = object::source_uid(existing) else {
        return refuse(
            Reason::NotAdopted,
            format!("{} {} is not a copy of the hub's", kind.name(), object::name(existing)),
        );
    };
    let gone = object::origin_uid(incoming);
    // The one that is gone may have a successor here already.
    if !gone.is_empty() && gone != source_uid {
        return Plan::Nothing;
    }
    Plan::Delete(Precondition::of(existing), Propagation::Background)
}

/// Agent: undoes what someone changed on a copy. `copy` is what the API answered when the copy was last written, so
/// that what the API itself changes is not fought over.
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
            for name in LOCAL.into_iter().chain([LAST_APPLIED]) {
                entries.remove(name);
            }
        }
        if !includes(&existing["metadata"][field], &kept)
            && let Value::Object(entries) = kept
            && let Some(metadata) = wanted.get_mut("metadata")
        {
            map_mut(metadata, field).extend(entries);
        }
    }
    if !object::is_deleting(existing) {
        let missing: Vec<&str> = finalizers(copy)
            .filter(|name| !LOCAL_FINALIZERS.contains(name) && !finalizers(existing).any(|has| has == *name))
            .collect();
        if !missing.is_empty() {
            let all: Vec<&str> = finalizers(existing).chain(missing).collect();
            metadata_mut(&mut wanted).insert("finalizers".to_owned(), json!(all));
        }
    }
    replace(existing, wanted)
}

/// Agent: makes a copy again that someone deleted. `last` is how it was last seen, which has its status.
pub fn revert_deletion(agent: &AgentSide, kind: Kind, copy: &Value, last: &Value) -> Plan {
    let mut again = fresh(kind, copy);
    for name in [REFRESH, NOTIFIED, OPERATION_ID] {
        if let Some(value) = object::annotation(last, name) {
            object::set_annotation(&mut again, name, value);
        }
    }
    set_field(&mut again, "status", last.get("status").cloned());
    set_field(&mut again, "operation", last.get("operation").cloned());
    if kind == Kind::Application {
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

/// What of a kind is copied.
pub(super) struct Copied {
    pub(super) kind: Kind,
    pub(super) body: &'static str,
}

/// Agent: what to write when a project or a repository arrives.
pub(super) fn copy_of(agent: &AgentSide, what: Copied, incoming: &Value, existing: Option<&Value>) -> Plan {
    let key = match arrived(agent, what.kind, incoming) {
        Ok(key) => key,
        Err(plan) => return plan,
    };
    let uid = Some(object::uid(incoming)).filter(|uid| !uid.is_empty()).unwrap_or_else(|| object::origin_uid(incoming));
    let copy = || {
        let mut copy = fresh(what.kind, incoming);
        object::set_annotation(&mut copy, SOURCE_UID, uid);
        metadata_mut(&mut copy).insert("namespace".to_owned(), json!(key.namespace));
        set_field(&mut copy, "status", None);
        copy
    };
    let Some(existing) = existing else { return Plan::Create(copy()) };
    if object::is_ignored(existing) {
        return Plan::Nothing;
    }
    let known = object::source_uid(existing);
    if known != Some(uid) && !uid.is_empty() && identity::mismatch(agent, incoming) == super::Mismatch::Recreate {
        return recreate(incoming, existing, copy);
    }
    let mut wanted = overlaid(incoming, existing);
    set_field(&mut wanted, what.body, incoming.get(what.body).cloned());
    let stamp = if uid.is_empty() { known.unwrap_or_default() } else { uid };
    object::set_annotation(&mut wanted, SOURCE_UID, stamp);
    replace(existing, wanted)
}

/// The key here of what has arrived from the hub, at a managed agent.
fn arrived(agent: &AgentSide, kind: Kind, incoming: &Value) -> Result<Key, Plan> {
    if agent.mode != Mode::Managed {
        return Err(refuse(Reason::WrongMode, "the hub does not decide about objects of an autonomous agent"));
    }
    let key = keys::key_of(kind, incoming).and_then(|key| keys::agent_key(agent, &key))?;
    if object::is_ignored(incoming) { Err(Plan::Nothing) } else { Ok(key) }
}

fn recreate(incoming: &Value, existing: &Value, copy: impl FnOnce() -> Value) -> Plan {
    if object::is_deleting(existing) {
        return match object::is_deleting(incoming) {
            true => Plan::Nothing,
            false => {
                refuse(Reason::StillDeleting, format!("the old {} is still being deleted", object::name(existing)))
            }
        };
    }
    let delete = Precondition::of(existing);
    if object::is_deleting(incoming) {
        Plan::Delete(delete, Propagation::Background)
    } else {
        Plan::Recreate { delete, create: copy() }
    }
}

/// A new copy of an Application.
fn application_copy(
    agent: &AgentSide,
    key: &Key,
    incoming: &Value,
    principal_uid: &str,
    event_id: &str,
    source_uid: &str,
) -> Value {
    let mut copy = fresh(Kind::Application, incoming);
    set_field(&mut copy, "status", None);
    metadata_mut(&mut copy).insert("namespace".to_owned(), json!(key.namespace));
    object::remove_annotation(&mut copy, OPERATION_ID);
    rewrite_destination(&mut copy);
    stamp(agent, &mut copy, incoming, principal_uid, source_uid);
    if !incoming["operation"].is_null() {
        operation::set(&mut copy, incoming["operation"].clone(), event_id);
    }
    copy
}

/// The copy that is there, as it is to be.
fn update(
    agent: &AgentSide,
    incoming: &Value,
    principal_uid: &str,
    event_id: &str,
    existing: &Value,
    source_uid: &str,
) -> Plan {
    let mut wanted = overlaid(incoming, existing);
    set_field(&mut wanted, "spec", incoming.get("spec").cloned());
    rewrite_destination(&mut wanted);
    let principal = if principal_uid.is_empty() {
        object::annotation(existing, PRINCIPAL_UID).unwrap_or_default()
    } else {
        principal_uid
    };
    stamp(agent, &mut wanted, incoming, principal, source_uid);
    operation::set_carried(&mut wanted, existing, incoming, event_id);
    if object::is_deleting(incoming) && !object::is_deleting(existing) {
        return match replace(existing, wanted) {
            Plan::Replace(wanted) => Plan::ReplaceThenDelete(wanted, Propagation::Foreground),
            _ => Plan::Delete(Precondition::of(existing), Propagation::Foreground),
        };
    }
    replace(existing, wanted)
}

fn stamp(agent: &AgentSide, copy: &mut Value, incoming: &Value, principal_uid: &str, source_uid: &str) {
    for (name, value) in [(SOURCE_UID, source_uid), (PRINCIPAL_UID, principal_uid)] {
        if value.is_empty() {
            object::remove_annotation(copy, name);
        } else {
            object::set_annotation(copy, name, value);
        }
    }
    if keys::is_remapped(agent, object::namespace(incoming)) {
        object::set_annotation(copy, NAMESPACE_REMAPPED, "true");
    } else {
        object::remove_annotation(copy, NAMESPACE_REMAPPED);
    }
}

fn rewrite_destination(app: &mut Value) {
    if let Some(spec) = app.get_mut("spec") {
        let destination = map_mut(spec, "destination");
        destination.remove("server");
        destination.insert("name".to_owned(), json!("in-cluster"));
    }
}

/// What is there with the labels, annotations, finalizers and unknown fields of what arrived.
pub(super) fn overlaid(incoming: &Value, existing: &Value) -> Value {
    let mut wanted = existing.clone();
    if let Some(fields) = incoming.as_object() {
        for (name, value) in fields {
            if !matches!(
                name.as_str(),
                "apiVersion" | "kind" | "metadata" | "spec" | "status" | "operation" | "data" | "stringData"
            ) {
                set_field(&mut wanted, name, Some(value.clone()));
            }
        }
    }
    let mut annotations = texts(incoming, "annotations");
    annotations.remove(LAST_APPLIED);
    annotations.remove(OPERATION_ID);
    for name in LOCAL {
        if let Some(value) = object::annotation(existing, name) {
            annotations.insert(name.to_owned(), json!(value));
        }
    }
    let finalizers: Vec<&str> = wanted_finalizers(incoming, existing);
    let metadata = metadata_mut(&mut wanted);
    set_map(metadata, "annotations", annotations);
    set_map(metadata, "labels", texts(incoming, "labels"));
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    wanted
}

fn wanted_finalizers<'a>(incoming: &'a Value, existing: &'a Value) -> Vec<&'a str> {
    let there: Vec<&str> = finalizers(existing).collect();
    let local = |name: &&str| LOCAL_FINALIZERS.iter().any(|prefix| name.starts_with(prefix));
    let deleting = object::is_deleting(existing);
    let mut wanted: Vec<&str> = finalizers(incoming)
        .filter(|name| !DELETION_FINALIZERS.contains(name))
        // No API server lets a finalizer be added to an object that is being deleted.
        .filter(|name| !deleting || there.contains(name))
        .collect();
    for name in there {
        if (local(&name) || DELETION_FINALIZERS.contains(&name)) && !wanted.contains(&name) {
            wanted.push(name);
        }
    }
    wanted
}

/// The object as one that is about to be made: nothing of the API server it came from.
pub(super) fn fresh(kind: Kind, source: &Value) -> Value {
    let mut new = source.clone();
    let (api_version, kind) = wire::type_of(kind);
    set_field(&mut new, "apiVersion", Some(json!(api_version)));
    set_field(&mut new, "kind", Some(json!(kind)));
    let finalizers: Vec<&str> = finalizers(source)
        .filter(|name| {
            !DELETION_FINALIZERS.contains(name) && !LOCAL_FINALIZERS.iter().any(|prefix| name.starts_with(prefix))
        })
        .collect();
    let metadata = metadata_mut(&mut new);
    for name in SERVER_METADATA {
        metadata.remove(name);
    }
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    set_map(metadata, "labels", texts(source, "labels"));
    set_map(metadata, "annotations", texts(source, "annotations"));
    object::remove_annotation(&mut new, LAST_APPLIED);
    new
}

/// The field that says what an object of that kind is to be.
pub(super) fn body_of(kind: Kind) -> &'static str {
    if kind == Kind::Repository { "data" } else { "spec" }
}

/// Sets a field of an object, or removes it.
pub(super) fn set_field(object: &mut Value, name: &str, value: Option<Value>) {
    if let Value::Object(fields) = object {
        match value {
            Some(value) => fields.insert(name.to_owned(), value),
            None => fields.remove(name),
        };
    }
}

fn set_map(metadata: &mut Map<String, Value>, name: &str, entries: Map<String, Value>) {
    if entries.is_empty() {
        metadata.remove(name);
    } else {
        metadata.insert(name.to_owned(), Value::Object(entries));
    }
}

fn texts(object: &Value, field: &str) -> Map<String, Value> {
    let entries = object["metadata"][field].as_object();
    entries
        .into_iter()
        .flatten()
        .filter(|(_, value)| value.is_string())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}
