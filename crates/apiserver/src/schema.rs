//! Structural schemas: what fields an object may have, their defaults and what must hold of them.

pub mod node;

pub use node::{Link, ListType, MapType, Schema, Type};
