//! Between agents and the hub: the messages, and the hub's side of the service `konsul.agent.AgentSync`.

pub mod convert;
mod follow;
mod metrics;
mod service;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use thane_api::wire::discovery::agent_sync_server::AgentSyncServer;
use thane_runtime::{SharedClock, Tasks};

use crate::backend::Backend;
use crate::model::Index;
use crate::topic::{Delta, Topic};

pub use metrics::Metrics;
pub use service::Desk;

/// Bytes of one message.
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The header by which a client says that it cannot unpack.
pub(crate) const COMPRESSION: &str = "thane-compression";
/// Its value for that.
pub(crate) const NO_COMPRESSION: &str = "none";

/// The registry as the wire needs it.
pub trait Source: Backend {
    /// What happened to a topic since an index; all of it if that cannot be said any more.
    fn delta(&self, topic: &Topic, since: Index) -> Delta;

    /// The registry's index.
    fn index(&self) -> Index;

    /// An agent gave a sign of life.
    fn agent_seen(&self, agent: &str);

    /// How long an agent may be silent, in seconds.
    fn lease_seconds(&self) -> u64;
}

/// The service, for whoever listens. Every request must carry a [`thane_api::AgentName`] extension, put there by whoever
/// found out who calls; requests without one are refused.
pub fn service(source: Arc<dyn Source>, metrics: Metrics, clock: SharedClock, tasks: &Tasks) -> AgentSyncServer<Desk> {
    AgentSyncServer::new(Desk::new(source, metrics, clock, tasks.clone()))
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}
