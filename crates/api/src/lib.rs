//! Nouns of Thane: error codes with exit codes and next steps, and the kinds every server has. No I/O.

pub mod code;
pub mod event;
pub mod frame;
pub mod kinds;
pub mod wire;

pub use code::{Code, Exit};

/// The agent a call comes from, attached to the request by whoever looked at its certificate. Nothing an agent sends can
/// set it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentName(pub String);
