//! Which names a definition gets, and the conditions that say so.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::view::{strings, text};

/// Names other definitions of the same group have been given.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Names {
    /// Adds the accepted names of a definition, its `status.acceptedNames`.
    pub(crate) fn add(&mut self, names: &Value) {
        let of = |key: &str| text(names, key).unwrap_or_default().to_owned();
        self.resources.extend([of("plural"), of("singular")]);
        self.resources.extend(strings(names, "shortNames").into_iter().map(str::to_owned));
        self.kinds.extend([of("kind"), of("listKind")]);
    }
}

/// Writes the names a definition gets beside `others` and its conditions; returns whether anything changed.
///
/// Kubernetes leaves it at `Installing` until its handler is ready; call [`establish`] once it is.
pub(crate) fn accept(crd: &mut Value, others: &Names, now: Timestamp) -> bool {
    let requested = crd.pointer("/spec/names").cloned().unwrap_or_else(|| json!({}));
    let accepted = crd.pointer("/status/acceptedNames").cloned().unwrap_or_else(|| json!({}));
    let before = crd.get("status").cloned();
    let mut granted = accepted.clone();
    let mut conflict: Option<(&str, String)> = None;
    let singles =
        [("plural", "PluralConflict", &others.resources), ("singular", "SingularConflict", &others.resources)];
    let kinds = [("kind", "KindConflict", &others.kinds), ("listKind", "ListKindConflict", &others.kinds)];
    let mut single = |key: &str, reason: &'static str, used: &BTreeSet<String>, granted: &mut Value| {
        let wanted = text(&requested, key).unwrap_or_default();
        if wanted == text(&accepted, key).unwrap_or_default() || !used.contains(wanted) {
            granted[key] = wanted.into();
            return;
        }
        conflict = Some((reason, format!("{wanted:?} is already in use")));
    };
    for (key, reason, used) in singles {
        single(key, reason, used, &mut granted);
    }
    let taken = short_name_conflicts(&requested, &accepted, &others.resources);
    if taken.is_empty() {
        copy(&requested, &mut granted, "shortNames");
    }
    for (key, reason, used) in kinds {
        single(key, reason, used, &mut granted);
    }
    if conflict.is_none() && !taken.is_empty() {
        conflict = Some(("ShortNamesConflict", taken));
    }
    copy(&requested, &mut granted, "categories");
    let (status, reason, message) = match &conflict {
        Some((reason, message)) => ("False", *reason, message.as_str()),
        None => ("True", "NoConflicts", "no conflicts found"),
    };
    if !crd.get("status").is_some_and(Value::is_object) {
        crd["status"] = json!({});
    }
    crd["status"]["acceptedNames"] = granted;
    set(crd, "NamesAccepted", status, reason, message, now);
    if !is_true(crd, "Established") {
        if conflict.is_none() {
            set(crd, "Established", "False", "Installing", "the initial names have been accepted", now);
        } else if condition(crd, "Established").is_none() {
            set(crd, "Established", "False", "NotAccepted", "not all names are accepted", now);
        }
    }
    before.as_ref() != crd.get("status")
}

/// Marks a definition whose names are accepted as served; returns whether anything changed.
pub(crate) fn establish(crd: &mut Value, now: Timestamp) -> bool {
    if !is_true(crd, "NamesAccepted") || is_true(crd, "Established") {
        return false;
    }
    set(crd, "Established", "True", "InitialNamesAccepted", "the initial names have been accepted", now);
    true
}

fn short_name_conflicts(requested: &Value, accepted: &Value, used: &BTreeSet<String>) -> String {
    let ours = strings(accepted, "shortNames");
    let wanted = strings(requested, "shortNames").into_iter();
    let taken = wanted.filter(|name| !ours.contains(name) && used.contains(*name));
    let messages = taken.map(|name| format!("{name:?} is already in use")).collect::<Vec<_>>();
    match messages.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

fn copy(from: &Value, to: &mut Value, key: &str) {
    match from.get(key) {
        Some(value) => to[key] = value.clone(),
        None => {
            to.as_object_mut().map(|map| map.remove(key));
        }
    }
}

fn condition<'a>(crd: &'a Value, kind: &str) -> Option<&'a Value> {
    let list = crd.pointer("/status/conditions")?.as_array()?;
    list.iter().find(|condition| text(condition, "type") == Some(kind))
}

/// Whether a condition of the definition is `True`.
pub(super) fn is_true(crd: &Value, kind: &str) -> bool {
    condition(crd, kind).is_some_and(|condition| text(condition, "status") == Some("True"))
}

fn set(crd: &mut Value, kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) {
    let at = crate::time::seconds(now);
    let fresh = json!({
        "lastTransitionTime": at, "message": message, "reason": reason, "status": status, "type": kind,
    });
    let list = &mut crd["status"]["conditions"];
    if !list.is_array() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else { return };
    match list.iter_mut().find(|condition| text(condition, "type") == Some(kind)) {
        None => list.push(fresh),
        Some(known) => {
            let since = known.get("lastTransitionTime").cloned();
            let same = text(known, "status") == Some(status);
            *known = fresh;
            if let Some(since) = since.filter(|since| same && since.is_string()) {
                known["lastTransitionTime"] = since;
            }
        }
    }
}

/// Marks a definition whose deletion was asked for.
pub(crate) fn terminate(crd: &mut Value, now: Timestamp) {
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set(crd, "Terminating", "True", "InstanceDeletionPending", message, now);
}
