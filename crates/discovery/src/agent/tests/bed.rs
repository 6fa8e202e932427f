//! A hub with doors, and agents that come in by them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use thane_api::AgentName;
use thane_kv::{MemoryOptions, MemoryStore, Store};
use thane_runtime::net::{Network, Tcp};
use thane_runtime::{Clock, SharedClock, SystemClock, Tasks};
use tonic::service::Routes;
use tower::ServiceExt;

use crate::agent::{Adjustable, Agent, Options};
use crate::backend::{Backend, Consistency};
use crate::hub::{self, Registry};
use crate::model::{Check, CheckDefinition, Service, Status};
use crate::topic::{Row, Topic, TopicData};
use crate::wire;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A clock that goes as the test's does, which may be faster than the machine's.
struct Paced {
    started: tokio::time::Instant,
}

impl Clock for Paced {
    fn now(&self) -> jiff::Timestamp {
        SystemClock::new().now()
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}

pub(crate) fn store() -> Arc<dyn Store> {
    MemoryStore::new(MemoryOptions::default())
}

/// A hub.
pub(crate) struct Hub {
    pub(crate) registry: Arc<Registry>,
    pub(crate) metrics: wire::Metrics,
    pub(crate) store: Arc<dyn Store>,
    tasks: Tasks,
    routes: Routes,
}

/// Where one agent comes in; whoever comes in here is that agent.
pub(crate) struct Door {
    pub(crate) address: String,
    tasks: Tasks,
}

impl Hub {
    pub(crate) async fn start() -> Self {
        Self::on(store()).await
    }

    pub(crate) async fn on(store: Arc<dyn Store>) -> Self {
        let (tasks, _) = Tasks::root("hub");
        let clock = SystemClock::shared();
        let registry =
            Registry::open(Arc::clone(&store), hub::Options::default(), Arc::clone(&clock), &tasks).await.unwrap();
        let metrics = wire::Metrics::default();
        let service = wire::service(Arc::clone(&registry), metrics.clone(), clock, &tasks);
        Self { registry, metrics, store, tasks, routes: Routes::new(service) }
    }

    pub(crate) async fn door(&self, agent: &str) -> Door {
        self.door_at(agent, SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    pub(crate) async fn door_at(&self, agent: &str, at: SocketAddr) -> Door {
        let listener = Tcp.bind(at).await.unwrap();
        let address = listener.local_addr().to_string();
        let (tasks, _) = Tasks::root("door");
        let (routes, name, group) = (self.routes.clone(), AgentName(agent.to_owned()), tasks.clone());
        tasks.spawn("accept", async move {
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
                    let serving =
                        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service);
                    tokio::select! {
                        () = stopped.cancelled() => {}
                        _ = serving => {}
                    }
                });
            }
        });
        Door { address, tasks }
    }

    /// Waits until a topic is as expected.
    pub(crate) async fn until(&self, topic: &Topic, expected: impl Fn(&TopicData) -> bool) -> Arc<TopicData> {
        until(self.registry.as_ref(), topic, expected).await
    }

    /// Ends as a killed process would.
    pub(crate) async fn stop(self) -> Arc<dyn Store> {
        self.tasks.shutdown(Duration::from_secs(5)).await;
        self.store
    }
}

impl Door {
    /// Cuts off who came in, and lets nobody in any more. Gives back where it was.
    pub(crate) async fn close(self) -> SocketAddr {
        self.tasks.shutdown(Duration::from_secs(5)).await;
        self.address.parse().unwrap()
    }
}

/// An agent.
pub(crate) struct Spoke {
    pub(crate) agent: Arc<Agent>,
    pub(crate) store: Arc<dyn Store>,
    tasks: Tasks,
}

impl std::ops::Deref for Spoke {
    type Target = Arc<Agent>;

    fn deref(&self) -> &Arc<Agent> {
        &self.agent
    }
}

impl Spoke {
    pub(crate) async fn start(name: &str, hubs: &[&Door]) -> Self {
        Self::on(name, hubs, store()).await
    }

    pub(crate) async fn on(name: &str, hubs: &[&Door], store: Arc<dyn Store>) -> Self {
        let hubs: Vec<String> = hubs.iter().map(|door| door.address.clone()).collect();
        let adjustable = Adjustable { hubs, ..Adjustable::default() };
        Self::with(Options { adjustable, is_script_allowed: true, ..Options::new(name) }, store).await
    }

    pub(crate) async fn with(options: Options, store: Arc<dyn Store>) -> Self {
        let (tasks, _) = Tasks::root("agent");
        let clock: SharedClock = Arc::new(Paced { started: tokio::time::Instant::now() });
        let agent = Agent::start(options, Arc::clone(&store), Tcp::shared(), None, clock, tasks.clone());
        Self { agent: agent.await.unwrap(), store, tasks }
    }

    /// Waits until what it reads is as expected.
    pub(crate) async fn until(&self, topic: &Topic, expected: impl Fn(&TopicData) -> bool) -> Arc<TopicData> {
        until(self.agent.as_ref(), topic, expected).await
    }

    /// Waits until the hub has everything.
    pub(crate) async fn settled(&self) {
        let waiting = async {
            loop {
                let change = self.agent.local_change();
                if self.agent.is_connected() && self.agent.pending() == 0 {
                    return;
                }
                change.await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("the hub has not taken everything");
    }

    /// Ends as a killed process would; what it had on disk stays.
    pub(crate) async fn stop(self) -> Arc<dyn Store> {
        self.tasks.shutdown(Duration::from_secs(5)).await;
        self.store
    }
}

pub(crate) async fn until(
    backend: &dyn Backend,
    topic: &Topic,
    expected: impl Fn(&TopicData) -> bool,
) -> Arc<TopicData> {
    let waiting = async {
        loop {
            let wake = backend.wake(topic);
            match backend.read(topic, Consistency::Default).await {
                Ok(reading) if expected(&reading.data) => return reading.data,
                Ok(_) => wake.await,
                // The hub is away: it comes back by itself.
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    waited.unwrap_or_else(|_| panic!("{topic:?} did not become what was expected"))
}

pub(crate) fn service(id: &str, name: &str, port: u16) -> Service {
    Service { id: id.to_owned(), name: name.to_owned(), port, ..Service::default() }
}

pub(crate) fn ttl(id: &str) -> Check {
    check(id, CheckDefinition { ttl: Duration::from_mins(10), ..CheckDefinition::default() })
}

pub(crate) fn check(id: &str, definition: CheckDefinition) -> Check {
    Check {
        id: id.to_owned(),
        name: id.to_owned(),
        status: Status::Critical,
        notes: String::new(),
        output: String::new(),
        service_id: String::new(),
        service_name: String::new(),
        service_tags: Vec::new(),
        kind: String::new(),
        definition: definition.into(),
    }
}

pub(crate) fn web() -> Topic {
    Topic::Service("web".to_owned())
}

/// The instances of a topic: node, id, port.
pub(crate) fn instances(data: &TopicData) -> Vec<(String, String, u16)> {
    let rows = data.rows.iter().filter_map(|row| match row {
        Row::Instance(it) => Some((it.node.value.name.clone(), it.service.value.id.clone(), it.service.value.port)),
        _ => None,
    });
    rows.collect()
}

/// The value of a key.
pub(crate) fn value(data: &TopicData) -> Option<String> {
    data.rows.iter().find_map(|row| match row {
        Row::Key(entry) => Some(String::from_utf8_lossy(&entry.value.value).into_owned()),
        _ => None,
    })
}
