//! Who owns the number of replicas when it is written through the scale subresource.

use serde_json::Value;

use crate::patch::fields::{Element, FieldSet};
use crate::patch::managed::{Managed, Owned};

/// Keeps `managedFields` of an object whose replicas were changed through `/scale`. `replicas` is the path from its
/// definition, such as `.spec.replicas`. As in Kubernetes, who scales what nobody owned does not come to own it, and the
/// entry has no time.
pub(crate) fn track_scale(api_version: &str, old: &Value, new: &mut Value, replicas: &str, manager: &str) {
    let names = replicas.split('.').filter(|name| !name.is_empty()).collect::<Vec<_>>();
    let Ok(mut ledger) = Managed::decode(old) else { return };
    let value = |object: &Value| names.iter().try_fold(object, |at, name| at.get(name)).cloned();
    let path = names.iter().map(|name| Element::Field((*name).to_owned())).collect::<Vec<_>>();
    let mut only = FieldSet::new();
    only.insert(&path);
    let has_owner = ledger.owners.values().any(|owner| owner.set.has(&path));
    if has_owner && value(old) != value(new) {
        for owner in ledger.owners.values_mut() {
            owner.set = owner.set.difference(&only);
        }
        ledger.owners.retain(|_, owner| !owner.set.is_empty());
        let owner = Owned {
            manager: if manager.is_empty() { "unknown" } else { manager }.to_owned(),
            subresource: "scale".to_owned(),
            applied: false,
            api_version: api_version.to_owned(),
            set: only,
        };
        let key = owner.identity();
        ledger.times.remove(&key);
        ledger.owners.insert(key, owner);
    }
    ledger.encode_into(new);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::track_scale;

    fn scaled(entries: &Value, from: i64, to: i64) -> Value {
        let old = json!({"metadata": {"managedFields": entries}, "spec": {"replicas": from, "x": "y"}});
        let mut new = old.clone();
        new["spec"]["replicas"] = to.into();
        track_scale("e/v1", &old, &mut new, ".spec.replicas", "k");
        new["metadata"]["managedFields"].clone()
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads better with json! in place")]
    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "e/v1", "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    #[test]
    fn scaling_moves_the_replicas() {
        let replicas = json!({"f:spec": {"f:replicas": {}}});
        let mut k = entry("k", "Update", replicas.clone());
        k["subresource"] = "scale".into();
        let mut c1 = entry("c1", "Update", json!({"f:spec": {".": {}, "f:replicas": {}, "f:x": {}}}));
        c1["time"] = "2026-11-15T16:26:32Z".into();
        let mut c1_after = entry("c1", "Update", json!({"f:spec": {".": {}, "f:x": {}}}));
        c1_after["time"] = c1["time"].clone();
        let all = json!([entry("m1", "Apply", replicas), c1.clone()]);
        assert_eq!(scaled(&all, 1, 2), json!([k, c1_after.clone()]));
        assert_eq!(scaled(&json!([c1.clone()]), 2, 2), json!([c1]));
        assert_eq!(scaled(&json!([c1_after.clone()]), 1, 2), json!([c1_after]));
    }
}
