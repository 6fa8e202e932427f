//! What of a change is news to the other side.

use serde_json::Value;

use crate::mapping::same;
use crate::object::{self, Kind, LAST_APPLIED, LAST_UPDATED, NOTIFIED, OPERATION_ID, REFRESH};

/// Annotations that each side keeps for itself, or that travel on their own.
const OWN: [&str; 5] = [OPERATION_ID, LAST_UPDATED, NOTIFIED, REFRESH, LAST_APPLIED];

/// Hub: whether the agent's copy should change.
pub(crate) fn for_agent(kind: Kind, old: &Value, new: &Value) -> bool {
    let body = if kind == Kind::Repository { "data" } else { "spec" };
    !same(&old[body], &new[body]) || metadata(old, new) || wants_refresh(Some(old), new)
}

/// Hub: whether someone asks for a refresh who did not before.
pub(crate) fn wants_refresh(old: Option<&Value>, new: &Value) -> bool {
    let asked = object::annotation(new, REFRESH);
    asked.is_some() && asked != old.and_then(|old| object::annotation(old, REFRESH))
}

/// Managed agent: whether the hub should hear how an Application is.
pub(crate) fn for_hub(old: &Value, new: &Value) -> bool {
    let stamps = [REFRESH, OPERATION_ID];
    !same(&old["status"], &new["status"])
        || !same(&old["operation"], &new["operation"])
        || stamps.iter().any(|name| object::annotation(old, name) != object::annotation(new, name))
}

/// Autonomous agent: whether the hub's mirror should change.
pub(crate) fn as_source(old: &Value, new: &Value) -> bool {
    !same(&old["spec"], &new["spec"]) || for_hub(old, new) || metadata(old, new)
}

fn metadata(old: &Value, new: &Value) -> bool {
    let (old, new) = (&old["metadata"], &new["metadata"]);
    !same(&old["labels"], &new["labels"])
        || !same(&old["finalizers"], &new["finalizers"])
        || old["deletionTimestamp"].is_null() != new["deletionTimestamp"].is_null()
        || !same_annotations(&old["annotations"], &new["annotations"])
}

fn same_annotations(old: &Value, new: &Value) -> bool {
    let empty = serde_json::Map::new();
    let of = |value: &'_ Value| value.as_object().cloned().unwrap_or_else(|| empty.clone());
    let (mut old, mut new) = (of(old), of(new));
    for name in OWN {
        old.remove(name);
        new.remove(name);
    }
    old == new
}

/// Whether someone has just asked for the running operation to end.
pub(crate) fn terminates(old: &Value, new: &Value) -> bool {
    let phase = |app: &Value| app["status"]["operationState"]["phase"] == "Terminating";
    !phase(old) && phase(new)
}
