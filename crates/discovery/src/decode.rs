//! Request bodies as Consul's clients write them: keys in any case, with the older spellings, durations as text or
//! numbers. What Consul refuses is refused in its words; what it never reads after the value is not read here either.

mod acl;
mod bodies;
mod check;
pub mod duration;
mod fields;
mod json;
mod shape;
mod shapes;
mod txn;
mod validate;

#[cfg(test)]
mod tests;

pub use acl::{Link, PolicyBody, TokenBody, bootstrap_secret, policy, token};
pub use bodies::{check, check_update, deregister, register, service, session};
pub use txn::{OPERATIONS_MAX, txn};

/// The check that stands for a node's agent.
pub const AGENT_CHECK: &str = "serfHealth";
