//! A Kubernetes API server on `thane-kv`.

pub mod authz;
pub mod builtin;
pub mod crd;
pub mod failure;
pub mod field;
pub mod openapi;
pub mod schema;
