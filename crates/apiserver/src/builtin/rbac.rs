//! Role, `ClusterRole` and their bindings.

use jiff::Timestamp;
use serde_json::Value;

use super::access::{each_mut, fill, fill_text, items, map_mut, present, same, text, texts};
use super::columns::{AGE, CREATED_AT, NAME, age, column, name, name_and_creation, wide};
use super::network_policy::selector_errors;
use super::tidy::tidy;
use super::{Column, Strategy};
use crate::field::{FieldError, Path};
use crate::names;
use crate::selector::Labels;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Role, or `ClusterRole` when not namespaced.
pub(super) struct Role {
    pub(super) namespaced: bool,
}

impl Strategy for Role {
    fn default(&self, object: &mut Value) {
        tidy(object);
        if let Some(object) = object.as_object_mut() {
            fill(object, "rules", Value::Null);
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for (at, rule) in items(object, "/rules").iter().enumerate() {
            errors.extend(rule_errors(rule, self.namespaced, &Path::new("rules").index(at)));
        }
        if let Some(aggregation) = present(object, "/aggregationRule").filter(|_| !self.namespaced) {
            let path = Path::new("aggregationRule.clusterRoleSelectors");
            let selectors = items(aggregation, "/clusterRoleSelectors");
            if selectors.is_empty() {
                let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
                errors.push(FieldError::required(&path, why));
            }
            for (at, selector) in selectors.iter().enumerate() {
                errors.extend(selector_errors(Some(selector), &path.index(at)));
                if Labels::from_object(Some(selector)).is_err() {
                    errors.push(FieldError::invalid(&path.index(at), Value::Null, "invalid label selector."));
                }
            }
        }
        errors
    }

    fn validate_update(&self, object: &Value, _old: &Value) -> Vec<FieldError> {
        twice(self.validate(object))
    }

    fn name_errors(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::path_segment(name, false)
    }

    fn columns(&self) -> &'static [Column] {
        const { &[NAME, CREATED_AT] }
    }

    fn cells(&self, object: &Value, _now: Timestamp) -> Vec<Value> {
        name_and_creation(object)
    }
}

/// Kubernetes checks a changed role both as a new one and as a change, and tells everything twice.
fn twice(errors: Vec<FieldError>) -> Vec<FieldError> {
    [errors.clone(), errors].concat()
}

fn rule_errors(rule: &Value, namespaced: bool, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let empty = |field: &str| items(rule, &format!("/{field}")).is_empty();
    if empty("verbs") {
        errors.push(FieldError::required(&path.child("verbs"), "verbs must contain at least one value"));
    }
    if !empty("nonResourceURLs") {
        let shown = texts(rule, "/nonResourceURLs");
        let path = path.child("nonResourceURLs");
        if namespaced {
            let why = "namespaced rules cannot apply to non-resource URLs";
            errors.push(FieldError::invalid(&path, shown.clone(), why));
        }
        if !empty("apiGroups") || !empty("resources") || !empty("resourceNames") {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(FieldError::invalid(&path, shown, why));
        }
        return errors;
    }
    if empty("apiGroups") {
        let why = "resource rules must supply at least one api group";
        errors.push(FieldError::required(&path.child("apiGroups"), why));
    }
    if empty("resources") {
        let why = "resource rules must supply at least one resource";
        errors.push(FieldError::required(&path.child("resources"), why));
    }
    errors
}

/// `RoleBinding`, or `ClusterRoleBinding` when not namespaced.
pub(super) struct Binding {
    pub(super) namespaced: bool,
}

impl Strategy for Binding {
    fn default(&self, object: &mut Value) {
        tidy(object);
        if let Some(role) = map_mut(object, "roleRef") {
            fill_text(role, "apiGroup", GROUP);
        }
        for subject in each_mut(object, "/subjects") {
            if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
                fill_text(subject, "apiGroup", GROUP);
            }
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let role = Path::new("roleRef");
        let mut errors = Vec::new();
        let group = text(object, "/roleRef/apiGroup");
        if group != GROUP {
            errors.push(FieldError::not_supported(&role.child("apiGroup"), group, &[GROUP]));
        }
        let kind = text(object, "/roleRef/kind");
        let kinds: &[&str] = if self.namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
        if !kinds.contains(&kind) {
            errors.push(FieldError::not_supported(&role.child("kind"), kind, kinds));
        }
        let path = role.child("name");
        match text(object, "/roleRef/name") {
            "" => errors.push(FieldError::required(&path, "")),
            name => errors
                .extend(names::path_segment(name, false).into_iter().map(|why| FieldError::invalid(&path, name, why))),
        }
        for (at, subject) in items(object, "/subjects").iter().enumerate() {
            errors.extend(subject_errors(subject, self.namespaced, &Path::new("subjects").index(at)));
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = twice(self.validate(object));
        if !same(object.get("roleRef"), old.get("roleRef")) {
            let shown = object.get("roleRef").cloned().unwrap_or_default();
            errors.push(FieldError::invalid(&Path::new("roleRef"), shown, "cannot change roleRef"));
        }
        errors
    }

    fn name_errors(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::path_segment(name, false)
    }

    fn columns(&self) -> &'static [Column] {
        const {
            &[
                NAME,
                column("Role", "The role that is granted."),
                AGE,
                wide("Users", "Users the role is granted to."),
                wide("Groups", "Groups the role is granted to."),
                wide("ServiceAccounts", "Service accounts the role is granted to."),
            ]
        }
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let role = format!("{}/{}", text(object, "/roleRef/kind"), text(object, "/roleRef/name"));
        let subjects = |kind: &str| {
            let of_kind = items(object, "/subjects").iter().filter(|subject| text(subject, "/kind") == kind);
            of_kind
                .map(|subject| match (kind, text(subject, "/namespace")) {
                    ("ServiceAccount", namespace) if !namespace.is_empty() => {
                        format!("{namespace}/{}", text(subject, "/name"))
                    }
                    ("ServiceAccount", _) => format!("/{}", text(subject, "/name")),
                    _ => text(subject, "/name").to_owned(),
                })
                .collect::<Vec<_>>()
                .join(", ")
        };
        vec![
            name(object),
            role.into(),
            age(object, now),
            subjects("User").into(),
            subjects("Group").into(),
            subjects("ServiceAccount").into(),
        ]
    }
}

fn subject_errors(subject: &Value, namespaced: bool, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (name, group) = (text(subject, "/name"), text(subject, "/apiGroup"));
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    match text(subject, "/kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                let why = names::dns_subdomain(name);
                errors.extend(why.into_iter().map(|why| FieldError::invalid(&path.child("name"), name, why)));
            }
            if !group.is_empty() {
                errors.push(FieldError::not_supported(&path.child("apiGroup"), group, &[""]));
            }
            if !namespaced && text(subject, "/namespace").is_empty() {
                errors.push(FieldError::required(&path.child("namespace"), ""));
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.push(FieldError::not_supported(&path.child("apiGroup"), group, &[GROUP]));
            }
        }
        kind => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(&path.child("kind"), kind, &kinds));
        }
    }
    errors
}
