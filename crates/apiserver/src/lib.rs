//! A Kubernetes API server on `thane-kv`.

pub mod authz;
pub mod builtin;
pub mod failure;
pub mod field;
pub mod patch;
pub mod protobuf;
pub mod schema;
