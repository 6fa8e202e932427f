//! Server-side apply, and field ownership for every other write.

mod conflict;
mod last_applied;
mod owners;
mod zero;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fields::FieldSet;
use super::managed::{self, Managed, Owned, identity};
use super::typed::{Shape, validate};
use crate::failure::{Failure, Result};
use crate::schema::Schema;
use conflict::Conflict;

/// The most managers that are remembered for updates; the oldest are folded together.
const UPDATE_MANAGERS_MAX: usize = 10;

/// The type, version and part of an object that a request writes.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The schema of the version that the request uses.
    pub schema: &'a Arc<Schema>,
    /// `group/version` (or `v1`) of the request.
    pub api_version: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// A kind of Kubernetes itself and not of a `CustomResourceDefinition`.
    pub builtin: bool,
    /// The subresource written, such as `status`; empty for the object itself.
    pub subresource: &'a str,
    /// Fields that the request may not change and therefore cannot own; see [`reset_fields`].
    pub reset: &'a FieldSet,
    /// Other served versions of the same kind whose objects differ in nothing but `apiVersion`.
    pub other_versions: &'a [(String, Arc<Schema>)],
}

/// Why an operation on owners failed.
enum Trouble {
    Conflicts(Vec<Conflict>),
    Other(String),
}

impl From<String> for Trouble {
    fn from(message: String) -> Self {
        Self::Other(message)
    }
}

/// The fields a write of `subresource` leaves as they are, for [`Target::reset`].
pub fn reset_fields(api_version: &str, kind: &str, has_status: bool, subresource: &str) -> FieldSet {
    match (api_version, kind, subresource) {
        (_, _, "") if has_status => FieldSet::of(&["status"]),
        ("v1", "Pod", "status") => FieldSet::of(&["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"]),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "status") => FieldSet::of(&["metadata", "spec"]),
        ("v1", "Namespace", "finalize") => FieldSet::of(&["status"]),
        (_, _, "status") => FieldSet::of(&["spec"]),
        _ => FieldSet::new(),
    }
}

impl Target<'_> {
    fn shape(&self) -> Shape {
        Shape::root(self.schema, self.builtin)
    }

    /// The shape of objects in another version, if that version is served.
    fn shape_in(&self, api_version: &str) -> Option<Shape> {
        if api_version == self.api_version {
            return Some(self.shape());
        }
        let (_, schema) = self.other_versions.iter().find(|(version, _)| version == api_version)?;
        Some(Shape::root(schema, self.builtin))
    }

    fn group_kind(&self) -> String {
        show_kind(self.api_version, self.kind)
    }

    /// An object of this type before anything is set.
    fn zero(&self) -> Value {
        if self.builtin { zero::zero(self.api_version, self.kind) } else { self.bare() }
    }

    fn bare(&self) -> Value {
        json!({"apiVersion": self.api_version, "kind": self.kind})
    }
}

/// `group/version, Kind=kind`, where a malformed apiVersion shows as nothing.
fn show_kind(api_version: &str, kind: &str) -> String {
    match api_version.split('/').collect::<Vec<_>>().as_slice() {
        [version] => format!("/{version}, Kind={kind}"),
        [group, version] => format!("{group}/{version}, Kind={kind}"),
        _ => "/, Kind=".to_owned(),
    }
}

/// Applies a configuration to the live object, or to nothing. The result carries its `managedFields`; where nothing
/// changes it equals the live object.
pub fn apply(
    target: &Target<'_>,
    live: Option<&Value>,
    applied: &Value,
    manager: &str,
    force: bool,
    now: Timestamp,
) -> Result<Value> {
    check_applied(target, applied)?;
    let internal = |message: String| Failure::new(500, "", message);
    let mut managed = match live {
        Some(live) => {
            Managed::decode(live).map_err(|error| internal(format!("failed to decode managed fields: {error}")))?
        }
        None => Managed::default(),
    };
    let mut stripped = live.cloned().unwrap_or_else(|| target.bare());
    managed::strip(&mut stripped);
    if live.is_some() && managed.owners.is_empty() {
        update_owners(target, &target.zero(), &stripped, &mut managed, "before-first-apply", now)
            .map_err(|error| internal(format!("failed to create manager for existing fields: {error}")))?;
    }
    let attempt = |force| attempt(target, &stripped, applied, managed.clone(), manager, force, now);
    let outcome = match attempt(force) {
        Err(Trouble::Conflicts(conflicts)) if manager == "kubectl" => {
            match last_applied::unresolved(target, &stripped, conflicts) {
                Ok(()) => attempt(true),
                Err(conflicts) => Err(Trouble::Conflicts(conflicts)),
            }
        }
        other => other,
    };
    let (mut object, managed) = outcome.map_err(|trouble| match trouble {
        Trouble::Conflicts(conflicts) => conflict::failure(&conflicts),
        Trouble::Other(message) => internal(message),
    })?;
    if manager == "kubectl" {
        last_applied::refresh(&mut object, applied);
    }
    tidy_metadata(&mut object);
    managed.encode_into(&mut object);
    Ok(object)
}

fn check_applied(target: &Target<'_>, applied: &Value) -> Result<()> {
    let text = |name: &str| applied.get(name).and_then(Value::as_str).unwrap_or_default();
    let shown = match (text("apiVersion"), text("kind")) {
        ("", kind) => format!("/, Kind={kind}"),
        (api_version, kind) => show_kind(api_version, kind),
    };
    if shown != target.group_kind() {
        return Err(Failure::bad_request(format!("invalid object type: {shown}")));
    }
    if managed::field_of(applied).is_some_and(Value::is_array) {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    Ok(())
}

/// `namespace/name; group/version, Kind=kind`
fn named(target: &Target<'_>, object: &Value) -> String {
    let text = |name: &str| object.pointer(&format!("/metadata/{name}")).and_then(Value::as_str).unwrap_or_default();
    format!("{}/{}; {}", text("namespace"), text("name"), target.group_kind())
}

/// One try: the new object without its `managedFields`, and its managers.
fn attempt(
    target: &Target<'_>,
    live: &Value,
    applied: &Value,
    mut managed: Managed,
    manager: &str,
    force: bool,
    now: Timestamp,
) -> std::result::Result<(Value, Managed), Trouble> {
    let shape = target.shape();
    validate::validate(&shape, applied, false)
        .map_err(|errors| format!("failed to create typed patch object ({}): {errors}", named(target, applied)))?;
    validate::validate(&shape, live, true)
        .map_err(|errors| format!("failed to create typed live object ({}): {errors}", named(target, live)))?;
    let name = if manager.is_empty() { "unknown" } else { manager };
    let owner = Owned {
        manager: name.to_owned(),
        subresource: target.subresource.to_owned(),
        applied: true,
        api_version: target.api_version.to_owned(),
        set: FieldSet::new(),
    };
    let key = owner.identity();
    let changed = owners::apply(target, live, applied, &mut managed.owners, owner, force)?;
    strip_meta(&mut managed, &key);
    match changed {
        Some(object) => {
            managed.times.insert(key, stamp(now));
            Ok((object, managed))
        }
        None => Ok((live.clone(), managed)),
    }
}

/// Keeps `managedFields` for a write that is not an apply: a create (`old` is `None`), update or patch.
///
/// `new` must be decoded and defaulted, and not yet changed by admission. Nothing about `managedFields` in a request is
/// an error: what cannot be used is ignored, as in Kubernetes.
pub fn track_update(target: &Target<'_>, old: Option<&Value>, new: &mut Value, manager: &str, now: Timestamp) {
    let mut managed = current(target, old, new);
    managed::strip(new);
    tidy_metadata(new);
    // An object whose managers were reset stays without until the next apply.
    if managed.owners.is_empty() && old.is_some() {
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
    if update_owners(target, &live, new, &mut managed, manager, now).is_ok() {
        cap(&mut managed);
        managed.encode_into(new);
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
        Ok(managed) if !managed.owners.is_empty() => managed,
        _ => stored(),
    }
}

/// Metadata goes through Go's types even for custom resources: empty is absent, and a label that is null is empty.
fn tidy_metadata(object: &mut Value) {
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

fn update_owners(
    target: &Target<'_>,
    live: &Value,
    new: &Value,
    managed: &mut Managed,
    manager: &str,
    now: Timestamp,
) -> std::result::Result<(), String> {
    // No real manager has this identity: what this write changes is first collected apart.
    const THIS_WRITE: &str = "current-operation";
    let shape = target.shape();
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
    owners::update(target, live, new, &mut managed.owners, THIS_WRITE, owner)?;
    strip_meta(managed, THIS_WRITE);
    if let Some(mut written) = managed.owners.remove(THIS_WRITE) {
        if let Some(before) = managed.owners.get(&key) {
            written.set = written.set.union(&before.set);
        }
        managed.owners.insert(key.clone(), written);
        managed.times.insert(key, stamp(now));
    }
    Ok(())
}

/// What every object has belongs to nobody.
fn strip_meta(managed: &mut Managed, key: &str) {
    let Some(owned) = managed.owners.get_mut(key) else { return };
    owned.set = owned.set.difference(&FieldSet::of(&[
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
    ]));
    if owned.set.is_empty() {
        managed.owners.remove(key);
    }
}

/// Folds the oldest update managers of each version together until few enough are left.
fn cap(managed: &mut Managed) {
    let mut updaters =
        managed.owners.iter().filter(|(_, owned)| !owned.applied).map(|(key, _)| key.clone()).collect::<Vec<_>>();
    let mut count = updaters.len();
    if count <= UPDATE_MANAGERS_MAX {
        return;
    }
    updaters.sort_by_key(|key| (managed.seconds(key), key.clone()));
    let mut first_of_version = std::collections::BTreeMap::<String, String>::new();
    for key in updaters {
        if count <= UPDATE_MANAGERS_MAX {
            return;
        }
        let Some(owned) = managed.owners.get(&key).cloned() else { continue };
        let Some(first) = first_of_version.get(&owned.api_version).cloned() else {
            first_of_version.insert(owned.api_version, key);
            continue;
        };
        let bucket = identity("ancient-changes", false, &owned.api_version, "");
        let base = match managed.owners.remove(&bucket) {
            Some(bucket) => bucket.set,
            None => managed.owners.remove(&first).map(|first| first.set).unwrap_or_default(),
        };
        managed.owners.remove(&key);
        let folded = Owned {
            manager: "ancient-changes".to_owned(),
            subresource: String::new(),
            applied: false,
            api_version: owned.api_version,
            set: owned.set.union(&base),
        };
        managed.owners.insert(bucket.clone(), folded);
        count -= 1;
        match managed.times.get(&key).cloned() {
            Some(time) => managed.times.insert(bucket, time),
            None => managed.times.remove(&bucket),
        };
    }
}

fn stamp(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests;
