//! Structural schemas: what fields an object may have, their defaults and what must hold of them.

pub(crate) mod builtin;
pub(crate) mod cel;
pub(crate) mod custom;
pub(crate) mod decode;
pub(crate) mod default;
pub(crate) mod formats;
pub(crate) mod node;
pub(crate) mod prune;
pub(crate) mod rules;
pub(crate) mod validate;

pub(crate) use builtin::builtin;
pub(crate) use custom::custom;
pub(crate) use decode::{custom_error, decode_error};
pub(crate) use default::default;
pub(crate) use node::{Link, ListType, MapType, Schema, Type};
pub(crate) use prune::{fill_null_entries, prune};
pub(crate) use validate::{validate, validate_status};

#[cfg(test)]
mod tests;
