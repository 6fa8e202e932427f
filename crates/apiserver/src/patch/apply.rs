//! Server-side apply, and field ownership for every other write.

mod conflict;
mod last_applied;
mod owners;
mod scale;
mod track;
mod zero;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fields::FieldSet;
use super::managed::{self, Managed, Owned};
use super::typed::{Shape, validate};
use crate::failure::{Failure, Result};
use crate::schema::Schema;
use conflict::Conflict;
pub(crate) use scale::{Replicas, SCALE_VERSION, scale_schema, scale_target};
pub(crate) use track::track_update;
use track::{stamp, strip_meta, tidy_metadata, update_owners};

/// The type, version and part of an object that a request writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
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
pub(crate) fn reset_fields(api_version: &str, kind: &str, has_status: bool, subresource: &str) -> FieldSet {
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
        if self.builtin { zero::zero(self.api_version, self.kind).clone() } else { self.bare() }
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
pub(crate) fn apply(
    target: &Target<'_>,
    live: Option<&Value>,
    applied: &Value,
    manager: &str,
    force: bool,
    now: Timestamp,
) -> Result<Value> {
    check_applied(target, applied)?;
    let internal = |message: String| Failure::new(500, "", message);
    let mut ledger = match live {
        Some(live) => {
            Managed::decode(live).map_err(|error| internal(format!("failed to decode managed fields: {error}")))?
        }
        None => Managed::default(),
    };
    let mut stripped = live.cloned().unwrap_or_else(|| target.bare());
    managed::strip(&mut stripped);
    if live.is_some() && ledger.owners.is_empty() {
        update_owners(target, &target.zero(), &stripped, &mut ledger, "before-first-apply", now)
            .map_err(|error| internal(format!("failed to create manager for existing fields: {error}")))?;
    }
    let attempt = |force| attempt(target, &stripped, applied, ledger.clone(), manager, force, now);
    let outcome = match attempt(force) {
        Err(Trouble::Conflicts(conflicts)) if manager == "kubectl" => {
            match last_applied::unresolved(target, &stripped, conflicts) {
                Ok(()) => attempt(true),
                Err(conflicts) => Err(Trouble::Conflicts(conflicts)),
            }
        }
        other => other,
    };
    let (mut object, ledger) = outcome.map_err(|trouble| match trouble {
        Trouble::Conflicts(conflicts) => conflict::failure(&conflicts),
        Trouble::Other(message) => internal(message),
    })?;
    if manager == "kubectl" {
        last_applied::refresh(&mut object, applied);
    }
    tidy_metadata(&mut object);
    ledger.encode_into(&mut object);
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
    mut ledger: Managed,
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
    let changed = owners::apply(target, live, applied, &mut ledger.owners, owner, force)?;
    strip_meta(&mut ledger, &key);
    match changed {
        Some(object) => {
            ledger.times.insert(key, stamp(now));
            Ok((object, ledger))
        }
        None => Ok((live.clone(), ledger)),
    }
}

#[cfg(test)]
mod tests;
