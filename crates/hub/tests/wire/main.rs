//! Hub and agent over real connections: who gets in, what passes, and what is refused without harm to others.

mod bed;
mod events;
mod failures;
mod handshake;
mod identity;
mod live;
mod websocket;
