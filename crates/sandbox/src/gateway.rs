//! The gateway: sessions, steps, files and shells of sandboxes over REST, for agents and people.
//!
//! A session is a Sandbox object, and its steps are with its sidecar: a gateway keeps connections and what it has watched,
//! and nothing that another would miss. Running a step is one call to the sidecar and no request to the API.

pub mod bodies;
mod bound;
pub(crate) mod channel;
mod claiming;
mod create;
mod execute;
mod failure;
mod files;
mod fork;
mod history;
mod keys;
mod listing;
mod managed;
mod metrics;
mod openapi;
mod operations;
mod pools;
mod reach;
mod read;
mod records;
mod replay;
mod restore;
mod routes;
mod server;
mod sessions;
mod shell;
pub(crate) mod sidecars;
mod text;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kube::Client;
use prometheus_client::registry::Registry;
use thane_runtime::net::Listener;
use thane_runtime::tls::ClientTls;
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::watch;

use crate::claims::Claims;
pub use keys::{Access, Key, KeyError, KeyList, Keys, Role};
pub use openapi::document;

/// What a gateway is told.
#[derive(Clone)]
pub struct Options {
    /// What it calls itself, in the Sandboxes it makes.
    pub name: String,
    /// Who is let in.
    pub access: Access,
    /// The namespace of those who name none.
    pub namespace: String,
    /// Bounds.
    pub limits: Limits,
}

impl Options {
    /// Everything at its default.
    pub fn new(name: impl Into<String>, access: Access) -> Self {
        Self { name: name.into(), access, namespace: "default".to_owned(), limits: Limits::default() }
    }
}

/// What everybody is held to. Above each the answer is 400, 413 or 429; connections wait to be accepted.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections of clients at once.
    pub connections_max: usize,
    /// A connection that says nothing for so long is closed.
    pub idle_max: Duration,
    /// A body of JSON.
    pub json_bytes_max: usize,
    /// A file that is uploaded.
    pub upload_bytes_max: u64,
    /// Steps of one request.
    pub steps_max: usize,
    /// Variables of a step, or of a session.
    pub env_max: usize,
    /// Files of a new session.
    pub files_max: usize,
    /// Output in one answer, of all its steps together.
    pub output_bytes_max: usize,
    /// Executions of a session at once, at this gateway; the rest is for the sidecar to say.
    pub executions_max: usize,
    /// Sessions of one fork.
    pub forks_max: u32,
    /// Pools of experiments that an owner has at once.
    pub managed_pools_max: usize,
    /// The longest anybody waits for a sandbox.
    pub wait_max: Duration,
    /// Sidecars it is connected to at once; beyond that those least recently used are let go of.
    pub sidecars_max: usize,
    /// How long answers under way may take when the gateway ends.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 8192,
            idle_max: Duration::from_mins(5),
            json_bytes_max: 8 << 20,
            upload_bytes_max: 1 << 30,
            steps_max: 256,
            env_max: 10_000,
            files_max: 256,
            output_bytes_max: 16 << 20,
            executions_max: 32,
            forks_max: 64,
            managed_pools_max: 20,
            wait_max: Duration::from_mins(5),
            sidecars_max: 4096,
            drain: Duration::from_secs(5),
        }
    }
}

/// What a gateway stands on.
pub struct Parts {
    /// The Kubernetes API with the pools and Sandboxes.
    pub client: Client,
    /// Who gets which pod.
    pub claims: Claims,
    /// How sidecars are spoken to.
    pub tls: ClientTls,
    /// Where clients arrive.
    pub listener: Box<dyn Listener>,
    /// Time.
    pub clock: SharedClock,
}

/// A gateway that runs.
#[derive(Clone)]
pub struct Gateway {
    ready: watch::Receiver<bool>,
}

impl Gateway {
    /// Waits until it knows the sessions there are; false when it ends before.
    pub async fn ready(&mut self) -> bool {
        self.ready.wait_for(|ready| *ready).await.is_ok()
    }
}

/// Serves until the tasks end.
pub fn start(options: Options, parts: Parts, registry: &mut Registry, tasks: &Tasks) -> Gateway {
    let metrics = metrics::Metrics::default();
    metrics.register(registry);
    let (ready, is_ready) = watch::channel(false);
    let shared = Arc::new(Shared {
        sidecars: sidecars::Sidecars::new(parts.tls, options.limits.sidecars_max, tasks.clone()),
        options,
        client: parts.client,
        claims: parts.claims,
        clock: parts.clock,
        tasks: tasks.clone(),
        sessions: sessions::Sessions::default(),
        pending: Arc::default(),
        busy: Arc::default(),
        document: Bytes::from(document()),
        metrics,
        ready,
    });
    tasks.spawn_essential("sandboxes", sessions::follow(Arc::clone(&shared)));
    server::serve(shared, parts.listener, tasks);
    Gateway { ready: is_ready }
}

/// What every answer is made from.
struct Shared {
    options: Options,
    client: Client,
    claims: Claims,
    clock: SharedClock,
    tasks: Tasks,
    sidecars: sidecars::Sidecars,
    sessions: sessions::Sessions,
    pending: Arc<keys::Pending>,
    busy: Arc<execute::Busy>,
    document: Bytes,
    metrics: metrics::Metrics,
    ready: watch::Sender<bool>,
}
