//! Sandboxes: each gets a pod, is ready, and goes when its time has come.

mod decide;
mod metrics;
mod minder;
mod write;

pub(crate) use metrics::Metrics;
pub(crate) use minder::start;
