//! Which rows a change touches, and which topics those are in.

use crate::topic::{RowKey, Topic};

/// A row that changed, came or went.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Touch {
    /// What it is.
    pub(super) what: What,
    /// The row.
    pub(super) row: RowKey,
}

/// What was touched; names of nodes and services in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    Node(String),
    /// Node, id, and the service.
    Instance(String, String, String),
    Check(String, String),
    Name(String),
    Key(String),
    Session(String),
    Event(u64),
    Token(String),
    RuleSet(String),
}

impl Touch {
    /// The topics it is in for certain; a key is in those of its prefixes too.
    pub fn topics(&self) -> Vec<Topic> {
        match &self.what {
            What::Node(node) => vec![Topic::Nodes, Topic::Node(node.clone())],
            What::Instance(node, _, service) => {
                vec![Topic::Service(service.clone()), Topic::Node(node.clone()), Topic::Instances]
            }
            What::Check(node, _) => vec![Topic::Checks, Topic::Node(node.clone())],
            What::Name(_) => vec![Topic::Services],
            What::Key(key) => vec![Topic::Key(key.clone())],
            What::Session(_) => vec![Topic::Sessions],
            What::Event(_) => vec![Topic::Events],
            What::Token(_) | What::RuleSet(_) => vec![Topic::Tokens],
        }
    }

    /// The key it is about, which is in the topics of its prefixes.
    pub fn key(&self) -> Option<&str> {
        match &self.what {
            What::Key(key) => Some(key),
            _ => None,
        }
    }

    /// Whether it is in a topic.
    pub fn concerns(&self, topic: &Topic) -> bool {
        match (&self.what, topic) {
            (What::Key(key), Topic::Keys(prefix)) => key.starts_with(prefix.as_str()),
            _ => self.topics().contains(topic),
        }
    }
}
