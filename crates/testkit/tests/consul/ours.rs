//! Our side in this process: a hub that is asked directly, or an agent before it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use thane_api::AgentName;
use thane_discovery::agent::{self, Adjustable, Agent};
use thane_discovery::backend::{Backend, Place};
use thane_discovery::consul::{self, Consul};
use thane_discovery::http::{Edge, Limits, Metrics, serve};
use thane_discovery::hub::{Options, Registry};
use thane_discovery::{Topic, wire};
use thane_kv::{MemoryOptions, MemoryStore};
use thane_runtime::net::{Listener, Network, Tcp};
use thane_runtime::{SystemClock, Tasks};
use tonic::service::Routes;
use tower::ServiceExt;

/// A registry and its HTTP API.
pub(crate) struct Ours {
    /// Where it listens.
    pub(crate) address: String,
    tasks: Tasks,
}

impl Ours {
    /// A hub; its own node has this name.
    pub(crate) async fn hub(node: &str) -> Self {
        Self::hub_and_registry(node).await.0
    }

    /// The same, with what is behind it.
    pub(crate) async fn hub_and_registry(node: &str) -> (Self, Arc<Registry>) {
        let (tasks, _) = Tasks::root("hub");
        let registry = registry(node, &tasks).await;
        let backend: Arc<dyn Backend> = Arc::clone(&registry) as _;
        (Self { address: api(backend, &tasks).await, tasks }, registry)
    }

    /// An agent on a node of this name, and the hub behind it.
    pub(crate) async fn agent(node: &str) -> Self {
        let (tasks, _) = Tasks::root("agent");
        let registry = registry("hub", &tasks).await;
        let door = door(Arc::clone(&registry), node, &tasks).await;
        let adjustable = Adjustable { hubs: vec![door], ..Adjustable::default() };
        let options = agent::Options { adjustable, ..agent::Options::new(node) };
        let store = MemoryStore::new(MemoryOptions::default());
        let agent = Agent::start(options, store, Tcp::shared(), None, SystemClock::shared(), tasks.child("agent"));
        let agent = agent.await.unwrap();
        let topic = Topic::Node(node.to_owned());
        loop {
            let wake = registry.wake(&topic);
            if !registry.topic(&topic).await.rows.is_empty() {
                break;
            }
            wake.await;
        }
        Self { address: api(agent, &tasks).await, tasks }
    }

    /// Ends it.
    pub(crate) async fn stop(self) {
        self.tasks.shutdown(Duration::from_secs(5)).await;
    }
}

async fn listener() -> Box<dyn Listener> {
    Tcp.bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap()
}

async fn registry(node: &str, tasks: &Tasks) -> Arc<Registry> {
    let place = Place {
        datacenter: "dc1".to_owned(),
        node: node.to_owned(),
        node_id: "00000000-0000-4000-8000-000000000001".to_owned(),
        address: "127.0.0.1".to_owned(),
    };
    let store = MemoryStore::new(MemoryOptions::default());
    let options = Options { place, ..Options::default() };
    Registry::open(store, options, SystemClock::shared(), tasks).await.unwrap()
}

async fn api(backend: Arc<dyn Backend>, tasks: &Tasks) -> String {
    let routes = Consul::new(backend, consul::Options::default(), consul::Metrics::default());
    let listener = listener().await;
    let address = listener.local_addr().to_string();
    let edge = Edge { routes: vec![Arc::new(routes)], limits: Limits::default(), metrics: Metrics::default() };
    serve(listener, edge, tasks);
    address
}

/// Where an agent comes in; whoever comes in here is that agent.
async fn door(registry: Arc<Registry>, agent: &str, tasks: &Tasks) -> String {
    let service = wire::service(registry, wire::Metrics::default(), SystemClock::shared(), tasks);
    let (routes, name, group) = (Routes::new(service), AgentName(agent.to_owned()), tasks.clone());
    let listener = listener().await;
    let address = listener.local_addr().to_string();
    tasks.spawn("door", async move {
        loop {
            let accepted = tokio::select! {
                () = group.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let (stream, _) = accepted.unwrap();
            let (routes, name, stopped) = (routes.clone(), name.clone(), group.token());
            group.spawn("connection", async move {
                let service = service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
                    request.extensions_mut().insert(name.clone());
                    routes.clone().oneshot(request.map(tonic::body::Body::new))
                });
                let serving = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service);
                tokio::select! {
                    () = stopped.cancelled() => {}
                    _ = serving => {}
                }
            });
        }
    });
    address
}
