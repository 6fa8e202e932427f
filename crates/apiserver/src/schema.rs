//! Structural schemas: what fields an object may have, their defaults and what must hold of them.

pub mod builtin;
pub mod cel;
pub mod custom;
pub mod decode;
pub mod default;
pub mod formats;
pub mod node;
pub mod prune;
pub mod rules;
pub mod validate;

pub use builtin::builtin;
pub use custom::custom;
pub use decode::{custom_error, decode_error};
pub use default::default;
pub use node::{Link, ListType, MapType, Schema, Type};
pub use prune::prune;
pub use validate::{validate, validate_status};

#[cfg(test)]
mod tests;
