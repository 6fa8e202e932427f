//! A Kubernetes API server on `thane-kv`.

pub mod authz;
pub mod builtin;
pub mod failure;
pub mod field;
pub mod metadata;
pub mod names;
pub mod quantity;
pub mod schema;
pub mod selector;
pub mod table;
