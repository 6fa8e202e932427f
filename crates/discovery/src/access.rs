//! Which token may do what. Every edge enforces this by itself, from the tokens it holds, also with the hub away; the hub
//! asks again before it decides.
//!
//! As long as there are no tokens nobody is asked for one. From the first token on, what no rule allows is denied; a
//! request without a token has the rules of the token whose accessor is [`ANONYMOUS`].

pub mod builtin;
mod guard;
pub mod rules;
#[cfg(test)]
mod tests;
mod vet;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use crate::command::{Refusal, TxnResult};
use crate::model::{Policy, Resource, Rule, RuleSet, Token};
use crate::topic::{Row, TopicData};

pub use guard::{Guard, Refused};
pub(crate) use vet::Vet;

/// The accessor of the token that stands for having none.
pub const ANONYMOUS: &str = "00000000-0000-0000-0000-000000000002";

/// All tokens, ready to be asked.
#[derive(Debug, Default)]
pub struct Tokens {
    by_digest: HashMap<String, Arc<Bearer>>,
    anonymous: Option<Arc<Bearer>>,
    any: bool,
}

/// A token with everything that rules it.
#[derive(Debug, Default, PartialEq)]
struct Bearer {
    token: Arc<Token>,
    rules: Vec<Rule>,
}

/// What one caller may do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Access {
    // None: there are no tokens, everything is allowed.
    bearer: Option<Arc<Bearer>>,
}

/// A token that nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("ACL not found")]
pub struct UnknownToken;

impl Tokens {
    /// The tokens of [`crate::Topic::Tokens`].
    pub fn new(data: &TopicData) -> Self {
        let tokens = data.rows.iter().filter_map(|row| match row {
            Row::Token(token) => Some(Arc::clone(&token.value)),
            _ => None,
        });
        let sets = data.rows.iter().filter_map(|row| match row {
            Row::RuleSet(set) => Some(&*set.value),
            _ => None,
        });
        Self::of(tokens, sets)
    }

    /// Tokens and the rules they share.
    pub fn of<'a>(tokens: impl Iterator<Item = Arc<Token>>, sets: impl Iterator<Item = &'a RuleSet>) -> Self {
        let sets: HashMap<&str, &RuleSet> =
            sets.chain(builtin::rule_sets()).map(|set| (set.id.as_str(), set)).collect();
        let mut all = Self::default();
        for token in tokens {
            all.any = true;
            let shared = token.rule_sets.iter().filter_map(|id| sets.get(id.as_str())).flat_map(|set| &set.rules);
            let mut rules: Vec<Rule> = token.rules.iter().chain(shared).cloned().collect();
            rules.extend(token.services.iter().flat_map(|name| builtin::of_service(name)));
            rules.extend(token.nodes.iter().flat_map(|node| builtin::of_node(&node.node)));
            let bearer = Arc::new(Bearer { token, rules });
            if bearer.token.accessor == ANONYMOUS {
                all.anonymous = Some(bearer);
            } else {
                all.by_digest.insert(bearer.token.secret_digest.clone(), bearer);
            }
        }
        all
    }

    /// Whether nobody is asked for a token.
    pub fn is_open(&self) -> bool {
        !self.any
    }

    /// Whether some token allows something for all names.
    pub fn any_allows(&self, resource: Resource, wanted: Policy) -> bool {
        let all = self.by_digest.values().chain(&self.anonymous);
        all.into_iter().any(|bearer| granted(&bearer.rules, resource, "") >= wanted)
    }

    /// What the bearer of a secret, or of none, may do.
    pub fn resolve(&self, secret: Option<&str>, now: Timestamp) -> Result<Access, UnknownToken> {
        if self.is_open() {
            return Ok(Access::default());
        }
        let bearer = match secret {
            Some(secret) => {
                let bearer = self.by_digest.get(&digest(secret)).filter(|bearer| !bearer.token.is_expired(now));
                Arc::clone(bearer.ok_or(UnknownToken)?)
            }
            None => self.anonymous.clone().unwrap_or_else(|| {
                let token = Arc::new(Token { accessor: ANONYMOUS.to_owned(), ..Token::default() });
                Arc::new(Bearer { token, rules: Vec::new() })
            }),
        };
        Ok(Access { bearer: Some(bearer) })
    }
}

/// How a secret is stored: SHA-256, hexadecimal.
pub fn digest(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

/// Bytes, hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

impl Access {
    /// Whether everything is allowed because there are no tokens.
    pub fn is_open(&self) -> bool {
        self.bearer.is_none()
    }

    /// The token shown, or the one that stands for none; `None`: there are no tokens.
    pub fn token(&self) -> Option<&Arc<Token>> {
        self.bearer.as_ref().map(|bearer| &bearer.token)
    }

    /// Whether something may be done with a name.
    pub fn allows(&self, resource: Resource, name: &str, wanted: Policy) -> bool {
        let Some(bearer) = &self.bearer else { return true };
        granted(&bearer.rules, resource, name) >= wanted
    }

    /// Whether something may be done with all names that begin so.
    pub fn allows_tree(&self, resource: Resource, prefix: &str, wanted: Policy) -> bool {
        let Some(bearer) = &self.bearer else { return true };
        let below = |rule: &Rule| rule.resource == resource && rule.name.starts_with(prefix) && rule.policy < wanted;
        granted(&bearer.rules, resource, prefix) >= wanted && !bearer.rules.iter().any(below)
    }

    /// Refuses in Consul's words what is not allowed.
    pub fn require(&self, resource: Resource, name: &str, wanted: Policy) -> Result<(), Refusal> {
        if self.allows(resource, name, wanted) {
            return Ok(());
        }
        Err(self.refusal(resource, name, wanted))
    }

    /// The same for all names that begin so.
    pub fn require_tree(&self, resource: Resource, prefix: &str, wanted: Policy) -> Result<(), Refusal> {
        if self.allows_tree(resource, prefix, wanted) {
            return Ok(());
        }
        Err(self.refusal(resource, prefix, wanted))
    }

    /// Whether a row may be seen.
    pub fn sees(&self, row: &Row) -> bool {
        let reads = |resource, name: &str| self.allows(resource, name, Policy::Read);
        match row {
            Row::Name { name, .. } => reads(Resource::Service, name),
            Row::Node(node) => reads(Resource::Node, &node.value.name),
            Row::Instance(it) => {
                reads(Resource::Node, &it.node.value.name) && reads(Resource::Service, &it.service.value.name)
            }
            Row::Check(node, check) => self.sees_check(node, &check.value.service_name),
            Row::Key(entry) => reads(Resource::Key, &entry.value.key),
            Row::Session(session) => reads(Resource::Session, &session.value.node),
            Row::Event(event) => reads(Resource::Event, &event.value.name),
            Row::Token(_) | Row::RuleSet(_) => reads(Resource::Acl, ""),
        }
    }

    /// Whether a check of a node, about a service if that has a name, may be seen.
    pub fn sees_check(&self, node: &str, service: &str) -> bool {
        self.allows(Resource::Node, node, Policy::Read)
            && (service.is_empty() || self.allows(Resource::Service, service, Policy::Read))
    }

    /// Whether a result of a transaction may be seen.
    pub fn sees_result(&self, result: &TxnResult) -> bool {
        let reads = |resource, name: &str| self.allows(resource, name, Policy::Read);
        match result {
            TxnResult::Kv(entry) => reads(Resource::Key, &entry.value.key),
            TxnResult::Node(node) => reads(Resource::Node, &node.value.name),
            TxnResult::Service(service) => reads(Resource::Service, &service.value.name),
            TxnResult::Check(node, check) => self.sees_check(node, &check.value.service_name),
        }
    }

    fn refusal(&self, resource: Resource, name: &str, wanted: Policy) -> Refusal {
        let accessor = self.token().map_or(ANONYMOUS, |token| token.accessor.as_str());
        let what = format!("{}:{}", resource.word(), if wanted == Policy::Read { "read" } else { "write" });
        let on = if name.is_empty() { String::new() } else { format!(" on {name:?}") };
        Refusal::Forbidden(if accessor == ANONYMOUS {
            format!(
                "anonymous token lacks permission '{what}'{on}. The anonymous token is used implicitly when a request does \
                 not specify a token."
            )
        } else {
            format!("token with AccessorID '{accessor}' lacks permission '{what}'{on}")
        })
    }
}

/// What the most specific rule says: the whole name before any beginning of it, a longer beginning before a shorter one.
/// Among rules for the same, `deny` counts before `write` and that before `read`: several rule sets may say it.
fn granted(rules: &[Rule], resource: Resource, name: &str) -> Policy {
    // Keys are what they are; nodes and services are compared without case.
    let folded = (resource != Resource::Key).then(|| name.to_lowercase());
    let name = folded.as_deref().unwrap_or(name);
    let applies = |rule: &&Rule| {
        let own = if resource == Resource::Key { rule.name.clone() } else { rule.name.to_lowercase() };
        rule.resource == resource && if rule.exact { own == name } else { name.starts_with(&own) }
    };
    let weight = |policy: Policy| match policy {
        Policy::Deny => 2,
        Policy::Write => 1,
        Policy::Read => 0,
    };
    let rank = |rule: &&Rule| (rule.exact, rule.name.len(), weight(rule.policy));
    rules.iter().filter(applies).max_by_key(rank).map_or(Policy::Deny, |rule| rule.policy)
}
