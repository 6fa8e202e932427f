//! Which kinds, verbs and namespaces may pass to which agents, and for whom. What no rule permits is refused.

use serde::{Deserialize, Serialize};
use thane_sync::mapping::Pattern;

use super::reach::{Caller, Source};
use super::target::Target;

/// Permits what matches all of it. A list that is empty matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Rule {
    /// Who asks: `argocd`, `people`, `user:NAME` or `group:NAME`.
    pub callers: Vec<String>,
    /// Globs of agents' names.
    pub agents: Vec<String>,
    /// Kinds as `resource[.group][/subresource]`; `*` for any part; `!` in front takes away what the others give.
    pub kinds: Vec<String>,
    /// Kubernetes' verbs; `*` for any. Sessions (`pods/exec` and the like) are `create`.
    pub verbs: Vec<String>,
    /// Globs of namespaces. Objects without one, and requests for all, need `*` or an empty list.
    pub namespaces: Vec<String>,
}

/// All rules, compiled.
#[derive(Debug, Clone)]
pub struct Policy {
    rules: Vec<Compiled>,
}

#[derive(Debug, Clone)]
struct Compiled {
    rule: Rule,
    agents: Vec<Pattern>,
    namespaces: Vec<Pattern>,
}

/// Verbs that a target can have.
const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// What Argo CD manages: every kind but those it leaves out by itself, and nothing that hands out credentials or leads past
/// the Kubernetes API.
const MANAGED: [&str; 14] = [
    "*",
    "!endpoints",
    "!endpointslices.discovery.k8s.io",
    "!leases.coordination.k8s.io",
    "!*.authentication.k8s.io",
    "!*.authorization.k8s.io",
    "!certificatesigningrequests.certificates.k8s.io",
    "!certificatesigningrequests.certificates.k8s.io/*",
    "!serviceaccounts/token",
    "!pods/proxy",
    "!services/proxy",
    "!nodes/proxy",
    "!events",
    "!events.events.k8s.io",
];

/// The rules there are unless others are given: what Argo CD manages, and events to read; discovery passes always.
pub fn default_rules() -> Vec<Rule> {
    let texts = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    vec![
        Rule { kinds: texts(&MANAGED), ..Rule::default() },
        Rule {
            kinds: texts(&["events", "events.events.k8s.io"]),
            verbs: texts(&["get", "list", "watch"]),
            ..Rule::default()
        },
    ]
}

/// Why a rule is none: it would silently match nothing, or everything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rule {number}: {field} {text:?} {why}")]
pub struct Invalid {
    number: usize,
    field: &'static str,
    text: String,
    why: &'static str,
}

/// Whether rules mean what whoever wrote them meant, as far as can be told.
pub fn check(rules: &[Rule]) -> Result<(), Invalid> {
    for (index, rule) in rules.iter().enumerate() {
        let invalid = |field, text: &str, why| Err(Invalid { number: index + 1, field, text: text.to_owned(), why });
        if let Some(caller) = rule.callers.iter().find(|caller| !names_caller(caller)) {
            return invalid("callers", caller, "is none of argocd, people, user:NAME and group:NAME");
        }
        for (field, globs) in [("agents", &rule.agents), ("namespaces", &rule.namespaces)] {
            if let Some(glob) = globs.iter().find(|glob| glob.trim().is_empty() || !Pattern::new(*glob).is_valid()) {
                return invalid(field, glob, "is no glob");
            }
        }
        if let Some(verb) = rule.verbs.iter().find(|verb| *verb != "*" && !VERBS.contains(&verb.as_str())) {
            return invalid("verbs", verb, "is no verb of Kubernetes, which are in lower case; sessions are create");
        }
        if let Some(kind) = rule.kinds.iter().find(|kind| !names_kind(kind)) {
            return invalid("kinds", kind, "is not resource[.group][/subresource], a plural in lower case");
        }
        if let Some(first) = rule.kinds.first().filter(|_| rule.kinds.iter().all(|kind| kind.starts_with('!'))) {
            return invalid("kinds", first, "takes away, and nothing is given: add \"*\" before it");
        }
    }
    Ok(())
}

fn names_caller(word: &str) -> bool {
    match word.split_once(':') {
        Some(("user" | "group", name)) => !name.trim().is_empty(),
        _ => word == "argocd" || word == "people",
    }
}

fn names_kind(kind: &str) -> bool {
    let kind = kind.strip_prefix('!').unwrap_or(kind);
    let (whole, subresource) = kind.split_once('/').map_or((kind, None), |(whole, sub)| (whole, Some(sub)));
    let (resource, group) = whole.split_once('.').map_or((whole, None), |(resource, group)| (resource, Some(group)));
    let is_word = |word: &str, others: &[u8]| {
        let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || others.contains(&byte);
        word == "*" || (!word.is_empty() && word.bytes().all(is_part))
    };
    is_word(resource, b"-")
        && group.is_none_or(|group| is_word(group, b"-."))
        && subresource.is_none_or(|sub| is_word(sub, b"-"))
}

impl Policy {
    /// These rules.
    pub fn new(rules: Vec<Rule>) -> Self {
        let patterns = |texts: &[String]| texts.iter().map(Pattern::new).collect();
        let compiled =
            |rule: Rule| Compiled { agents: patterns(&rule.agents), namespaces: patterns(&rule.namespaces), rule };
        Self { rules: rules.into_iter().map(compiled).collect() }
    }

    /// The rules of the configuration, or the default where it has none.
    pub fn configured(rules: &[Rule]) -> Self {
        Self::new(if rules.is_empty() { default_rules() } else { rules.to_vec() })
    }

    /// Everything passes for members of a group, besides what is permitted anyway.
    #[must_use]
    pub fn with_everything_for(mut self, group: &str) -> Self {
        let Self { rules } = Self::new(vec![Rule { callers: vec![format!("group:{group}")], ..Rule::default() }]);
        self.rules.extend(rules);
        self
    }

    /// Whether a request may pass.
    pub fn permits(&self, caller: &Caller, agent: &str, target: &Target) -> bool {
        target.is_document() || self.rules.iter().any(|rule| rule.permits(caller, agent, target))
    }
}

impl Compiled {
    fn permits(&self, caller: &Caller, agent: &str, target: &Target) -> bool {
        let Rule { callers, agents, kinds, verbs, namespaces } = &self.rule;
        (callers.is_empty() || callers.iter().any(|word| is_called(word, caller)))
            && (agents.is_empty() || self.agents.iter().any(|glob| glob.matches(agent)))
            && (kinds.is_empty() || includes(kinds, target))
            && (verbs.is_empty() || verbs.iter().any(|verb| verb == "*" || verb == target.verb))
            && (namespaces.is_empty() || self.is_in(&target.namespace))
    }

    fn is_in(&self, namespace: &str) -> bool {
        if namespace.is_empty() {
            return self.rule.namespaces.iter().any(|text| text == "*");
        }
        self.namespaces.iter().any(|glob| glob.matches(namespace))
    }
}

fn is_called(word: &str, caller: &Caller) -> bool {
    match (word, word.split_once(':')) {
        ("argocd", _) => caller.source == Source::Argocd,
        ("people", _) => caller.source == Source::People,
        (_, Some(("user", name))) => caller.source == Source::People && caller.name == name,
        (_, Some(("group", name))) => {
            caller.source == Source::People && caller.groups.iter().any(|group| group == name)
        }
        _ => false,
    }
}

fn includes(kinds: &[String], target: &Target) -> bool {
    let (mut given, mut taken) = (false, false);
    for kind in kinds {
        match kind.strip_prefix('!') {
            Some(kind) => taken |= is_kind(kind, target),
            None => given |= is_kind(kind, target),
        }
    }
    given && !taken
}

/// Whether a kind is named: `*` alone is all there is, subresources too.
fn is_kind(kind: &str, target: &Target) -> bool {
    if kind == "*" {
        return true;
    }
    let (whole, subresource) = kind.split_once('/').unwrap_or((kind, ""));
    let (resource, group) = whole.split_once('.').unwrap_or((whole, ""));
    let is = |word: &str, value: &str| word == value || word == "*";
    is(resource, &target.resource)
        && is(group, &target.group)
        && (subresource == target.subresource || (subresource == "*" && !target.subresource.is_empty()))
}

#[cfg(test)]
mod tests;
