//! Who calls, as found out by whoever let them in.

/// The agent a call comes from: its certificate's name. A request extension that only the process itself can set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentName(pub String);
