//! Who may do what: RBAC over a snapshot of roles and bindings.

mod aggregate;
mod book;
mod escalation;
mod rule;
mod rules;

use std::collections::BTreeMap;

use crate::failure::{Details, Failure};
use crate::go;

pub use aggregate::aggregated_rules;
pub(crate) use book::joined;
pub use book::{RuleBook, RulesFor};
pub use escalation::{RoleWrite, escalation_errors};
pub use rule::Rule;
pub use rules::Rules;

/// Members may do everything, whatever the roles say.
pub const MASTERS: &str = "system:masters";

/// The API group of roles and bindings.
pub const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// Who makes a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// Such as `admin` or `system:serviceaccount:ns:name`.
    pub name: String,
    /// Uid, where one is known.
    pub uid: String,
    /// Groups, `system:authenticated` included.
    pub groups: Vec<String>,
    /// Whatever else the authenticator knows.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Whether the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

/// What a request wants to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Action {
    /// `get`, `list`, `create`, … or the HTTP method in lower case for a path.
    pub verb: String,
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Resource; empty when `path` is set.
    pub resource: String,
    /// Subresource.
    pub subresource: String,
    /// Namespace; empty for cluster-wide.
    pub namespace: String,
    /// Object name; empty for collections.
    pub name: String,
    /// A path that is no resource, such as `/healthz`.
    pub path: Option<String>,
}

/// Whether an action may happen, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// May happen.
    pub allowed: bool,
    /// Which binding allowed it, or which roles could not be found; often empty.
    pub reason: String,
}

/// The 403 for an action that was not allowed; `reason` is [`Decision::reason`].
pub fn forbidden(user: &User, action: &Action, reason: &str) -> Failure {
    let mut why = sanitised(&refusal(user, action));
    if !reason.is_empty() {
        why.push_str(": ");
        why.push_str(reason);
    }
    if action.resource.is_empty() || action.path.is_some() {
        let mut failure = Failure::new(403, "Forbidden", format!("forbidden: {why}"));
        failure.details = Some(Box::<Details>::default());
        return failure;
    }
    Failure::forbidden(&action.group, &action.resource, &action.name, &why)
}

fn refusal(user: &User, action: &Action) -> String {
    let (who, verb) = (go::quoted(&user.name), &action.verb);
    if let Some(path) = &action.path {
        return format!("User {who} cannot {verb} path {}", go::quoted(path));
    }
    let resource = go::quoted(&combined(action));
    let group = go::quoted(&action.group);
    if action.namespace.is_empty() {
        return format!("User {who} cannot {verb} resource {resource} in API group {group} at the cluster scope");
    }
    let namespace = go::quoted(&action.namespace);
    format!("User {who} cannot {verb} resource {resource} in API group {group} in the namespace {namespace}")
}

/// `pods/status`, or `pods` without a subresource.
fn combined(action: &Action) -> String {
    if action.subresource.is_empty() {
        action.resource.clone()
    } else {
        format!("{}/{}", action.resource, action.subresource)
    }
}

/// An error must not look like HTML to a browser.
pub(crate) fn sanitised(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
