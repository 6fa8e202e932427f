//! Agents and a hub in one process, over real connections.

mod away;
pub(crate) mod bed;
mod defects;
mod random;
mod together;
mod tokens;
