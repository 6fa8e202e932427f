//! Workflows and AgentWorkloads.

pub mod condition;
pub mod expression;
pub mod selector;
pub mod spec;
pub mod steps;
pub mod template;
