//! Who owns the number of replicas when it is written through the scale subresource.
//!
//! A scale has managers of its own: those of the object that own its replicas. After a write of the scale they are
//! taken back. As in Kubernetes, who comes to own the replicas that way has no time.

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::Target;
use crate::patch::fields::{Element, FieldSet};
use crate::patch::managed::{Managed, Owned};
use crate::schema::{self, Schema};

/// Of which version a scale is.
pub(crate) const SCALE_VERSION: &str = "autoscaling/v1";

static SCHEMA: LazyLock<Arc<Schema>> =
    LazyLock::new(|| schema::builtin("io.k8s.api.autoscaling.v1.Scale").unwrap_or_default());
static NOTHING: LazyLock<FieldSet> = LazyLock::new(FieldSet::new);

/// The schema of a scale.
pub(crate) fn scale_schema() -> &'static Arc<Schema> {
    &SCHEMA
}

/// A scale as the target of a write.
pub(crate) fn scale_target() -> Target<'static> {
    Target {
        schema: &SCHEMA,
        api_version: SCALE_VERSION,
        kind: "Scale",
        builtin: false,
        subresource: "scale",
        reset: &NOTHING,
        other_versions: &[],
    }
}

/// The replicas of an object: in which versions, and where.
pub(crate) struct Replicas<'a> {
    /// The object's version.
    pub api_version: &'a str,
    /// Other served versions of it.
    pub other_versions: &'a [(String, Arc<Schema>)],
    /// Names leading to the replicas.
    pub path: &'a [String],
}

impl Replicas<'_> {
    fn knows(&self, version: &str) -> bool {
        version == self.api_version || self.other_versions.iter().any(|(other, _)| other == version)
    }

    fn path(&self) -> Vec<Element> {
        self.path.iter().map(|name| Element::Field(name.clone())).collect()
    }

    /// Gives the scale of `object` those managers that own the replicas.
    pub(crate) fn to_scale(&self, object: &Value, scale: &mut Value) -> Result<(), String> {
        let parents = Managed::decode(object)?;
        let path = self.path();
        let mut managed = Managed::default();
        for (key, owner) in parents.owners {
            if self.knows(&owner.api_version) && owner.set.has(&path) {
                let owner =
                    Owned { api_version: SCALE_VERSION.to_owned(), set: FieldSet::of(&["spec.replicas"]), ..owner };
                let identity = owner.identity();
                if let Some(time) = parents.times.get(&key) {
                    managed.times.insert(identity.clone(), time.clone());
                }
                managed.owners.insert(identity, owner);
            }
        }
        managed.encode_into(scale);
        Ok(())
    }

    /// Gives `new`, whose scale was written, the managers of `old` and of the written scale.
    pub(crate) fn to_parent(&self, old: &Value, scale: &Value, new: &mut Value) -> Result<(), String> {
        let (parents, mut scales) = (Managed::decode(old)?, Managed::decode(scale)?);
        let path = self.path();
        let mut only = FieldSet::new();
        only.insert(&path);
        let mut managed = Managed::default();
        let mut keep = |key: &str, owner: Owned| {
            if let Some(time) = parents.times.get(key) {
                managed.times.insert(key.to_owned(), time.clone());
            }
            managed.owners.insert(key.to_owned(), owner);
        };
        for (key, owner) in &parents.owners {
            if !self.knows(&owner.api_version) {
                continue;
            }
            if !owner.set.has(&path) || scales.owners.remove(key).is_some() {
                keep(key, owner.clone());
            } else {
                let set = owner.set.difference(&only);
                if !set.is_empty() {
                    keep(key, Owned { set, ..owner.clone() });
                }
            }
        }
        let replicas = FieldSet::of(&["spec.replicas"]).paths().into_iter().next().unwrap_or_default();
        for (key, owner) in scales.owners.into_iter().filter(|(_, owner)| owner.set.has(&replicas)) {
            keep(&key, Owned { api_version: self.api_version.to_owned(), set: only.clone(), ..owner });
        }
        managed.encode_into(new);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::{Replicas, scale_target};
    use crate::patch::apply::{apply, track_update};

    const PATH: &[&str] = &["spec", "replicas"];

    /// The managers after `write` has made a scale of so many replicas out of the old one.
    fn scaled(entries: &Value, from: i64, write: impl FnOnce(&Value) -> Value) -> Value {
        let old = json!({"metadata": {"managedFields": entries}, "spec": {"replicas": from, "x": "y"}});
        let path = PATH.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let replicas = Replicas { api_version: "e/v1", other_versions: &[], path: &path };
        let mut scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {}, "spec": {"replicas": from}, "status": {"replicas": 0}});
        replicas.to_scale(&old, &mut scale).unwrap();
        let mut new = old.clone();
        replicas.to_parent(&old, &write(&scale), &mut new).unwrap();
        new["metadata"].get("managedFields").cloned().unwrap_or_default()
    }

    fn update(to: i64) -> impl FnOnce(&Value) -> Value {
        move |old| {
            let mut new = old.clone();
            new["spec"]["replicas"] = to.into();
            track_update(&scale_target(), Some(old), &mut new, "k", Timestamp::UNIX_EPOCH);
            new
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads better with json! in place")]
    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "e/v1", "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    fn replicas() -> Value {
        json!({"f:spec": {"f:replicas": {}}})
    }

    #[test]
    fn scaling_moves_the_replicas() {
        let mut k = entry("k", "Update", replicas());
        k["subresource"] = "scale".into();
        let mut c1 = entry("c1", "Update", json!({"f:spec": {".": {}, "f:replicas": {}, "f:x": {}}}));
        c1["time"] = "2026-11-15T16:26:32Z".into();
        let mut c1_after = entry("c1", "Update", json!({"f:spec": {".": {}, "f:x": {}}}));
        c1_after["time"] = c1["time"].clone();
        let all = json!([entry("m1", "Apply", replicas()), c1.clone()]);
        assert_eq!(scaled(&all, 1, update(2)), json!([k, c1_after.clone()]));
        assert_eq!(scaled(&json!([c1_after.clone()]), 1, update(2)), json!([c1_after]), "who scales what nobody owned");
    }

    #[test]
    fn applying_a_scale_takes_the_replicas_or_conflicts() {
        let wanted = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "x"}, "spec": {"replicas": 4}});
        let m1 = json!([entry("m1", "Apply", replicas())]);
        let forced = scaled(&m1, 1, |old| {
            let refused = apply(&scale_target(), Some(old), &wanted, "m2", false, Timestamp::UNIX_EPOCH);
            assert_eq!(refused.unwrap_err().reason, "Conflict");
            apply(&scale_target(), Some(old), &wanted, "m2", true, Timestamp::UNIX_EPOCH).unwrap()
        });
        let mut m2 = entry("m2", "Apply", replicas());
        m2["subresource"] = "scale".into();
        assert_eq!(forced, json!([m2]));
        let again = scaled(&forced, 4, |old| {
            apply(&scale_target(), Some(old), &wanted, "m2", false, Timestamp::UNIX_EPOCH).unwrap()
        });
        assert_eq!(again, forced);
    }
}
