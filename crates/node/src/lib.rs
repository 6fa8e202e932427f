//! Runs the pods of an embedded Kubernetes API on this machine.
//!
//! What is to be done is decided in functions that touch nothing (`decide`, `status`, `launch`, `environment`,
//! `volumes`, `cgroups`); the executor, a program of its own, makes namespaces and mounts; `runner` stands between.

mod access;
mod addresses;
mod cgroups;
mod changes;
mod decide;
mod disks;
mod egress;
mod environment;
mod files;
pub mod host;
mod ids;
pub mod images;
mod launch;
mod layers;
mod metrics;
mod netns;
mod node;
mod pod;
mod probe;
mod program;
mod quantity;
mod record;
mod references;
mod resources;
mod rooms;
mod runner;
mod shared;
mod state;
mod status;
mod volumes;

pub use addresses::Addresses;
pub use node::{Error, Node};
pub use program::write_executor;
pub use shared::Config;
