//! The admin listener: health, metrics and a look inside.
//!
//! Plain HTTP without credentials. Health and metrics answer anyone who can connect; what
//! shows or changes the inside answers only callers on this machine, and no web page.

mod answer;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use answer::is_local_caller;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::config::Row;
use crate::config::units::Span;
use crate::metrics::Registry;
use crate::net::{BoxIo, Listener};
use crate::readiness::Readiness;
use crate::tasks::Tasks;
use crate::telemetry::LogLevels;

/// Connections served at once; a scraper needs one.
const CONNECTIONS_MAX: usize = 64;
/// A caller that does not send its request head in time is cut off.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// After an error of the listener itself, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The `admin` section of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct AdminConfig {
    /// Where health and metrics are served.
    pub address: SocketAddr,
    /// How long after SIGTERM callers are still served: until those who send them know that it goes.
    pub linger: Span,
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self { address: SocketAddr::from(([127, 0, 0, 1], 8000)), linger: Span::default() }
    }
}

/// What the admin listener shows.
pub struct Admin {
    /// The tasks of the process.
    pub tasks: Tasks,
    /// Its conditions.
    pub readiness: Readiness,
    /// What `/healthz` asks for; without conditions it is always well.
    pub health: Readiness,
    /// Its metrics.
    pub registry: Registry,
    /// Its logs.
    pub levels: LogLevels,
    /// Its configuration.
    pub config: Vec<Row>,
}

/// Serves until the group stops; what is shared can be served on several listeners.
pub fn serve(admin: impl Into<Arc<Admin>>, listener: Box<dyn Listener>, tasks: &Tasks) {
    let (group, admin) = (tasks.clone(), admin.into());
    tasks.spawn_essential("admin listener", async move {
        tokio::select! {
            () = accept(admin, listener, &group) => {}
            () = group.cancelled() => {}
        }
    });
}

async fn accept(admin: Arc<Admin>, listener: Box<dyn Listener>, tasks: &Tasks) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The semaphore is never closed.
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((io, peer)) => {
                let (admin, group) = (Arc::clone(&admin), tasks.clone());
                tasks.spawn("admin connection", async move {
                    tokio::select! {
                        () = connection(admin, io, peer) => {}
                        () = group.cancelled() => {}
                    }
                    drop(slot);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "admin listener could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(admin: Arc<Admin>, io: BoxIo, peer: SocketAddr) {
    let service = service_fn(move |request: Request<Incoming>| {
        let admin = Arc::clone(&admin);
        async move { Ok::<Response<Full<Bytes>>, Infallible>(answer::answer(&admin, request, peer).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(io), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, %peer, "admin connection ended early");
    }
}
