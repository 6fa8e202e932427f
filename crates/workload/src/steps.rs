//! What one step of a workflow is on Kubernetes: its pod, what runs in it, what it leaves, and what that means.

pub mod artifacts;
pub mod inside;
pub mod location;
pub mod names;
pub mod outcome;
pub mod pod;
pub mod request;
pub mod runner;

pub use outcome::{Outcome, Phase, TaskResult, outcome, recorded};
pub(crate) use pod::SCHEDULING;
pub use pod::pod;
pub use request::{Identity, PodRequest, Refusal, Settings, StepPod};
