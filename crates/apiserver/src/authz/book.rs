//! An immutable snapshot of all roles and bindings, indexed by subject.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::{Action, Decision, MASTERS, RBAC_GROUP, Rule, User, combined};
use crate::go;

/// The roles and bindings of one namespace, or of the cluster under the empty name.
#[derive(Debug, Clone, Default)]
struct Scope {
    roles: HashMap<Arc<str>, Arc<[Rule]>>,
    bindings: HashMap<Arc<str>, Arc<Binding>>,
    /// Names of bindings by user name (service accounts by theirs).
    by_user: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    by_group: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
}

#[derive(Debug)]
struct Binding {
    name: Arc<str>,
    role_kind: String,
    role_name: String,
    subjects: Vec<Subject>,
}

#[derive(Debug)]
struct Subject {
    kind: SubjectKind,
    /// The name a user or group goes by.
    matched: Arc<str>,
    /// As the reason of a decision shows it.
    shown: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubjectKind {
    User,
    Group,
}

/// All that a user may do in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RulesFor {
    /// The rules, those of the cluster first.
    pub rules: Vec<Rule>,
    /// Roles that bindings name and that do not exist.
    pub errors: Vec<String>,
}

/// A snapshot of roles and bindings. Cheap to clone: parts that a change does not touch are shared.
#[derive(Debug, Clone, Default)]
pub struct RuleBook {
    scopes: HashMap<Arc<str>, Arc<Scope>>,
}

impl RuleBook {
    /// A snapshot of objects of the kinds Role, `ClusterRole`, `RoleBinding` and `ClusterRoleBinding`; others are ignored.
    pub fn new<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut book = Self::default();
        for object in objects {
            book.apply(object);
        }
        book
    }

    /// Adds or replaces an object.
    pub(super) fn apply(&mut self, object: &Value) {
        let Some((role, namespace, name)) = place(object) else { return };
        let scope = Arc::make_mut(self.scopes.entry(namespace.into()).or_default());
        let name: Arc<str> = name.into();
        if role {
            scope.roles.insert(name, Rule::list(object).into());
        } else {
            scope.unbind(&name);
            scope.bind(Binding::from_value(name, namespace, object));
        }
    }

    /// Removes an object; only its kind, namespace and name matter.
    pub(super) fn delete(&mut self, object: &Value) {
        let Some((role, namespace, name)) = place(object) else { return };
        let Some(scope) = self.scopes.get_mut(namespace) else { return };
        let scope = Arc::make_mut(scope);
        if role {
            scope.roles.remove(name);
        } else {
            scope.unbind(name);
        }
        if scope.roles.is_empty() && scope.bindings.is_empty() {
            self.scopes.remove(namespace);
        }
    }

    /// Whether a user may do something.
    pub fn decide(&self, user: &User, action: &Action) -> Decision {
        if user.is_in(MASTERS) {
            return Decision { allowed: true, reason: String::new() };
        }
        let combined = combined(action);
        let mut errors = Vec::new();
        for (namespace, scope) in self.scopes_of(&action.namespace) {
            for binding in scope.bindings_of(user) {
                match self.referenced(namespace, binding) {
                    Ok(rules) if rules.iter().any(|rule| rule.allows(action, &combined)) => {
                        return Decision { allowed: true, reason: binding.reason(namespace, user) };
                    }
                    Ok(_) => {}
                    Err(error) => errors.push(error),
                }
            }
        }
        let reason = if errors.is_empty() { String::new() } else { format!("RBAC: {}", joined(errors)) };
        Decision { allowed: false, reason }
    }

    /// All rules that apply to a user in a namespace (the empty one: cluster-wide ones only).
    pub fn rules_for(&self, user: &User, namespace: &str) -> RulesFor {
        let mut out = RulesFor::default();
        for (namespace, scope) in self.scopes_of(namespace) {
            for binding in scope.bindings_of(user) {
                match self.referenced(namespace, binding) {
                    Ok(rules) => out.rules.extend_from_slice(rules),
                    Err(error) => out.errors.push(error),
                }
            }
        }
        out
    }

    /// The rules of the role that a binding in `namespace` would refer to.
    pub(super) fn role(&self, kind: &str, namespace: &str, name: &str) -> Option<&[Rule]> {
        let scope = match kind {
            "ClusterRole" => "",
            "Role" if !namespace.is_empty() => namespace,
            _ => return None,
        };
        self.scopes.get(scope)?.roles.get(name).map(AsRef::as_ref)
    }

    /// The cluster's scope, and the namespace's if there is one.
    fn scopes_of<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a str, &'a Scope)> {
        let local = Some(namespace).filter(|name| !name.is_empty());
        [Some(""), local].into_iter().flatten().filter_map(|name| Some((name, self.scopes.get(name)?.as_ref())))
    }

    fn referenced(&self, namespace: &str, binding: &Binding) -> Result<&[Rule], String> {
        let (kind, name) = (binding.role_kind.as_str(), binding.role_name.as_str());
        if !matches!(kind, "Role" | "ClusterRole") {
            return Err(format!("unsupported role reference kind: {}", go::quoted(kind)));
        }
        self.role(kind, namespace, name)
            .ok_or_else(|| format!("{}.{RBAC_GROUP} {} not found", kind.to_lowercase(), go::quoted(name)))
    }
}

impl Scope {
    fn bind(&mut self, binding: Binding) {
        for subject in &binding.subjects {
            let index = self.index(subject.kind);
            index.entry(subject.matched.clone()).or_default().insert(binding.name.clone());
        }
        self.bindings.insert(binding.name.clone(), Arc::new(binding));
    }

    fn unbind(&mut self, name: &str) {
        let Some(binding) = self.bindings.remove(name) else { return };
        for subject in &binding.subjects {
            let index = self.index(subject.kind);
            if let Some(names) = index.get_mut(&subject.matched) {
                names.remove(name);
                if names.is_empty() {
                    index.remove(&subject.matched);
                }
            }
        }
    }

    fn index(&mut self, kind: SubjectKind) -> &mut HashMap<Arc<str>, BTreeSet<Arc<str>>> {
        match kind {
            SubjectKind::User => &mut self.by_user,
            SubjectKind::Group => &mut self.by_group,
        }
    }

    /// The bindings that apply to a user, each once, by name.
    fn bindings_of(&self, user: &User) -> impl Iterator<Item = &Binding> {
        let mut found = BTreeMap::new();
        let by_group = user.groups.iter().filter_map(|group| self.by_group.get(group.as_str()));
        for name in self.by_user.get(user.name.as_str()).into_iter().chain(by_group).flatten() {
            if let Some(binding) = self.bindings.get(name) {
                found.insert(name, binding.as_ref());
            }
        }
        found.into_values()
    }
}

impl Binding {
    fn from_value(name: Arc<str>, namespace: &str, object: &Value) -> Self {
        let subjects = object.get("subjects").and_then(Value::as_array);
        Self {
            name,
            role_kind: text(object, "/roleRef/kind").to_owned(),
            role_name: text(object, "/roleRef/name").to_owned(),
            subjects: subjects
                .into_iter()
                .flatten()
                .filter_map(|subject| Subject::from_value(subject, namespace))
                .collect(),
        }
    }

    fn reason(&self, namespace: &str, user: &User) -> String {
        let subject = self.subjects.iter().find(|subject| match subject.kind {
            SubjectKind::User => *subject.matched == *user.name,
            SubjectKind::Group => user.is_in(&subject.matched),
        });
        let (kind, name) = if namespace.is_empty() {
            ("ClusterRoleBinding", self.name.to_string())
        } else {
            ("RoleBinding", format!("{}/{namespace}", self.name))
        };
        format!(
            "RBAC: allowed by {kind} {} of {} {} to {}",
            go::quoted(&name),
            self.role_kind,
            go::quoted(&self.role_name),
            subject.map_or("", |subject| subject.shown.as_str()),
        )
    }
}

impl Subject {
    fn from_value(value: &Value, binding_namespace: &str) -> Option<Self> {
        let (kind, name) = (text(value, "/kind"), text(value, "/name"));
        let shown = |name: &str| format!("{kind} {}", go::quoted(name));
        match kind {
            "User" => Some(Self { kind: SubjectKind::User, matched: name.into(), shown: shown(name) }),
            "Group" => Some(Self { kind: SubjectKind::Group, matched: name.into(), shown: shown(name) }),
            "ServiceAccount" => {
                let own = text(value, "/namespace");
                let namespace = if own.is_empty() { binding_namespace } else { own };
                let matched = format!("system:serviceaccount:{namespace}:{name}");
                let shown = shown(&format!("{name}/{namespace}"));
                (!namespace.is_empty()).then(|| Self { kind: SubjectKind::User, matched: matched.into(), shown })
            }
            _ => None,
        }
    }
}

/// Whether the object is a role (not a binding), its namespace and its name.
fn place(object: &Value) -> Option<(bool, &str, &str)> {
    let namespace = text(object, "/metadata/namespace");
    let name = text(object, "/metadata/name");
    match text(object, "/kind") {
        "ClusterRole" => Some((true, "", name)),
        "ClusterRoleBinding" => Some((false, "", name)),
        "Role" if !namespace.is_empty() => Some((true, namespace, name)),
        "RoleBinding" if !namespace.is_empty() => Some((false, namespace, name)),
        _ => None,
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Several errors as one: alone as it is, otherwise in brackets, each once.
pub(crate) fn joined(errors: Vec<String>) -> String {
    let mut seen = BTreeSet::new();
    let mut unique = errors.into_iter().filter(|error| seen.insert(error.clone())).collect::<Vec<_>>();
    if unique.len() == 1 { unique.remove(0) } else { format!("[{}]", unique.join(", ")) }
}
