//! The protocol between hub and agents as pure state machines: no I/O, no clock, no randomness.

pub mod checksum;
pub mod mapping;
pub mod object;
mod time;

pub use time::Now;
