//! Workflows and `AgentWorkload`s: templating, validation, the controllers, what a step takes and leaves, policy.

pub mod agent;
pub mod policy;
