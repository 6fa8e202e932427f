//! A Kubernetes API server on `thane-kv`.

pub mod failure;
pub mod field;
pub mod schema;
