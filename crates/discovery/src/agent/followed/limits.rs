//! How much is held, and for how long.

use std::time::Duration;

use crate::topic::Topic;

/// What topics are kept for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Topics at most.
    pub entries: usize,
    /// About how many bytes all that is held takes. Beyond it what was read least recently goes; what does not fit even so
    /// is asked of the hub each time.
    pub bytes: usize,
    /// About how many bytes of services, nodes and checks are held open; those read least recently are held folded.
    pub open_bytes: usize,
    /// Services and nodes nobody read for so long go.
    pub service_ttl: Duration,
    /// Keys, and what is like them.
    pub kv_ttl: Duration,
    /// Checks.
    pub health_ttl: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries: 10_000,
            bytes: 128 * 1024 * 1024,
            open_bytes: 2 * 1024 * 1024,
            service_ttl: Duration::from_mins(1),
            kv_ttl: Duration::from_mins(5),
            health_ttl: Duration::from_secs(30),
        }
    }
}

/// What kind of thing a topic is, for limits and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::agent) enum Sort {
    /// Services and nodes.
    Service,
    /// Keys, sessions, events, tokens.
    Kv,
    /// Checks.
    Health,
}

impl Sort {
    /// Of a topic.
    pub(in crate::agent) fn of(topic: &Topic) -> Self {
        match topic {
            Topic::Service(_) | Topic::Services | Topic::Instances | Topic::Nodes | Topic::Node(_) => Self::Service,
            Topic::Checks => Self::Health,
            Topic::Key(_) | Topic::Keys(_) | Topic::Sessions | Topic::Events | Topic::Tokens => Self::Kv,
        }
    }

    /// The word in metrics.
    pub(in crate::agent) fn as_str(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Kv => "kv",
            Self::Health => "health",
        }
    }
}
