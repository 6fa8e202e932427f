//! The registry for clients that have no agent yet: beside it is an agent of the hub's own, which they register with.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use hyper::body::Bytes;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prometheus_client::registry::Registry as Metrics;
use thane_api::AgentName;
use thane_discovery::agent::{Adjustable, Agent, Options};
use thane_discovery::backend::{Backend, Caller, Consistency, LocalAgent, Place, Reading, Unavailable, Wake};
use thane_discovery::command::{Command, Done, Refusal};
use thane_discovery::hub::Registry;
use thane_discovery::model::Index;
use thane_discovery::topic::Topic;
use thane_runtime::Tasks;
use thane_runtime::net::{BindError, BoxIo, Connector, Listener, Network, SharedNetwork};
use tonic::service::Routes;
use tower::ServiceExt;

use super::Ground;
use crate::failure::Failure;

/// What the hub's own agent is called; no certificate can have this name.
const NAME: &str = "@hub";
/// Where the hub's own agent finds its hub. Nobody can listen on that port, so it is nobody else's address.
const INSIDE: (&str, u16) = ("localhost", 0);
/// Bytes on their way between the two.
const PIPE_BYTES: usize = 64 * 1024;

/// Starts the hub's own agent, on its own file, and puts the registry in front of it.
pub(crate) async fn start(
    file: &Path,
    place: &Place,
    registry: Arc<Registry>,
    routes: Routes,
    ground: &Ground,
) -> Result<Arc<dyn Backend>, Failure> {
    let (host, port) = INSIDE;
    let options = Options {
        id: NAME.to_owned(),
        address: place.address.clone(),
        datacenter: place.datacenter.clone(),
        is_compressed: false,
        adjustable: Adjustable { hubs: vec![format!("{host}:{port}")], ..Adjustable::default() },
        ..Options::new(place.node.clone())
    };
    let tasks = ground.tasks.child("own agent");
    let network = Arc::new(Inside { routes, outside: Arc::clone(&ground.network), tasks: tasks.clone() });
    let inside = Ground { clock: Arc::clone(&ground.clock), network, tasks };
    // Its counts would look like those of an agent somewhere.
    let agent = super::agent(file, options, None, &inside, &mut Metrics::default()).await?;
    Ok(Arc::new(Direct { registry, agent }))
}

/// The registry, with an agent beside it.
struct Direct {
    registry: Arc<Registry>,
    agent: Arc<Agent>,
}

impl Backend for Direct {
    fn ready(&self, topic: &Topic, consistency: Consistency) -> Option<Reading> {
        self.registry.ready(topic, consistency)
    }

    fn read<'a>(&'a self, topic: &'a Topic, consistency: Consistency) -> BoxFuture<'a, Result<Reading, Unavailable>> {
        self.registry.read(topic, consistency)
    }

    fn wake(&self, topic: &Topic) -> Wake {
        self.registry.wake(topic)
    }

    fn write<'a>(&'a self, caller: &'a Caller, command: Command) -> BoxFuture<'a, Result<Done, Refusal>> {
        self.registry.write(caller, command)
    }

    fn save<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Result<Bytes, Refusal>> {
        self.registry.save(caller)
    }

    fn restore<'a>(&'a self, caller: &'a Caller, saved: Bytes) -> BoxFuture<'a, Result<Index, Refusal>> {
        Backend::restore(self.registry.as_ref(), caller, saved)
    }

    fn now(&self) -> jiff::Timestamp {
        self.registry.now()
    }

    fn local(&self) -> Option<&dyn LocalAgent> {
        self.agent.local()
    }

    fn place(&self) -> &Place {
        self.agent.place()
    }
}

/// The network, with one more address: the registry of this process, where whoever calls is its own agent.
struct Inside {
    routes: Routes,
    outside: SharedNetwork,
    tasks: Tasks,
}

impl Connector for Inside {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<BoxIo>> {
        if (host, port) != INSIDE {
            return self.outside.connect(host, port);
        }
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let (routes, stopped) = (self.routes.clone(), self.tasks.token());
        self.tasks.spawn("own connection", async move {
            let service = service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
                request.extensions_mut().insert(AgentName(NAME.to_owned()));
                routes.clone().oneshot(request.map(tonic::body::Body::new))
            });
            let serving = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(far), service);
            tokio::select! {
                () = stopped.cancelled() => {}
                ended = serving => if let Err(error) = ended {
                    tracing::debug!(%error, "the connection of the hub's own agent ended");
                },
            }
        });
        Box::pin(async move { Ok(Box::new(near) as BoxIo) })
    }
}

impl Network for Inside {
    fn bind(&self, address: SocketAddr) -> BoxFuture<'_, Result<Box<dyn Listener>, BindError>> {
        self.outside.bind(address)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderMap, Method, StatusCode};
    use thane_discovery::consul::{self, Consul};
    use thane_discovery::http::{Query, Request, Routes as _};
    use thane_discovery::hub;
    use thane_runtime::SystemClock;
    use thane_runtime::net::Tcp;

    use super::*;

    async fn ask(api: &Consul, method: Method, path: &str, body: &'static str) -> (StatusCode, String) {
        let request = Request {
            method,
            path: path.to_owned(),
            query: Query::default(),
            headers: HeaderMap::new(),
            body: Ok(Bytes::from_static(body.as_bytes())),
            peer: SocketAddr::from(([127, 0, 0, 1], 1)),
        };
        let answer = api.answer(request).await;
        (answer.status, String::from_utf8_lossy(answer.body()).into_owned())
    }

    /// Clients that have no agent: what Consul's own libraries do first when they are pointed at a server.
    #[tokio::test]
    async fn clients_without_an_agent_register_with_the_hub() {
        let (tasks, _) = Tasks::root("test");
        let ground = Ground { clock: SystemClock::shared(), network: Tcp::shared(), tasks: tasks.clone() };
        let folder = tempfile::tempdir().unwrap();
        let mut metrics = Metrics::default();
        let file = folder.path().join("registry");
        let opened = crate::discovery::registry(&file, hub::Options::default(), &ground, &mut metrics).await.unwrap();
        let registry = Arc::clone(&opened.registry);
        let place = Place {
            datacenter: "dc1".to_owned(),
            node: "thane-hub".to_owned(),
            node_id: String::new(),
            address: "10.0.0.9".to_owned(),
        };
        let own = folder.path().join("local");
        let direct = start(&own, &place, opened.registry, opened.routes, &ground).await.unwrap();
        let api = Consul::new(direct, consul::Options::default(), consul::Metrics::default());
        let web = r#"{"Name": "web", "Port": 80, "Check": {"TTL": "1m"}}"#;
        assert_eq!(ask(&api, Method::PUT, "/v1/agent/service/register", web).await.0, StatusCode::OK);
        assert_eq!(ask(&api, Method::PUT, "/v1/agent/check/pass/service:web", "").await.0, StatusCode::OK);
        let topic = Topic::Service("web".to_owned());
        let seen = async {
            loop {
                let change = registry.changed(&topic);
                let (_, found) = ask(&api, Method::GET, "/v1/health/service/web", "").await;
                if found.contains(r#""Node":"thane-hub""#) && !found.contains("critical") {
                    return found;
                }
                change.await;
            }
        };
        let found = tokio::time::timeout(Duration::from_mins(1), seen).await.expect("the registry was not told");
        assert!(found.contains(r#""Address":"10.0.0.9""#), "{found}");
        let (status, said) = ask(&api, Method::PUT, "/v1/session/create", "{}").await;
        assert_eq!(status, StatusCode::OK, "{said}");
        assert_eq!(ask(&api, Method::GET, "/v1/status/leader", "").await.1, r#""10.0.0.9:8300""#);
        let (_, own) = ask(&api, Method::GET, "/v1/agent/self", "").await;
        assert!(own.contains(r#""NodeName":"thane-hub""#), "{own}");
        tasks.shutdown(Duration::from_secs(5)).await;
    }
}
