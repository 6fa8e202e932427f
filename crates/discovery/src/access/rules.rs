//! Rules as people write them: Consul's language, which is HCL's or JSON.
//!
//! ```text
//! key_prefix "app/" { policy = "write" }
//! service "web"     { policy = "write" }
//! operator = "read"
//! ```

mod hcl;
#[cfg(test)]
mod tests;

use crate::model::{Policy, Resource, Rule};
use hcl::Value;

/// Words of Consul's that rule what is not here; they are checked and mean nothing.
const IDLE: [&str; 3] = ["keyring", "mesh", "peering"];
/// The same for what has names.
const IDLE_NAMED: &str = "query";

/// What a text means, or Consul's complaint about it. A word nobody knows allows nothing, and is passed over as Consul does.
pub fn parse(text: &str) -> Result<Vec<Rule>, String> {
    let tree = hcl::parse(text).map_err(|complaint| format!("Failed to parse ACL rules: {complaint}"))?;
    let mut rules = Vec::new();
    for (word, value) in &tree {
        if let Some(resource) =
            Resource::ALL.into_iter().find(|resource| !resource.is_named() && resource.word() == word)
        {
            if let Some(policy) = plain(word, value)? {
                rules.push(Rule { resource, name: String::new(), exact: false, policy });
            }
        } else if IDLE.contains(&word.as_str()) {
            plain(word, value)?;
        } else {
            named(word, value, &mut rules)?;
        }
    }
    Ok(rules)
}

/// The text of rules: what [`parse`] reads back.
pub fn print(rules: &[Rule]) -> String {
    let line = |rule: &Rule| {
        let (word, policy) = (rule.resource.word(), rule.policy.word());
        if !rule.resource.is_named() {
            return format!("{word} = \"{policy}\"\n");
        }
        let kind = if rule.exact { "" } else { "_prefix" };
        format!("{word}{kind} {} {{ policy = \"{policy}\" }}\n", hcl::quoted(&rule.name))
    };
    rules.iter().map(line).collect()
}

/// `operator = "read"`.
fn plain(word: &str, value: &Value) -> Result<Option<Policy>, String> {
    let Value::Text(text) = value else {
        return Err(format!("Failed to parse ACL rules: root.{word}: unknown type for string"));
    };
    match policy(text, false) {
        Some(policy) => Ok(Some(policy)),
        None if text.is_empty() => Ok(None),
        None => Err(format!("Invalid {word} policy: {text:?}")),
    }
}

/// `key_prefix "a/" { policy = "read" }`.
fn named(word: &str, value: &Value, rules: &mut Vec<Rule>) -> Result<(), String> {
    let (base, exact) = word.strip_suffix("_prefix").map_or((word, true), |base| (base, false));
    let resource = Resource::ALL.into_iter().find(|resource| resource.is_named() && resource.word() == base);
    if resource.is_none() && base != IDLE_NAMED {
        return Ok(());
    }
    for (name, body) in value.entries() {
        let text = |wanted: &str| match body.entries().into_iter().rev().find(|(key, _)| *key == wanted) {
            Some((_, Value::Text(text))) => text.clone(),
            _ => String::new(),
        };
        let (given, intentions) = (text("policy"), text("intentions"));
        let Some(policy) = policy(&given, base == "key") else {
            return Err(format!("Invalid {word} policy: {}", shown(base, name, &given, &intentions)));
        };
        if base == "service" && !intentions.is_empty() && self::policy(&intentions, false).is_none() {
            return Err(format!("Invalid {word} intentions policy: {}", shown(base, name, &given, &intentions)));
        }
        if let Some(resource) = resource {
            rules.push(Rule { resource, name: name.to_owned(), exact, policy });
        }
    }
    Ok(())
}

fn policy(text: &str, is_key: bool) -> Option<Policy> {
    match text {
        "deny" => Some(Policy::Deny),
        "read" => Some(Policy::Read),
        // Who may list may read: nothing here lists without reading.
        "list" if is_key => Some(Policy::Read),
        "write" => Some(Policy::Write),
        _ => None,
    }
}

/// A rule as Consul shows it in complaints.
fn shown(base: &str, name: &str, policy: &str, intentions: &str) -> String {
    const REST: &str = ", EnterpriseRule:acl.EnterpriseRule{}";
    match base {
        "key" => format!("&acl.KeyRule{{Prefix:{name:?}, Policy:{policy:?}{REST}}}"),
        "node" => format!("&acl.NodeRule{{Name:{name:?}, Policy:{policy:?}{REST}}}"),
        "service" => {
            format!("&acl.ServiceRule{{Name:{name:?}, Policy:{policy:?}, Intentions:{intentions:?}{REST}}}")
        }
        "session" => format!("&acl.SessionRule{{Node:{name:?}, Policy:{policy:?}}}"),
        "event" => format!("&acl.EventRule{{Event:{name:?}, Policy:{policy:?}}}"),
        "agent" => format!("&acl.AgentRule{{Node:{name:?}, Policy:{policy:?}}}"),
        _ => format!("&acl.PreparedQueryRule{{Prefix:{name:?}, Policy:{policy:?}}}"),
    }
}
