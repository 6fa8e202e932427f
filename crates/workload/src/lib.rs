//! Workflows and `AgentWorkload`s: templating, validation, the controllers, what a step takes and leaves, policy.

pub mod agent;
pub mod condition;
pub mod controller;
pub mod engine;
pub mod expression;
pub mod lint;
pub mod policy;
pub mod selector;
pub mod spec;
pub mod status;
pub mod steps;
pub mod template;
pub mod validate;
