//! Live access: the Kubernetes API of every agent's cluster, reached through the hub.

mod answer;
mod audit;
pub mod bodies;
mod cut;
mod farewell;
mod followed;
pub mod listener;
pub mod metrics;
pub mod people;
pub mod policy;
pub mod reach;
mod session;
mod status;
pub mod target;
pub mod tunnel;

use std::sync::Arc;

use thane_runtime::SharedClock;
use tokio_util::sync::CancellationToken;

use crate::gate::{Gate, Peer};
pub use bodies::Bodies;
pub(crate) use followed::RESUME_TIMEOUT;
pub use listener::Authorities;
pub use metrics::Metrics;
pub use people::People;
pub use policy::{Policy, Rule};
pub use reach::{Body, Caller, Reach, Source, Unreachable};
pub(crate) use session::{Counted, SessionRecord};
pub(crate) use tunnel::STUCK_MAX;
pub use tunnel::Tunnels;

/// What stands behind the listener.
pub struct Proxy {
    /// Knows Argo CD's tokens and certificates.
    pub gate: Arc<Gate>,
    /// Knows people.
    pub people: People,
    /// Whose certificates are believed.
    pub authorities: Authorities,
    /// Our own agents.
    pub tunnels: Tunnels,
    /// Agents without a tunnel; none answers 501 for them.
    pub events: Option<Arc<dyn Reach>>,
    /// What may pass.
    pub policy: Policy,
    /// Room for bodies of requests.
    pub bodies: Bodies,
    /// Counts.
    pub metrics: Metrics,
    /// Time.
    pub clock: SharedClock,
}

/// Who is at the other end of a connection.
pub(crate) struct Client {
    /// As Argo CD: by the fleet's authority.
    peer: Peer,
    /// As a person: by the authority of the hub's API.
    person: Option<people::Person>,
    /// Cancelled when it has proved who it is, with a request that it may make.
    admitted: CancellationToken,
}
