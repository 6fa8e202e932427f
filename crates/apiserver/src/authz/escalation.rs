//! Nobody grants what they do not have: the check on writes of roles and bindings.

use serde_json::Value;

use super::rule::uncovered;
use super::{Action, MASTERS, RBAC_GROUP, Rule, RuleBook, User};
use crate::failure::{Failure, Result};
use crate::go;

/// A create or update of a role or binding, after defaulting and validation.
#[derive(Debug, Clone, Copy)]
pub struct RoleWrite<'a> {
    /// `roles`, `clusterroles`, `rolebindings` or `clusterrolebindings`.
    pub resource: &'a str,
    /// Name in the request's path; empty for a create.
    pub request_name: &'a str,
    /// What would be stored.
    pub object: &'a Value,
    /// What is stored, for an update.
    pub old: Option<&'a Value>,
}

/// Refuses a write by which the user would grant more than they hold; other resources pass.
pub fn escalation_errors(book: &RuleBook, user: &User, write: RoleWrite<'_>) -> Result<()> {
    if user.is_in(MASTERS) || write.old.is_some_and(|old| only_releases(old, write.object)) {
        return Ok(());
    }
    match write.resource {
        "roles" | "clusterroles" => role_errors(book, user, write),
        "rolebindings" | "clusterrolebindings" => binding_errors(book, user, write),
        _ => Ok(()),
    }
}

fn role_errors(book: &RuleBook, user: &User, write: RoleWrite<'_>) -> Result<()> {
    let namespace = text(write.object, "/metadata/namespace");
    let escalate = Action {
        verb: "escalate".into(),
        group: RBAC_GROUP.into(),
        version: "*".into(),
        resource: write.resource.into(),
        namespace: namespace.into(),
        name: write.request_name.into(),
        ..Action::default()
    };
    if book.decide(user, &escalate).allowed {
        return Ok(());
    }
    let name = text(write.object, "/metadata/name");
    let refuse = |why: &str| Failure::forbidden(RBAC_GROUP, write.resource, name, why);
    if let Some(why) = missing(book, user, namespace, &Rule::list(write.object)) {
        return Err(refuse(&why));
    }
    // An aggregation rule can gather anything, so setting, keeping or removing it takes full authority.
    let aggregates = write.resource == "clusterroles" && (gathers(write.object) || write.old.is_some_and(gathers));
    if aggregates && missing(book, user, namespace, &Rule::full_authority()).is_some() {
        return Err(refuse("must have cluster-admin privileges to use the aggregationRule"));
    }
    Ok(())
}

fn binding_errors(book: &RuleBook, user: &User, write: RoleWrite<'_>) -> Result<()> {
    let namespace = text(write.object, "/metadata/namespace");
    let (kind, role) = (text(write.object, "/roleRef/kind"), text(write.object, "/roleRef/name"));
    let resource = match kind {
        "ClusterRole" => "clusterroles",
        "Role" => "roles",
        other => return Err(Failure::internal(format!("unsupported role reference kind: {}", go::quoted(other)))),
    };
    let bind = Action {
        verb: "bind".into(),
        group: text(write.object, "/roleRef/apiGroup").into(),
        version: "*".into(),
        resource: resource.into(),
        namespace: namespace.into(),
        name: role.into(),
        ..Action::default()
    };
    if book.decide(user, &bind).allowed {
        return Ok(());
    }
    // Kubernetes names the resource of the request here, not that of the role.
    let Some(rules) = book.role(kind, namespace, role) else {
        return Err(Failure::not_found(RBAC_GROUP, write.resource, role));
    };
    match missing(book, user, namespace, rules) {
        Some(why) => Err(Failure::forbidden(RBAC_GROUP, write.resource, text(write.object, "/metadata/name"), &why)),
        None => Ok(()),
    }
}

/// What Kubernetes says when the user lacks some of the rules.
fn missing(book: &RuleBook, user: &User, namespace: &str, wanted: &[Rule]) -> Option<String> {
    let owned = book.rules_for(user, namespace);
    let missing = uncovered(&owned.rules, wanted);
    if missing.is_empty() {
        return None;
    }
    let mut lines = missing.iter().map(Rule::compact).collect::<Vec<_>>();
    lines.sort();
    lines.dedup();
    let mut message = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        go::quoted(&user.name),
        go::quoted_list(&user.groups),
        lines.join("\n")
    );
    if !owned.errors.is_empty() {
        message.push_str("; resolution errors: [");
        message.push_str(&super::joined(owned.errors));
        message.push(']');
    }
    Some(message)
}

/// Whether the change only touches what the garbage collector needs: owners and finalizers.
fn only_releases(old: &Value, new: &Value) -> bool {
    let bare = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("ownerReferences");
            metadata.remove("finalizers");
            metadata.remove("managedFields");
        }
        object
    };
    bare(old) == bare(new)
}

fn gathers(role: &Value) -> bool {
    role.pointer("/aggregationRule/clusterRoleSelectors").and_then(Value::as_array).is_some_and(|list| !list.is_empty())
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
