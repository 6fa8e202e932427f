//! What one step of a workflow is on Kubernetes: its pod, what runs in it, what it leaves, and what that means.

pub mod names;
pub mod outcome;
pub mod request;

pub use outcome::{Outcome, Phase, TaskResult, outcome};
pub use request::{Identity, PodRequest, Refusal, Settings, StepPod};
