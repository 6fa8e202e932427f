//! Workflows and AgentWorkloads.

pub mod condition;
pub mod controller;
pub mod engine;
pub mod expression;
pub mod lint;
pub mod selector;
pub mod spec;
pub mod status;
pub mod steps;
pub mod template;
pub mod validate;
