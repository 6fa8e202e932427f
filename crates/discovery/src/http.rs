//! The small HTTP server that the Consul API and the native API share: keep-alive, bounds on connections, headers and
//! bodies, and a way for hot reads to be answered without waiting.

mod answer;
mod connection;
mod metrics;
mod query;
mod rate;
mod room;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Method};
use thane_runtime::Tasks;
use thane_runtime::net::Listener;

pub use answer::{Answer, Content};
pub use metrics::Metrics;
pub use query::{Query, percent_decoded};
pub use rate::Rate;

/// The largest body that most requests may have; Consul's own bound on a value.
pub const BODY_BYTES_MAX: u64 = 512 * 1024;

/// A part of the API.
pub trait Routes: Send + Sync + 'static {
    /// What metrics call it.
    fn name(&self) -> &'static str;

    /// Whether a path is answered here.
    fn owns(&self, path: &str) -> bool;

    /// An answer that can be given at once, without the body and without waiting; `None`: ask [`Routes::answer`].
    fn quick(&self, head: &Head<'_>) -> Option<Answer>;

    /// Bytes of the largest body that is read for this request.
    fn body_max(&self, head: &Head<'_>) -> u64 {
        let _ = head;
        BODY_BYTES_MAX
    }

    /// The answer.
    fn answer(&self, request: Request) -> BoxFuture<'_, Answer>;
}

/// A request before its body is read, as it came over the wire.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path, not decoded.
    pub path: &'a str,
    /// What follows the question mark, not decoded.
    pub query: Option<&'a str>,
    /// All headers.
    pub headers: &'a HeaderMap,
}

/// A whole request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The path, decoded.
    pub path: String,
    /// The parameters, decoded.
    pub query: Query,
    /// All headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Result<Bytes, TooLarge>,
    /// Who asks.
    pub peer: SocketAddr,
}

/// What makes a reader wait.
const WAITING: [&str; 3] = ["index", "hash", "wait"];

impl Request {
    /// Whether whoever asks may be waiting for a change.
    pub fn may_wait(&self) -> bool {
        self.method == Method::GET && (self.query.has("index") || self.query.has("hash"))
    }

    /// The same, answered at once.
    #[must_use]
    pub fn at_once(&self) -> Self {
        Self { query: self.query.without(&WAITING), ..self.clone() }
    }
}

/// A body above [`Routes::body_max`]; none of it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    /// How long the client said it is.
    pub declared: Option<u64>,
}

/// What a listener is held to.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at once; more wait to be accepted. Blocked queries hold one each.
    pub connections_max: usize,
    /// Connections of one client address at once; further ones are closed.
    pub client_max: usize,
    /// The same for this machine, whose programs share their addresses.
    pub local_client_max: usize,
    /// Bytes of bodies at once, of which it is not known yet who sends them; requests beyond are refused.
    pub bodies_max: usize,
    /// A connection that stays silent for so long is closed.
    pub idle_max: Duration,
    /// A body of which nothing arrives for so long is given up.
    pub body_idle_max: Duration,
    /// Requests that a web page could have caused are refused: the listener is on loopback and asks for no credentials.
    pub local_only: bool,
    /// What one client may ask for; `None`: as much as it likes. An address is one, and whoever shows a token besides.
    pub rate: Option<Rate>,
}

impl Default for Limits {
    fn default() -> Self {
        // A little above the bound on blocked queries, so that others still get in.
        Self {
            connections_max: 12_000,
            client_max: 200,
            local_client_max: 4_096,
            bodies_max: 64 * 1024 * 1024,
            idle_max: Duration::from_mins(5),
            body_idle_max: Duration::from_secs(30),
            local_only: false,
            rate: None,
        }
    }
}

/// What is served.
pub struct Edge {
    /// The parts of the API; the first that owns a path answers.
    pub routes: Vec<Arc<dyn Routes>>,
    /// Bounds.
    pub limits: Limits,
    /// Counts.
    pub metrics: Metrics,
}

/// Serves until the group stops.
pub fn serve(listener: Box<dyn Listener>, edge: impl Into<Arc<Edge>>, tasks: &Tasks) {
    let (group, edge) = (tasks.clone(), edge.into());
    tasks.spawn_essential("discovery listener", async move {
        tokio::select! {
            () = connection::accept(edge, listener, &group) => {}
            () = group.cancelled() => {}
        }
    });
}
