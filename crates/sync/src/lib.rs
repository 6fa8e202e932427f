//! The protocol between hub and agents as pure state machines: no I/O, no clock, no randomness.

pub mod failure;
pub mod inbox;
mod jitter;
pub mod lane;
pub mod object;
pub mod outbox;
mod time;

pub use lane::Lane;
pub use time::Now;
