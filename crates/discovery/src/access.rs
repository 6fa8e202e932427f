//! Which token may do what. Every edge enforces this by itself, from the tokens it holds, also with the hub away.
//!
//! As long as there are no tokens nobody is asked for one. From the first token on, what no rule allows is denied; a
//! request without a token has the rules of the token whose accessor is `anonymous`.

mod guard;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::command::Refusal;
use crate::model::{Policy, Resource, Rule, Token};
use crate::topic::{Row, TopicData};

pub use guard::Guard;

/// The accessor of the token that stands for having none.
pub const ANONYMOUS: &str = "anonymous";

/// All tokens, ready to be asked.
#[derive(Debug, Default)]
pub struct Tokens {
    by_digest: HashMap<String, Arc<Token>>,
    anonymous: Option<Arc<Token>>,
    any: bool,
}

/// What one caller may do.
#[derive(Debug, Clone, Default)]
pub struct Access {
    // None: there are no tokens, everything is allowed.
    token: Option<Arc<Token>>,
}

/// A token that nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("ACL not found")]
pub struct UnknownToken;

impl Tokens {
    /// The tokens of [`crate::Topic::Tokens`].
    pub fn new(data: &TopicData) -> Self {
        let mut tokens = Self::default();
        for row in &data.rows {
            let Row::Token(token) = row else { continue };
            tokens.any = true;
            if token.value.accessor == ANONYMOUS {
                tokens.anonymous = Some(Arc::clone(&token.value));
            } else {
                tokens.by_digest.insert(token.value.secret_digest.clone(), Arc::clone(&token.value));
            }
        }
        tokens
    }

    /// Whether nobody is asked for a token.
    pub fn is_open(&self) -> bool {
        !self.any
    }

    /// What the bearer of a secret, or of none, may do.
    pub fn resolve(&self, secret: Option<&str>) -> Result<Access, UnknownToken> {
        if self.is_open() {
            return Ok(Access::default());
        }
        let token = match secret {
            Some(secret) => Arc::clone(self.by_digest.get(&digest(secret)).ok_or(UnknownToken)?),
            None => self
                .anonymous
                .clone()
                .unwrap_or_else(|| Arc::new(Token { accessor: ANONYMOUS.to_owned(), ..Token::default() })),
        };
        Ok(Access { token: Some(token) })
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
        self.token.is_none()
    }

    /// Whether something may be done with a name.
    pub fn allows(&self, resource: Resource, name: &str, wanted: Policy) -> bool {
        let Some(token) = &self.token else { return true };
        granted(&token.rules, resource, name) >= wanted
    }

    /// Whether something may be done with all names that begin so.
    pub fn allows_tree(&self, resource: Resource, prefix: &str, wanted: Policy) -> bool {
        let Some(token) = &self.token else { return true };
        let below = |rule: &Rule| rule.resource == resource && rule.name.starts_with(prefix) && rule.policy < wanted;
        granted(&token.rules, resource, prefix) >= wanted && !token.rules.iter().any(below)
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

    fn refusal(&self, resource: Resource, name: &str, wanted: Policy) -> Refusal {
        let accessor = self.token.as_ref().map_or(ANONYMOUS, |token| token.accessor.as_str());
        let what = format!("{}:{}", word(resource), if wanted == Policy::Read { "read" } else { "write" });
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

fn word(resource: Resource) -> &'static str {
    match resource {
        Resource::Key => "key",
        Resource::Service => "service",
        Resource::Node => "node",
        Resource::Session => "session",
        Resource::Event => "event",
        Resource::Agent => "agent",
        Resource::Operator => "operator",
    }
}

/// What the most specific rule says: the whole name before any beginning of it, a longer beginning before a shorter one,
/// less before more.
fn granted(rules: &[Rule], resource: Resource, name: &str) -> Policy {
    // Keys are what they are; nodes and services are compared without case.
    let folded = (resource != Resource::Key).then(|| name.to_lowercase());
    let name = folded.as_deref().unwrap_or(name);
    let applies = |rule: &&Rule| {
        let own = if resource == Resource::Key { rule.name.clone() } else { rule.name.to_lowercase() };
        rule.resource == resource && if rule.exact { own == name } else { name.starts_with(&own) }
    };
    let rank = |rule: &&Rule| (rule.exact, rule.name.len(), std::cmp::Reverse(rule.policy));
    rules.iter().filter(applies).max_by_key(rank).map_or(Policy::Deny, |rule| rule.policy)
}
