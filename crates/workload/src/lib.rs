//! Workflows and AgentWorkloads.

pub mod steps;
