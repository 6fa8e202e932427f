//! Pools: some pods always wait, ready, to be claimed.

mod decide;
mod equipment;
mod keeper;
mod metrics;

pub(crate) use keeper::{Site, start};
pub(crate) use metrics::Metrics;
