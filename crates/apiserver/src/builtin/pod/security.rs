//! What may be wrong with security contexts.

use serde_json::Value;

use super::super::access::{flag, items, present, texts};
use crate::field::{FieldError, Path};
use crate::names;

const ID_MAX: i64 = i32::MAX as i64;

/// Checks the context of a pod.
pub(super) fn pod(pod: &Value, path: &Path) -> Vec<FieldError> {
    let Some(context) = present(pod, "/spec/securityContext") else { return Vec::new() };
    let mut errors = ids(context, &["fsGroup", "runAsUser", "runAsGroup"], path);
    for (at, group) in items(context, "/supplementalGroups").iter().enumerate() {
        errors.extend(id(group, &path.child("supplementalGroups").index(at)));
    }
    errors
}

/// Checks the context of a container.
pub(super) fn container(container: &Value, path: &Path) -> Vec<FieldError> {
    let Some(context) = present(container, "/securityContext") else { return Vec::new() };
    let mut errors = ids(context, &["runAsUser", "runAsGroup"], path);
    if context.get("allowPrivilegeEscalation") == Some(&Value::Bool(false)) {
        if flag(context, "/privileged") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.push(FieldError::invalid(path, context.clone(), why));
        }
        if texts(context, "/capabilities/add").contains(&"CAP_SYS_ADMIN") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(FieldError::invalid(path, context.clone(), why));
        }
    }
    errors
}

fn ids(context: &Value, fields: &[&str], path: &Path) -> Vec<FieldError> {
    fields.iter().filter_map(|field| id(context.get(field)?, &path.child(field))).collect()
}

fn id(value: &Value, path: &Path) -> Option<FieldError> {
    let number = value.as_i64().filter(|number| !(0..=ID_MAX).contains(number))?;
    Some(FieldError::invalid(path, number, names::between(0, ID_MAX)))
}
