//! The notation of the tables of default roles.

use serde_json::{Value, json};

use crate::authz::RBAC_GROUP;

pub(super) const READ: &str = "get,list,watch";
pub(super) const WRITE: &str = "create,delete,deletecollection,patch,update";
pub(super) const READ_WRITE: &str = "create,delete,deletecollection,get,list,patch,update,watch";
pub(super) const READ_UPDATE: &str = "get,list,patch,update,watch";
/// What writing events takes.
pub(super) const RECORD: &str = "create,patch,update";

/// One rule; lists are written with commas, and an empty group is core.
pub(super) struct Rule {
    verbs: &'static str,
    target: Target,
}

enum Target {
    Resources { groups: &'static str, resources: &'static str, names: Option<&'static str> },
    Paths(&'static str),
}

/// A role, and its place in the aggregation.
pub(super) struct Role {
    pub(super) name: &'static str,
    rules: &'static [Rule],
    /// The aggregated role that takes up this one's rules.
    part_of: Option<&'static str>,
    /// The aggregate this role gathers; its rules come from there.
    gathers: Option<&'static str>,
}

/// Whom a role is bound to.
pub(super) enum Subject {
    User(&'static str),
    Group(&'static str),
    /// A service account in `kube-system`.
    Account(&'static str),
}

pub(super) const fn on(verbs: &'static str, groups: &'static str, resources: &'static str) -> Rule {
    Rule { verbs, target: Target::Resources { groups, resources, names: None } }
}

pub(super) const fn named(
    verbs: &'static str,
    groups: &'static str,
    resources: &'static str,
    names: &'static str,
) -> Rule {
    Rule { verbs, target: Target::Resources { groups, resources, names: Some(names) } }
}

pub(super) const fn paths(verbs: &'static str, paths: &'static str) -> Rule {
    Rule { verbs, target: Target::Paths(paths) }
}

pub(super) const fn role(name: &'static str, rules: &'static [Rule]) -> Role {
    Role { name, rules, part_of: None, gathers: None }
}

pub(super) const fn user(name: &'static str) -> Subject {
    Subject::User(name)
}

pub(super) const fn group(name: &'static str) -> Subject {
    Subject::Group(name)
}

pub(super) const fn account(name: &'static str) -> Subject {
    Subject::Account(name)
}

impl Role {
    pub(super) const fn part_of(self, aggregate: &'static str) -> Self {
        Self { part_of: Some(aggregate), ..self }
    }

    pub(super) const fn gathering(self, aggregate: &'static str) -> Self {
        Self { gathers: Some(aggregate), ..self }
    }

    /// The object, under a name that may differ from the table's.
    pub(super) fn to_value(&self, kind: &str, namespace: Option<&str>, name: &str) -> Value {
        let mut object = object(kind, namespace, name);
        object["rules"] = self.rules.iter().map(Rule::to_value).collect();
        if let Some(aggregate) = self.part_of {
            object["metadata"]["labels"][aggregate_label(aggregate)] = "true".into();
        }
        if let Some(aggregate) = self.gathers {
            object["aggregationRule"] =
                json!({ "clusterRoleSelectors": [{ "matchLabels": { aggregate_label(aggregate): "true" } }] });
        }
        object
    }
}

fn aggregate_label(aggregate: &str) -> String {
    format!("{RBAC_GROUP}/aggregate-to-{aggregate}")
}

impl Rule {
    fn to_value(&self) -> Value {
        let list = |text: &str| text.split(',').collect::<Value>();
        match self.target {
            Target::Resources { groups, resources, names: None } => {
                json!({ "verbs": list(self.verbs), "apiGroups": list(groups), "resources": list(resources) })
            }
            Target::Resources { groups, resources, names: Some(names) } => json!({
                "verbs": list(self.verbs),
                "apiGroups": list(groups),
                "resources": list(resources),
                "resourceNames": list(names),
            }),
            Target::Paths(paths) => json!({ "verbs": list(self.verbs), "nonResourceURLs": list(paths) }),
        }
    }
}

impl Subject {
    fn to_value(&self) -> Value {
        match self {
            Self::User(name) => json!({ "kind": "User", "apiGroup": RBAC_GROUP, "name": name }),
            Self::Group(name) => json!({ "kind": "Group", "apiGroup": RBAC_GROUP, "name": name }),
            Self::Account(name) => json!({ "kind": "ServiceAccount", "name": name, "namespace": "kube-system" }),
        }
    }
}

/// A binding of a role of kind `role.0` and name `role.1`.
pub(super) fn binding(namespace: Option<&str>, name: &str, role: (&str, &str), subjects: &[Subject]) -> Value {
    let kind = if namespace.is_some() { "RoleBinding" } else { "ClusterRoleBinding" };
    let mut object = object(kind, namespace, name);
    object["roleRef"] = json!({ "apiGroup": RBAC_GROUP, "kind": role.0, "name": role.1 });
    if !subjects.is_empty() {
        object["subjects"] = subjects.iter().map(Subject::to_value).collect();
    }
    object
}

fn object(kind: &str, namespace: Option<&str>, name: &str) -> Value {
    let mut object = json!({
        "apiVersion": format!("{RBAC_GROUP}/v1"),
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" },
            "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
        },
    });
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}
