//! A Kubernetes API server on `thane-kv`.

pub mod audit;
pub mod authn;
pub mod authz;
pub mod bootstrap;
pub mod builtin;
pub mod encryption;
pub mod failure;
pub mod field;
pub mod inflight;
pub mod metadata;
pub mod names;
pub mod patch;
pub mod quantity;
pub mod review;
pub mod schema;
pub mod selector;
pub mod table;
