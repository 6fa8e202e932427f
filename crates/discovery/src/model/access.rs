//! Tokens, and what they may do.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A key to the registry. Only a digest of its secret is stored and travels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Token {
    /// Names it in listings and logs.
    pub accessor: String,
    /// SHA-256 of the secret, hexadecimal.
    pub secret_digest: String,
    /// For people.
    pub description: String,
    /// What it may do besides what its rule sets say; the most specific rule decides, `deny` wins among equals.
    pub rules: Vec<Rule>,
    /// Rule sets it has, by id; one that is gone says nothing.
    pub rule_sets: Vec<String>,
    /// Services it may be: it registers them and finds all others.
    pub services: Vec<String>,
    /// Nodes it may be, with their datacenter.
    pub nodes: Vec<NodeIdentity>,
    /// When it was made; the registry says.
    pub created: Option<Timestamp>,
    /// From then on nobody knows it; `None`: it does not expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

impl Token {
    /// Whether its time is over.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

/// A node that a token may be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeIdentity {
    /// The node.
    pub node: String,
    /// Where it is.
    pub datacenter: String,
}

/// Rules with a name that tokens share: Consul's policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleSet {
    /// A UUID.
    pub id: String,
    /// What people call it; unique.
    pub name: String,
    /// For people.
    pub description: String,
    /// The rules as they were written.
    pub text: String,
    /// What that means.
    pub rules: Vec<Rule>,
    /// Where they hold; everywhere if empty.
    pub datacenters: Vec<String>,
}

/// What a token may do with some names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// What is ruled.
    pub resource: Resource,
    /// The name, or the beginning of it.
    pub name: String,
    /// Whether `name` is the whole name.
    #[serde(default)]
    pub exact: bool,
    /// What is allowed.
    pub policy: Policy,
}

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resource {
    /// Keys.
    Key,
    /// Services and their checks.
    Service,
    /// Nodes and their checks.
    Node,
    /// Sessions, by node.
    Session,
    /// Events, by name.
    Event,
    /// The agent's own endpoints.
    Agent,
    /// What an operator looks at.
    Operator,
    /// Tokens, rule sets and snapshots.
    Acl,
}

impl Resource {
    /// All there are.
    pub const ALL: [Self; 8] =
        [Self::Key, Self::Service, Self::Node, Self::Session, Self::Event, Self::Agent, Self::Operator, Self::Acl];

    /// The word for it in rules and refusals.
    pub fn word(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Service => "service",
            Self::Node => "node",
            Self::Session => "session",
            Self::Event => "event",
            Self::Agent => "agent",
            Self::Operator => "operator",
            Self::Acl => "acl",
        }
    }

    /// Whether a rule about it says for which names.
    pub fn is_named(self) -> bool {
        !matches!(self, Self::Operator | Self::Acl)
    }
}

/// What is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Nothing.
    Deny,
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
}

impl Policy {
    /// The word for it in rules.
    pub fn word(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}
