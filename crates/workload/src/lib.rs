//! Workflows and AgentWorkloads.

pub mod spec;
