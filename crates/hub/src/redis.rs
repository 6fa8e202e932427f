//! The Redis that Argo CD talks to on the hub: the hub's own, but for what agents' Redis know about their applications.

mod connection;
mod desk;
mod follow;
mod info;
mod metrics;
mod session;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use thane_redis::client::Server;
use thane_runtime::net::{Listener, SharedNetwork};
use thane_runtime::tls::ServerTls;
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::Semaphore;

use crate::roster::Roster;

pub use desk::Desk;
pub use info::Compression;
pub use session::{Bounds, Owners};

use connection::Door;
use metrics::Metrics;

/// How long to wait after a connection could not be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// What the proxy is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// Bounds of one connection.
    pub bounds: Bounds,
    /// Connections at once.
    pub connections_max: usize,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How often agents are told that somebody still listens; they forget after ten minutes.
    pub ping_interval: Duration,
    /// How Argo CD compresses what it keeps.
    pub compression: Compression,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bounds: Bounds::default(),
            connections_max: 1_024,
            handshake_timeout: Duration::from_secs(10),
            ping_interval: Duration::from_mins(1),
            compression: Compression::Gzip,
        }
    }
}

/// What the proxy needs.
pub struct Parts {
    /// Where Argo CD connects; none if the proxy is off and only connections of agents are written down.
    pub listener: Option<(Box<dyn Listener>, Option<ServerTls>)>,
    /// The hub's Redis. Clients prove to it who they are; the name and password here are the hub's own.
    pub upstream: Server,
    /// How it is reached.
    pub network: SharedNetwork,
    /// Whose keys are whose.
    pub roster: Roster,
    /// Where agents are asked.
    pub desk: Arc<Desk>,
    /// Time.
    pub clock: SharedClock,
}

impl Owners for Roster {
    fn agent_of(&self, key: &str) -> Option<String> {
        Self::agent_of(self, key)
    }
}

/// Starts the proxy, and keeps what Argo CD shows of agents' clusters fresh.
pub fn start(config: Config, parts: Parts, registry: &mut Registry, tasks: &Tasks) {
    let metrics = Metrics::default();
    metrics.register(registry);
    parts.desk.register(registry);
    let written = info::Info {
        server: parts.upstream.clone(),
        network: Arc::clone(&parts.network),
        roster: parts.roster.clone(),
        compression: config.compression,
        clock: parts.clock,
        failures: metrics.info_failures.clone(),
    };
    let infos = tasks.child("cluster-info");
    infos.spawn("writer", written.run(infos.token()));
    let Some((listener, tls)) = parts.listener else { return };
    let connections = tasks.child("connections");
    let door = Arc::new(Door {
        owners: Arc::new(parts.roster),
        upstream: parts.upstream,
        network: parts.network,
        desk: parts.desk,
        tls,
        metrics,
        tasks: connections.clone(),
        config,
    });
    tasks.spawn_essential("listener", accept(listener, door, connections));
}

/// Accepts connections until the tasks are asked to stop.
async fn accept(listener: Box<dyn Listener>, door: Arc<Door>, tasks: Tasks) {
    let places = Arc::new(Semaphore::new(door.config.connections_max.max(1)));
    loop {
        if places.available_permits() == 0 {
            door.metrics.full.inc();
        }
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let accepted = tokio::select! {
            () = tasks.cancelled() => return,
            accepted = accepted => accepted,
        };
        match accepted {
            (Ok(place), Ok((stream, _))) => {
                let (door, stop) = (Arc::clone(&door), tasks.token());
                tasks.spawn("connection", async move {
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = door.serve(stream) => {}
                    }
                    drop(place);
                });
            }
            (Err(_), _) => return,
            (Ok(_), Err(error)) => {
                // Out of file descriptors, most likely: what is open goes on.
                tracing::warn!(%error, "cannot accept a connection to Redis");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}
