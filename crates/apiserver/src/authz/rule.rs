//! One rule of a role: what it allows and what it covers.

use serde_json::{Map, Value};

use super::Action;
use crate::go;

/// A `PolicyRule`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// Verbs; `*` is any.
    pub verbs: Vec<String>,
    /// API groups; `*` is any, the empty string is core.
    pub api_groups: Vec<String>,
    /// Resources: `pods`, `pods/status`, `*/scale`, `*`.
    pub resources: Vec<String>,
    /// Names; empty is any.
    pub resource_names: Vec<String>,
    /// Paths; a trailing `*` matches any rest.
    pub non_resource_urls: Vec<String>,
}

impl Rule {
    /// Reads a rule; what has the wrong type grants nothing.
    pub fn from_value(value: &Value) -> Self {
        Self {
            verbs: strings(value, "verbs"),
            api_groups: strings(value, "apiGroups"),
            resources: strings(value, "resources"),
            resource_names: strings(value, "resourceNames"),
            non_resource_urls: strings(value, "nonResourceURLs"),
        }
    }

    /// The `rules` of a role.
    pub fn list(role: &Value) -> Vec<Self> {
        role.get("rules")
            .and_then(Value::as_array)
            .map_or_else(Vec::new, |rules| rules.iter().map(Self::from_value).collect())
    }

    /// As it is written in a role.
    pub fn to_value(&self) -> Value {
        let mut out = Map::new();
        for (key, list) in [
            ("verbs", &self.verbs),
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.non_resource_urls),
        ] {
            if !list.is_empty() || key == "verbs" {
                out.insert(key.into(), list.clone().into());
            }
        }
        Value::Object(out)
    }

    /// Everything: all resources (first) and all paths (second).
    pub(super) fn full_authority() -> [Self; 2] {
        let any = || vec!["*".to_owned()];
        [
            Self { verbs: any(), api_groups: any(), resources: any(), ..Self::default() },
            Self { verbs: any(), non_resource_urls: any(), ..Self::default() },
        ]
    }

    /// Whether the rule allows an action; `combined` is its resource with its subresource.
    pub(super) fn allows(&self, action: &Action, combined: &str) -> bool {
        if !has_or_star(&self.verbs, &action.verb) {
            return false;
        }
        if let Some(path) = &action.path {
            return self.non_resource_urls.iter().any(|own| own == "*" || url_covers(own, path));
        }
        has_or_star(&self.api_groups, &action.group)
            && self.resources.iter().any(|own| resource_matches(own, combined, &action.subresource))
            && (self.resource_names.is_empty() || self.resource_names.contains(&action.name))
    }

    /// The rule in parts of one verb, one group, one resource and at most one name; lazy, because a rule of many lists
    /// has very many parts.
    fn parts(&self) -> impl Iterator<Item = Self> + '_ {
        let one = |text: &String| vec![text.clone()];
        let names = if self.resource_names.is_empty() {
            vec![Vec::new()]
        } else {
            self.resource_names.iter().map(one).collect()
        };
        let resources = self.api_groups.iter().flat_map(move |group| {
            let names = names.clone();
            self.resources.iter().flat_map(move |resource| {
                let names = names.clone();
                self.verbs.iter().flat_map(move |verb| {
                    names.clone().into_iter().map(move |resource_names| Self {
                        verbs: one(verb),
                        api_groups: one(group),
                        resources: one(resource),
                        resource_names,
                        non_resource_urls: Vec::new(),
                    })
                })
            })
        });
        let urls = self.non_resource_urls.iter().flat_map(move |url| {
            self.verbs.iter().map(move |verb| Self { verbs: one(verb), non_resource_urls: one(url), ..Self::default() })
        });
        resources.chain(urls)
    }

    fn part_count(&self) -> usize {
        let resources = self.api_groups.len().saturating_mul(self.resources.len());
        let named = resources.saturating_mul(self.resource_names.len().max(1));
        named.saturating_add(self.non_resource_urls.len()).saturating_mul(self.verbs.len())
    }

    /// Whether this rule allows all that a part allows.
    fn covers(&self, part: &Self) -> bool {
        let names = match part.resource_names.as_slice() {
            [] => self.resource_names.is_empty(),
            wanted => self.resource_names.is_empty() || wanted.iter().all(|name| self.resource_names.contains(name)),
        };
        names
            && part.verbs.iter().all(|verb| has_or_star(&self.verbs, verb))
            && part.api_groups.iter().all(|group| has_or_star(&self.api_groups, group))
            && part.resources.iter().all(|resource| self.covers_resource(resource))
            && part.non_resource_urls.iter().all(|path| self.non_resource_urls.iter().any(|own| url_covers(own, path)))
    }

    fn covers_resource(&self, wanted: &str) -> bool {
        has_or_star(&self.resources, wanted)
            || wanted.split_once('/').is_some_and(|(_, sub)| {
                self.resources.iter().any(|own| own.strip_prefix("*/").is_some_and(|rest| rest == sub))
            })
    }

    /// `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`, as escalation errors show a rule.
    pub(super) fn compact(&self) -> String {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let shown = parts
            .iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| format!("{name}:{}", go::quoted_list(list)))
            .collect::<Vec<_>>();
        format!("{{{}}}", shown.join(", "))
    }

    fn is_same_target(&self, other: &Self) -> bool {
        self.non_resource_urls.is_empty()
            && other.non_resource_urls.is_empty()
            && self.api_groups == other.api_groups
            && self.resources == other.resources
            && self.resource_names == other.resource_names
    }
}

/// How many missing parts are told before the list is cut.
const MISSING_MAX: usize = 1000;

/// How many parts a rule may have to be checked part by part; a body of lists can multiply to billions.
const PARTS_MAX: usize = 200_000;

/// What of `wanted` is not covered by `owned`, verbs of one resource joined.
pub(super) fn uncovered(owned: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    // A rule that is covered whole by one rule needs no taking apart.
    // Past the bound a rule counts as missing: refusing is safe.
    let mut total = 0_usize;
    let (checked, unchecked): (Vec<&Rule>, Vec<&Rule>) =
        wanted.iter().filter(|rule| !covered_whole(owned, rule)).partition(|rule| {
            total = total.saturating_add(rule.part_count());
            total <= PARTS_MAX
        });
    let mut missing = unchecked.into_iter().cloned().collect::<Vec<_>>();
    let parts = checked.into_iter().flat_map(Rule::parts);
    for part in parts.filter(|part| !owned.iter().any(|own| own.covers(part))).take(MISSING_MAX) {
        match missing.iter_mut().find(|known| known.is_same_target(&part)) {
            Some(known) => known.verbs.extend(part.verbs),
            None => missing.push(part),
        }
    }
    missing
}

/// A mixed rule (resources and paths) is never covered by one rule, and an empty one asks for nothing.
fn covered_whole(owned: &[Rule], rule: &Rule) -> bool {
    (rule.non_resource_urls.is_empty() || rule.resources.is_empty()) && owned.iter().any(|own| own.covers(rule))
}

fn strings(value: &Value, key: &str) -> Vec<String> {
    let list = value.get(key).and_then(Value::as_array);
    list.map_or_else(Vec::new, |list| list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

fn has_or_star(list: &[String], wanted: &str) -> bool {
    list.iter().any(|own| own == "*" || own == wanted)
}

fn resource_matches(own: &str, combined: &str, subresource: &str) -> bool {
    own == "*"
        || own == combined
        || (!subresource.is_empty() && own.strip_prefix("*/").is_some_and(|rest| rest == subresource))
}

fn url_covers(own: &str, path: &str) -> bool {
    own == path || (own.ends_with('*') && path.starts_with(own.trim_end_matches('*')))
}
