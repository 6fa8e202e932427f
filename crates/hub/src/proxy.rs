//! Live access: the Kubernetes API of every agent's cluster, reached through the hub.

pub mod reach;
pub mod tunnel;

pub use reach::{Body, Caller, Reach, Source, Unreachable};
