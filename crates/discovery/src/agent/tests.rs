//! Agents and a hub in one process, over real connections.

mod away;
pub(crate) mod bed;
mod defects;
mod net;
mod random;
mod together;
mod tokens;

pub(crate) use together::put;
