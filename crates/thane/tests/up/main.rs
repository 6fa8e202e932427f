//! `thane up` as people run it: what it writes, what it survives, what it refuses.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../support/place.rs"]
mod place;

mod commands;
mod crash;
mod discovery;
mod refusals;
mod restart;
mod running;
mod secrets;
mod tokens;
