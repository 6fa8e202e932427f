//! The protocol between hub and agents as pure state machines: no I/O, no clock, no randomness.

pub mod agent;
pub mod checksum;
pub mod failure;
pub mod hub;
pub mod inbox;
mod jitter;
pub mod lane;
pub mod link;
pub mod mapping;
pub mod object;
pub mod outbox;
pub mod resync;
pub mod router;
pub mod store;
mod time;
pub mod work;

pub use lane::Lane;
pub use time::Now;
