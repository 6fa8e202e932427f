//! How an object becomes another one: made anew from it, or laid over what is there.

use serde_json::{Map, Value, json};

use super::wire;
use crate::object::{
    self, Kind, LAST_APPLIED, LAST_UPDATED, NAMESPACE_REMAPPED, NOTIFIED, OPERATION_ID, PRINCIPAL_UID, REFRESH,
    SOURCE_UID, metadata_mut,
};

/// Annotations that belong to whoever works on the object where it is.
pub(super) const LOCAL: [&str; 3] = [REFRESH, OPERATION_ID, NOTIFIED];
/// Annotations that say what a copy is a copy of.
const BOOKKEEPING: [&str; 5] = [SOURCE_UID, PRINCIPAL_UID, NAMESPACE_REMAPPED, LAST_UPDATED, LAST_APPLIED];
/// Finalizers that Argo CD's controller adds and removes where the Application is; what follows names a stage.
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
/// Fields that are copied by rules of their own. The type of a Secret cannot be changed.
const OWN_RULES: [&str; 9] =
    ["apiVersion", "kind", "metadata", "spec", "status", "operation", "data", "stringData", "type"];

/// The object as one that is about to be made: nothing of the API server it came from.
pub(super) fn fresh(kind: Kind, source: &Value) -> Value {
    let mut new = source.clone();
    let (api_version, kind) = wire::type_of(kind);
    set_field(&mut new, "apiVersion", Some(json!(api_version)));
    set_field(&mut new, "kind", Some(json!(kind)));
    let metadata = metadata_mut(&mut new);
    for name in SERVER_METADATA {
        metadata.remove(name);
    }
    let travelling: Vec<&str> = finalizers(source).filter(|name| travels(name)).collect();
    set_finalizers(metadata, &travelling);
    set_map(metadata, "labels", texts(source, "labels"));
    set_map(metadata, "annotations", texts(source, "annotations"));
    object::remove_annotation(&mut new, LAST_APPLIED);
    new
}

/// What is there with the labels, annotations, finalizers and unknown fields of what arrived.
pub(super) fn overlaid(incoming: &Value, existing: &Value) -> Value {
    let mut wanted = existing.clone();
    for (name, value) in incoming.as_object().into_iter().flatten() {
        if !OWN_RULES.contains(&name.as_str()) {
            set_field(&mut wanted, name, Some(value.clone()));
        }
    }
    let mut annotations = texts(incoming, "annotations");
    annotations.remove(LAST_APPLIED);
    annotations.remove(OPERATION_ID);
    for name in LOCAL {
        if let Some(value) = local_note(existing, name) {
            annotations.insert(name.to_owned(), json!(value));
        }
    }
    let metadata = metadata_mut(&mut wanted);
    set_map(metadata, "annotations", annotations);
    set_map(metadata, "labels", texts(incoming, "labels"));
    set_finalizers(metadata, &wanted_finalizers(incoming, existing));
    wanted
}

fn wanted_finalizers<'a>(incoming: &'a Value, existing: &'a Value) -> Vec<&'a str> {
    let there: Vec<&str> = finalizers(existing).collect();
    let deleting = object::is_deleting(existing);
    let wanted: Vec<&str> = finalizers(incoming)
        .filter(|name| travels(name))
        // No API server lets a finalizer be added to an object that is being deleted.
        .filter(|name| !deleting || there.contains(name))
        .collect();
    let kept = there.iter().filter(|name| !travels(name)).copied();
    wanted.iter().copied().chain(kept).collect()
}

/// One annotation even if it is empty: Argo CD takes an empty refresh for one.
pub(super) fn local_note<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][name].as_str()
}

/// Gives an object the refresh of another, or none.
pub(super) fn set_refresh(object: &mut Value, like: &Value) {
    match local_note(like, REFRESH) {
        Some(refresh) => object::set_annotation(object, REFRESH, refresh),
        None => object::remove_annotation(object, REFRESH),
    }
}

/// Labels, annotations and finalizers that an object and its copy have in common.
pub fn shared_metadata(object: &Value) -> Value {
    let mut annotations = texts(object, "annotations");
    annotations.retain(|name, _| !LOCAL.contains(&name.as_str()) && !BOOKKEEPING.contains(&name.as_str()));
    let mut held: Vec<&str> = finalizers(object).filter(|name| travels(name)).collect();
    held.sort_unstable();
    json!({ "labels": texts(object, "labels"), "annotations": annotations, "finalizers": held })
}

/// Where an Application is deployed to, but for its cluster: that one each side has its own name for.
pub fn shared_destination(app: &Value) -> Value {
    let mut destination = app["spec"]["destination"].as_object().cloned().unwrap_or_default();
    destination.retain(|field, value| field != "name" && field != "server" && !value.is_null());
    Value::Object(destination)
}

/// The finalizers of an object.
pub(super) fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Whether a finalizer means something on the other side too.
pub(super) fn travels(finalizer: &str) -> bool {
    !DELETION_FINALIZERS.contains(&finalizer) && !LOCAL_FINALIZERS.iter().any(|prefix| finalizer.starts_with(prefix))
}

/// The field that says what an object of that kind is to be.
pub(super) fn body_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Repository => "data",
        Kind::AppProject | Kind::Application => "spec",
    }
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

/// Sets the finalizers; none at all is no field, unless an empty one was there.
fn set_finalizers(metadata: &mut Map<String, Value>, finalizers: &[&str]) {
    if !finalizers.is_empty() {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    } else if metadata.get("finalizers").is_some_and(|there| *there != json!([])) {
        metadata.remove("finalizers");
    }
}

fn set_map(metadata: &mut Map<String, Value>, name: &str, entries: Map<String, Value>) {
    if !entries.is_empty() {
        metadata.insert(name.to_owned(), Value::Object(entries));
    } else if metadata.get(name).is_some_and(|there| *there != json!({})) {
        metadata.remove(name);
    }
}

fn texts(object: &Value, field: &str) -> Map<String, Value> {
    let entries = object["metadata"][field].as_object().into_iter().flatten();
    entries.filter(|(_, value)| value.is_string()).map(|(name, value)| (name.clone(), value.clone())).collect()
}
