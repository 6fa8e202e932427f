//! What Consul has from the beginning: two rule sets, and what a token that is a service or a node may do.

use std::sync::LazyLock;

use crate::model::{Policy, Resource, Rule, RuleSet};

/// The rule set that allows everything.
pub const MANAGEMENT: &str = "00000000-0000-0000-0000-000000000001";
/// The rule set that allows reading everything.
pub const READ_ONLY: &str = "00000000-0000-0000-0000-000000000002";

static SETS: LazyLock<[RuleSet; 2]> = LazyLock::new(|| {
    let about = |what: &str| format!("A built-in policy that grants {what} access to all Consul features");
    [
        whole(MANAGEMENT, "global-management", about("read and write"), Policy::Write),
        whole(READ_ONLY, "builtin/global-read-only", about("read-only"), Policy::Read),
    ]
});

/// The rule sets there always are.
pub fn rule_sets() -> &'static [RuleSet] {
    SETS.as_slice()
}

/// One of them by its id.
pub fn rule_set(id: &str) -> Option<&'static RuleSet> {
    rule_sets().iter().find(|set| set.id == id)
}

fn whole(id: &str, name: &str, description: String, policy: Policy) -> RuleSet {
    let everything = |resource| Rule { resource, name: String::new(), exact: false, policy };
    let word = policy.word();
    let named = |kind: &str, more: &str| format!("\n{kind}_prefix \"\" {{\n\tpolicy = \"{word}\"{more}\n}}");
    let plain = |kind: &str| format!("\n{kind} = \"{word}\"");
    let intentions = format!("\n\tintentions = \"{word}\"");
    let text = [
        plain("acl"),
        named("agent", ""),
        named("event", ""),
        named("key", ""),
        plain("keyring"),
        named("node", ""),
        plain("operator"),
        plain("mesh"),
        plain("peering"),
        named("query", ""),
        named("service", &intentions),
        named("session", ""),
    ];
    RuleSet {
        id: id.to_owned(),
        name: name.to_owned(),
        description,
        text: text.concat(),
        rules: Resource::ALL.map(everything).into(),
        datacenters: Vec::new(),
    }
}

/// What a token that is a service may do: register it and its proxy, and find all others.
pub(super) fn of_service(name: &str) -> [Rule; 4] {
    [
        exactly(Resource::Service, name.to_owned()),
        exactly(Resource::Service, format!("{name}-sidecar-proxy")),
        reading(Resource::Service),
        reading(Resource::Node),
    ]
}

/// What a token that is a node may do: register it, and find all services.
pub(super) fn of_node(name: &str) -> [Rule; 2] {
    [exactly(Resource::Node, name.to_owned()), reading(Resource::Service)]
}

fn exactly(resource: Resource, name: String) -> Rule {
    Rule { resource, name, exact: true, policy: Policy::Write }
}

fn reading(resource: Resource) -> Rule {
    Rule { resource, name: String::new(), exact: false, policy: Policy::Read }
}
