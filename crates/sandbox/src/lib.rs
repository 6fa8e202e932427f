//! Sandboxes for AI agents: pools that keep some warm, claims, the sidecar that runs steps in them, and the gateway.
//!
//! What a pool lacks, who gets which pod and what a step ends as is decided in functions that touch nothing; controllers,
//! sidecar and gateway move objects and bytes. Everything is reached through the Kubernetes API and each pod's sidecar, so
//! that an embedded API with its pod runner and a cluster with kubelets are the same to all of it.

pub mod admission;
mod ask;
pub mod certificates;
pub mod claims;
mod conditions;
mod definitions;
pub mod direct;
pub mod gateway;
pub mod kinds;
pub mod lease;
pub mod names;
pub mod operator;
pub mod pods;
mod pools;
mod reconciled;
mod sandboxes;
pub mod sidecar;
mod watched;

pub use definitions::definitions;
