//! Nouns of Thane: error codes with exit codes and next steps, and the kinds every server has. No I/O.

pub mod code;
pub mod event;
pub mod frame;
pub mod identity;
pub mod kinds;
pub mod live;
pub mod redis;
pub mod wire;

pub use code::{Code, Exit};
pub use identity::AgentName;
