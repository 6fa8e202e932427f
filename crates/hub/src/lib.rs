//! The hub: whom it lets in, what it sends them, what it takes from them.

pub mod gate;
mod lines;
pub mod live;
pub mod proxy;
pub mod redis;
pub mod registration;
pub mod role;
pub mod roster;
pub mod transport;
