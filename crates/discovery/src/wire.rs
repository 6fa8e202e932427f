//! Between agents and the hub: the messages, and the hub's side of the service `konsul.agent.AgentSync`.

pub mod convert;
mod follow;
mod metrics;
mod service;
pub(crate) mod snapshot;
mod sync;

use std::sync::Arc;

use thane_api::wire::discovery::agent_sync_server::AgentSyncServer;
use thane_runtime::{SharedClock, Tasks};

use crate::hub::Registry;

pub use metrics::Metrics;
pub use service::Desk;

/// Bytes of one message.
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of what is pushed of one topic at once, a quarter of a message: more is fetched by who reads it. Tests do not
/// need that much.
const PUSHED_BYTES_MAX: usize = 1024 * 1024 * if cfg!(test) { 2 } else { 16 };
/// Bytes of a snapshot, however it travels.
pub const SNAPSHOT_BYTES_MAX: usize = 256 * 1024 * 1024;
/// The header by which a client says that it cannot unpack.
pub(crate) const COMPRESSION: &str = "thane-compression";
/// Its value for that.
pub(crate) const NO_COMPRESSION: &str = "none";
/// How what agents send may be packed.
pub(crate) const SNAPPY: &str = "snappy";

/// The service, for whoever listens. Every request must carry a [`thane_api::AgentName`] extension, put there by whoever
/// found out who calls; requests without one are refused.
pub fn service(registry: Arc<Registry>, metrics: Metrics, clock: SharedClock, tasks: &Tasks) -> AgentSyncServer<Desk> {
    AgentSyncServer::new(Desk::new(registry, metrics, clock, tasks.clone()))
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// The service itself, for tests that call it directly.
#[cfg(test)]
pub(crate) fn desk(registry: &Arc<Registry>, clock: SharedClock, tasks: &Tasks) -> Desk {
    Desk::new(Arc::clone(registry), Metrics::default(), clock, tasks.clone())
}
