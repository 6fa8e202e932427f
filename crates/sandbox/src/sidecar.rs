//! The sidecar of a sandbox: runs steps in it one at a time and records them, moves files, brings back what was.
//!
//! What a record says and which steps led to the present files is decided in functions that touch nothing (`outcome`,
//! `steps::branch`, `steps::frames`); `desk` holds what is known of one sandbox, `run` runs a step, `services` speak gRPC.

mod attach;
mod desk;
mod executor;
mod files;
mod follow;
mod metrics;
mod outcome;
mod restore;
mod run;
mod serve;
mod services;
mod shell;
mod signals;
mod steps;

pub use follow::Sidecars;
pub use metrics::Metrics;
pub use serve::{OneRoom, Served, serve};
pub use thane_executor::plan::SOCKET;
