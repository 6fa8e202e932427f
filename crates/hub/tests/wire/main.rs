//! Hub and agent over real connections: who gets in, what passes, and what is refused without harm to others.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answered;
mod asked;
mod bed;
mod door;
mod events;
mod failures;
mod guests;
mod handshake;
mod identity;
mod live;
mod streams;
mod tunnel;
mod websocket;
