//! Workflows and AgentWorkloads.

pub mod condition;
pub mod expression;
pub mod lint;
pub mod selector;
pub mod spec;
pub mod template;
pub mod validate;
