//! Field ownership for writes that are not applies.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::Value;

use super::{Target, owners, zero};
use crate::patch::fields::FieldSet;
use crate::patch::managed::{self, Managed, Owned, identity};
use crate::patch::typed::validate;

/// The most managers that are remembered for updates; the oldest are folded together.
const UPDATE_MANAGERS_MAX: usize = 10;

/// Keeps `managedFields` for a write that is not an apply: a create (`old` is `None`), update or patch.
///
/// `new` must be decoded and defaulted, and not yet changed by admission. Nothing about `managedFields` in a request is
/// an error: what cannot be used is ignored, as in Kubernetes.
pub(crate) fn track_update(target: &Target<'_>, old: Option<&Value>, new: &mut Value, manager: &str, now: Timestamp) {
    let mut ledger = current(target, old, new);
    managed::strip(new);
    tidy_metadata(new);
    // An object whose managers were reset stays without until the next apply.
    if ledger.owners.is_empty() && old.is_some() {
        return;
    }
    let live = match old {
        Some(old) => {
            let mut live = old.clone();
            managed::strip(&mut live);
            live
        }
        None => target.zero(),
    };
    let manager = if manager.is_empty() { "unknown" } else { manager };
    if update_owners(target, &live, new, &mut ledger, manager, now).is_ok() {
        cap(&mut ledger);
        ledger.encode_into(new);
    }
}

/// The managers before a write: those the request brings, if it brings any that can be read, else those of the old object.
fn current(target: &Target<'_>, old: Option<&Value>, new: &Value) -> Managed {
    let stored = || old.and_then(|old| Managed::decode(old).ok()).unwrap_or_default();
    if !target.subresource.is_empty() {
        return stored();
    }
    if managed::is_reset(new) {
        return Managed::default();
    }
    match Managed::decode(new) {
        Ok(ledger) if !ledger.owners.is_empty() => ledger,
        _ => stored(),
    }
}

/// Metadata goes through Go's types even for custom resources: empty is absent, and a label that is null is empty.
pub(super) fn tidy_metadata(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    metadata.retain(|_, value| match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Null => false,
        _ => true,
    });
    for name in ["labels", "annotations"] {
        let entries = metadata.get_mut(name).and_then(Value::as_object_mut);
        for (_, value) in entries.into_iter().flatten().filter(|(_, value)| value.is_null()) {
            *value = "".into();
        }
    }
}

/// Records a write under its manager. An error leaves the record as it was or incomplete: it must not be stored.
pub(super) fn update_owners(
    target: &Target<'_>,
    live: &Value,
    new: &Value,
    ledger: &mut Managed,
    manager: &str,
    now: Timestamp,
) -> std::result::Result<(), String> {
    // No real manager has this identity: what this write changes is first collected apart.
    const THIS_WRITE: &str = "current-operation";
    let shape = target.shape();
    let (live, new) = (&with_zeros(target, live), &with_zeros(target, new));
    for object in [new, live] {
        validate::validate(&shape, object, true).map_err(|errors| errors.to_string())?;
    }
    let owner = Owned {
        manager: manager.to_owned(),
        subresource: target.subresource.to_owned(),
        applied: false,
        api_version: target.api_version.to_owned(),
        set: FieldSet::new(),
    };
    let key = owner.identity();
    owners::update(target, live, new, &mut ledger.owners, THIS_WRITE, owner)?;
    strip_meta(ledger, THIS_WRITE);
    if let Some(mut written) = ledger.owners.remove(THIS_WRITE) {
        if let Some(before) = ledger.owners.get(&key) {
            written.set = written.set.union(&before.set);
        }
        ledger.owners.insert(key.clone(), written);
        ledger.times.insert(key, stamp(now));
    }
    Ok(())
}

/// A built-in object with what its Go type always shows, so that leaving it out is no change.
fn with_zeros(target: &Target<'_>, object: &Value) -> Value {
    fn fill(object: &mut Value, zero: &Value) {
        let (Some(fields), Value::Object(zeros)) = (object.as_object_mut(), zero) else { return };
        for (name, zero) in zeros {
            match fields.get_mut(name) {
                Some(value) => fill(value, zero),
                None => drop(fields.insert(name.clone(), zero.clone())),
            }
        }
    }
    let mut out = object.clone();
    if target.builtin {
        fill(&mut out, zero::zero(target.api_version, target.kind));
    }
    out
}

/// What every object has belongs to nobody.
pub(super) fn strip_meta(ledger: &mut Managed, key: &str) {
    static NOBODYS: LazyLock<FieldSet> = LazyLock::new(|| {
        FieldSet::of(&[
            "apiVersion",
            "kind",
            "metadata",
            "metadata.name",
            "metadata.namespace",
            "metadata.creationTimestamp",
            "metadata.selfLink",
            "metadata.uid",
            "metadata.clusterName",
            "metadata.generation",
            "metadata.managedFields",
            "metadata.resourceVersion",
        ])
    });
    let Some(owned) = ledger.owners.get_mut(key) else { return };
    owned.set = owned.set.difference(&NOBODYS);
    if owned.set.is_empty() {
        ledger.owners.remove(key);
    }
}

/// Folds the oldest update managers of each version together until few enough are left.
fn cap(ledger: &mut Managed) {
    let mut updaters =
        ledger.owners.iter().filter(|(_, owned)| !owned.applied).map(|(key, _)| key.clone()).collect::<Vec<_>>();
    let mut count = updaters.len();
    if count <= UPDATE_MANAGERS_MAX {
        return;
    }
    updaters.sort_by_key(|key| (ledger.seconds(key), key.clone()));
    let mut first_of_version = BTreeMap::<String, String>::new();
    for key in updaters {
        if count <= UPDATE_MANAGERS_MAX {
            return;
        }
        let Some(owned) = ledger.owners.get(&key).cloned() else { continue };
        let Some(first) = first_of_version.get(&owned.api_version).cloned() else {
            first_of_version.insert(owned.api_version, key);
            continue;
        };
        let bucket = identity("ancient-changes", false, &owned.api_version, "");
        let base = match ledger.owners.remove(&bucket) {
            Some(bucket) => bucket.set,
            None => ledger.owners.remove(&first).map(|first| first.set).unwrap_or_default(),
        };
        ledger.owners.remove(&key);
        let folded = Owned {
            manager: "ancient-changes".to_owned(),
            subresource: String::new(),
            applied: false,
            api_version: owned.api_version,
            set: owned.set.union(&base),
        };
        ledger.owners.insert(bucket.clone(), folded);
        count -= 1;
        match ledger.times.get(&key).cloned() {
            Some(time) => ledger.times.insert(bucket, time),
            None => ledger.times.remove(&bucket),
        };
    }
}

/// A time as `managedFields` has it.
pub(super) fn stamp(now: Timestamp) -> String {
    crate::time::seconds(now)
}
