//! `AgentWorkload`s: a policy lets one start, it becomes a Workflow of the template it names, a policy or a person opens its
//! gates, and its end is what both say.

mod answers;
mod conditions;
pub mod controller;
mod create;
pub mod definition;
mod doubt;
mod history;
pub mod kind;
mod plan;
#[cfg(test)]
mod tests;
mod unused;
mod view;

pub use answers::Approvals;
pub use create::Services;
pub use kind::{AgentWorkload, AgentWorkloadSpec, AgentWorkloadStatus, GateAnswer};
pub use plan::{Ask, Effect, Planned, Seen, plan};
pub use view::WorkflowView;
