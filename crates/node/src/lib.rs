//! Runs the pods of an embedded Kubernetes API on this machine.

mod cgroups;
mod decide;
mod environment;
mod files;
mod ids;
pub mod images;
mod launch;
mod pod;
mod quantity;
mod resources;
mod state;
mod status;
mod volumes;
