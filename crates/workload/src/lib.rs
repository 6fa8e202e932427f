//! Workflows and AgentWorkloads.

pub mod engine;
pub mod spec;
pub mod status;
pub mod steps;
