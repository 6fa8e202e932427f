//! What a new server holds before anyone asks: default roles and bindings, and the system's namespaces.

mod bindings;
mod controllers;
mod facts;
mod roles;

use serde_json::{Value, json};

use self::bindings::{CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS};
use self::controllers::CONTROLLER_ROLES;
use self::facts::{account, binding};
use self::roles::{CLUSTER_ROLES, ROLES};
use crate::authz::{Rule, aggregated_rules};

/// The namespaces every cluster has.
pub(crate) const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// The system's namespaces.
pub(crate) fn namespaces() -> Vec<Value> {
    let namespace = |name: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": { "name": name, "labels": { "kubernetes.io/metadata.name": name } },
            "spec": { "finalizers": ["kubernetes"] },
            "status": { "phase": "Active" },
        })
    };
    NAMESPACES.iter().map(|name| namespace(name)).collect()
}

/// The default cluster roles, aggregated ones with their rules.
pub(crate) fn cluster_roles() -> Vec<Value> {
    let people = CLUSTER_ROLES.iter().map(|role| role.to_value("ClusterRole", None, role.name));
    let controllers =
        CONTROLLER_ROLES.iter().map(|role| role.to_value("ClusterRole", None, &controller_name(role.name)));
    let mut all = people.chain(controllers).collect::<Vec<_>>();
    // `edit` takes up `view`, and `admin` takes up `edit`.
    for name in ["view", "edit", "admin"] {
        let Some(at) = all.iter().position(|role| role["metadata"]["name"] == name) else { continue };
        if let Some(rules) = aggregated_rules(&all[at], &all) {
            all[at]["rules"] = rules.into();
        }
    }
    all
}

/// The default bindings of cluster roles.
pub(crate) fn cluster_role_bindings() -> Vec<Value> {
    let people =
        CLUSTER_ROLE_BINDINGS.iter().map(|(name, subjects)| binding(None, name, ("ClusterRole", name), subjects));
    let controllers = CONTROLLER_ROLES.iter().map(|role| {
        let name = controller_name(role.name);
        binding(None, &name, ("ClusterRole", &name), &[account(role.name)])
    });
    people.chain(controllers).collect()
}

/// The default roles in `kube-system` and `kube-public`.
pub(crate) fn roles() -> Vec<Value> {
    ROLES.iter().map(|(namespace, role)| role.to_value("Role", Some(namespace), role.name)).collect()
}

/// The default bindings in `kube-system` and `kube-public`.
pub(crate) fn role_bindings() -> Vec<Value> {
    let bound = |(namespace, name, role, subjects): &(&str, &str, &str, &[facts::Subject])| {
        binding(Some(namespace), name, ("Role", role), subjects)
    };
    ROLE_BINDINGS.iter().map(bound).collect()
}

/// A stored default role or binding as it must be after an upgrade: rules and subjects it lacks are added, none is taken
/// away. `None` when nothing changes, or when someone switched the update off by its annotation.
pub(crate) fn reconciled(stored: &Value, wanted: &Value) -> Option<Value> {
    let annotation =
        stored.pointer("/metadata/annotations").and_then(|all| all.get("rbac.authorization.kubernetes.io/autoupdate"));
    if annotation.and_then(Value::as_str) == Some("false") {
        return None;
    }
    let mut object = stored.clone();
    if wanted.get("aggregationRule").is_some() {
        // The rules of an aggregated role come from its parts.
        object["aggregationRule"] = wanted["aggregationRule"].clone();
    } else {
        let known = Rule::list(stored);
        add_missing(&mut object, wanted, "rules", |item| !known.contains(&Rule::from_value(item)));
    }
    let subjects = stored.get("subjects").and_then(Value::as_array).cloned().unwrap_or_default();
    add_missing(&mut object, wanted, "subjects", |item| !subjects.contains(item));
    for map in ["labels", "annotations"] {
        for (key, value) in wanted["metadata"][map].as_object().into_iter().flatten() {
            if object["metadata"][map].get(key).is_none() {
                object["metadata"][map][key] = value.clone();
            }
        }
    }
    (object != *stored).then_some(object)
}

fn add_missing(object: &mut Value, wanted: &Value, key: &str, is_missing: impl Fn(&Value) -> bool) {
    let missing = wanted.get(key).and_then(Value::as_array).into_iter().flatten().filter(|item| is_missing(item));
    let missing = missing.cloned().collect::<Vec<_>>();
    if missing.is_empty() {
        return;
    }
    match object.get_mut(key).and_then(Value::as_array_mut) {
        Some(list) => list.extend(missing),
        None => object[key] = missing.into(),
    }
}

fn controller_name(name: &str) -> String {
    format!("system:controller:{name}")
}

#[cfg(test)]
mod tests;
