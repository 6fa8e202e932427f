//! Our side: a hub's registry behind the same API, in this process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thane_discovery::backend::Place;
use thane_discovery::consul::{self, Consul};
use thane_discovery::http::{Edge, Limits, Metrics, serve};
use thane_discovery::hub::{Options, Registry};
use thane_kv::{MemoryOptions, MemoryStore};
use thane_runtime::net::{Network, Tcp};
use thane_runtime::{SystemClock, Tasks};

/// A registry and its HTTP API.
pub struct Ours {
    /// Where it listens.
    pub address: String,
    tasks: Tasks,
}

impl Ours {
    /// Starts it on a free loopback port; the hub's own node has this name.
    pub async fn start(node: &str) -> Self {
        let (tasks, _) = Tasks::root("test");
        let place = Place {
            datacenter: "dc1".to_owned(),
            node: node.to_owned(),
            node_id: "00000000-0000-4000-8000-000000000001".to_owned(),
            address: "127.0.0.1".to_owned(),
        };
        let options = Options { place, ..Options::default() };
        let store = MemoryStore::new(MemoryOptions::default());
        let registry = Registry::open(store, options, SystemClock::shared(), &tasks).await.unwrap();
        let routes = Consul::new(registry, consul::Options::default(), consul::Metrics::default());
        let listener = Tcp.bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = listener.local_addr().to_string();
        let edge = Edge { routes: vec![Arc::new(routes)], limits: Limits::default(), metrics: Metrics::default() };
        serve(listener, edge, &tasks);
        Self { address, tasks }
    }

    /// Ends it.
    pub async fn stop(self) {
        self.tasks.shutdown(Duration::from_secs(5)).await;
    }
}
