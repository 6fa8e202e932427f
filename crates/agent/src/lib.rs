//! The agent: its connection to the hub, and its own cluster kept in step.

pub mod closed;
pub mod connection;
pub mod live;
pub mod redis;
pub mod role;
pub mod tunnel;
