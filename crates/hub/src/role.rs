//! The hub at work: its objects on their way to agents, what agents report on its way back.

mod agents;
mod changes;
mod identity;
mod news;
mod record;
mod requests;
mod secrets;
mod strangers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use prometheus_client::registry::Registry;
use serde_json::Value;
use thane_link::{Command, Driver, Figures, Objects, Observed, Passage, Passing, Snapshot, Source, collection, follow};
use thane_runtime::metrics::PREFIX;
use thane_runtime::net::Listener;
use thane_runtime::tls::ServerTls;
use thane_runtime::{SharedClock, Tasks};
use thane_sync::hub::{Hub, HubLink};
use thane_sync::link::{self, Peer};
use thane_sync::mapping::{HubSide, Pattern};
use thane_sync::object::{AGENT_NAME, Kind, SECRET_TYPE};
use thane_sync::router::Router;
use tokio::sync::{mpsc, oneshot, watch};

use crate::gate::Gate;
use crate::proxy::tunnel::Tunnels;
use crate::roster::Roster;
use crate::transport::{self, Service, Stream};

pub use identity::principal_uid;
pub use requests::RESYNC;

/// What a hub is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its own namespace, and how it finds the agent of an Application.
    pub side: HubSide,
    /// Labels that Applications must have; empty for all.
    pub selector: String,
    /// Which namespaces of autonomous agents may be made; none if there is no pattern.
    pub makes_namespaces: Option<Pattern>,
    /// Labels of namespaces it makes.
    pub namespace_labels: Value,
    /// Bounds and intervals of each connection.
    pub link: link::Options,
    /// Writes to the API at once, of all connections together.
    pub writes_max: usize,
    /// How long one write may take.
    pub write_timeout: Duration,
    /// The listener.
    pub transport: transport::Config,
}

/// What a hub needs.
pub struct Parts {
    /// The API it serves from, as a user who may do what `deploy/` allows the hub.
    pub client: Client,
    /// Where agents call.
    pub listener: Box<dyn Listener>,
    /// TLS of that listener.
    pub tls: Option<ServerTls>,
    /// Who gets in.
    pub gate: Arc<Gate>,
    /// Time.
    pub clock: SharedClock,
    /// Who takes what agents say beside the objects: answers of live access.
    pub passing: Arc<dyn Passing>,
    /// Where the lines to agents are found, by their names.
    pub passage: Passage,
    /// Logs and terminals.
    pub streams: Arc<dyn transport::Live>,
    /// Requests to agents' clusters.
    pub tunnels: Tunnels,
    /// What else agents may call on this listener.
    pub guests: Option<transport::Guests>,
    /// A random text of this process.
    pub salt: String,
}

/// What can be asked of a running hub.
#[derive(Debug)]
enum Ask {
    Inspect(String, oneshot::Sender<Option<Snapshot>>),
    Resync(String, oneshot::Sender<bool>),
}

/// A running hub.
#[derive(Debug, Clone)]
pub struct Handle {
    asks: mpsc::Sender<Ask>,
    listening: watch::Receiver<bool>,
    roster: Roster,
}

impl Handle {
    /// Who is registered and who is connected.
    pub fn roster(&self) -> Roster {
        self.roster.clone()
    }

    /// Completes when agents can call; false when the hub ended before that.
    pub async fn listening(&mut self) -> bool {
        self.listening.wait_for(|listening| *listening).await.is_ok()
    }

    /// How the connection with an agent is doing; none if there is no such agent.
    pub async fn inspect(&self, agent: &str) -> Option<Snapshot> {
        let (answer, answered) = oneshot::channel();
        self.asks.send(Ask::Inspect(agent.to_owned(), answer)).await.ok()?;
        answered.await.ok().flatten()
    }

    /// Sends an agent everything again; whether there is such an agent.
    pub async fn resync(&self, agent: &str) -> bool {
        let (answer, answered) = oneshot::channel();
        let asked = self.asks.send(Ask::Resync(agent.to_owned(), answer)).await;
        asked.is_ok() && answered.await.unwrap_or(false)
    }
}

/// Where something was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Feed {
    Clusters,
    /// Agents as objects, on which people leave requests; a hub works without that kind.
    Agents,
    Objects(Kind),
}

const FEEDS: [Feed; 4] = [
    Feed::Clusters,
    Feed::Objects(Kind::AppProject),
    Feed::Objects(Kind::Repository),
    Feed::Objects(Kind::Application),
];

/// What the hub's own loop takes in before the watches wait.
const OBSERVED_MAX: usize = 1_024;
const STREAMS_MAX: usize = 256;

/// One agent may take all of the writes but this part of them.
const SHARES: usize = 4;

struct Running {
    config: Config,
    clock: SharedClock,
    passing: Arc<dyn Passing>,
    passage: Passage,
    tunnels: Tunnels,
    salt: String,
    principal_uid: String,
    figures: Figures,
    changes: changes::Changes,
    router: Router,
    roster: Roster,
    links: BTreeMap<String, agents::Connection>,
    secrets: secrets::Secrets,
    objects: Objects,
    records: record::Records,
    requests: requests::Requests,
    strangers: strangers::Strangers,
    tasks: Tasks,
}

/// Starts a hub; it takes calls once it knows everything its API has.
pub async fn start(
    config: Config,
    parts: Parts,
    registry: &mut Registry,
    tasks: &Tasks,
) -> Result<Handle, kube::Error> {
    let principal_uid = principal_uid(&parts.client, &config.side.namespace, &parts.salt).await?;
    let figures = Figures::new(thane_link::Role::Principal);
    figures.register(registry);
    let changes = changes::Changes::default();
    changes.register(registry);
    parts.gate.register(registry.sub_registry_with_prefix(PREFIX));
    let (observed, incoming) = mpsc::channel(OBSERVED_MAX);
    let watches = tasks.child("watches");
    let has_agents = requests::is_served(&parts.client).await;
    for feed in FEEDS.into_iter().chain(has_agents.then_some(Feed::Agents)) {
        let (client, out) = (parts.client.clone(), observed.clone());
        let wrap = move |observed| (feed, observed);
        watches.spawn("watch", follow(client, source(feed, &config), out, wrap, watches.clone()));
    }
    let (streams, opened) = mpsc::channel(STREAMS_MAX);
    let (asks, asked) = mpsc::channel(16);
    let metrics = transport::Metrics::default();
    metrics.register(registry.sub_registry_with_prefix(PREFIX));
    metrics.register_calls(registry);
    parts.tunnels.metrics().register(registry.sub_registry_with_prefix(PREFIX));
    let service = Service {
        metrics,
        gate: parts.gate,
        streams,
        live: parts.streams,
        tunnels: parts.tunnels.clone(),
        guests: parts.guests,
        config: config.transport.clone(),
        clock: Arc::clone(&parts.clock),
    };
    let (clock, own) = (Arc::clone(&parts.clock), tasks.child("records"));
    let records =
        record::Records::start(parts.client.clone(), clock, config.side.placement, has_agents, &own, registry);
    let (strangers, side) = (strangers::Strangers::default(), Arc::new(config.side.clone()));
    strangers.register(registry.sub_registry_with_prefix(PREFIX));
    let roster = Roster::new(Arc::clone(&side));
    let running = Running {
        router: Router::new(side),
        roster: roster.clone(),
        objects: Objects::new(parts.client.clone(), "thane-hub", config.writes_max, config.write_timeout),
        requests: requests::Requests::default(),
        records,
        strangers,
        clock: parts.clock,
        passing: parts.passing,
        passage: parts.passage,
        tunnels: parts.tunnels,
        salt: parts.salt,
        principal_uid,
        figures,
        changes,
        links: BTreeMap::new(),
        secrets: secrets::Secrets::default(),
        tasks: tasks.child("links"),
        config,
    };
    let calls = tasks.child("calls");
    let (listens, listening) = watch::channel(false);
    let listen = move || {
        calls.spawn_essential(
            "listener",
            transport::serve(parts.listener, parts.tls, service, calls.child("connections")),
        );
        listens.send_replace(true);
    };
    let hub = tasks.child("hub");
    hub.spawn_essential("routing", running.run(incoming, opened, asked, listen, hub.token()));
    Ok(Handle { asks, listening, roster })
}

fn source(feed: Feed, config: &Config) -> Source {
    let own = Some(config.side.namespace.as_str());
    match feed {
        Feed::Agents => Source { path: record::PATH.to_owned(), ..Source::default() },
        Feed::Clusters => {
            Source { path: collection(Kind::Repository, own), labels: AGENT_NAME.to_owned(), fields: String::new() }
        }
        Feed::Objects(Kind::Repository) => Source {
            path: collection(Kind::Repository, own),
            labels: format!("{SECRET_TYPE} in (repository, repo-creds)"),
            fields: String::new(),
        },
        Feed::Objects(Kind::AppProject) => Source { path: collection(Kind::AppProject, own), ..Source::default() },
        Feed::Objects(Kind::Application) => {
            Source { path: collection(Kind::Application, None), labels: config.selector.clone(), fields: String::new() }
        }
    }
}

impl Running {
    async fn run(
        mut self,
        mut observed: mpsc::Receiver<(Feed, Observed)>,
        mut opened: mpsc::Receiver<Stream>,
        mut asked: mpsc::Receiver<Ask>,
        listen: impl FnOnce(),
        stop: tokio_util::sync::CancellationToken,
    ) {
        let mut unseen: Vec<Feed> = FEEDS.to_vec();
        let mut listen = Some(listen);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                Some((feed, observed)) = observed.recv() => {
                    unseen.retain(|other| *other != feed);
                    self.observe(feed, observed).await;
                    if unseen.is_empty() && let Some(listen) = listen.take() {
                        listen();
                    }
                }
                Some(stream) = opened.recv() => self.open(stream).await,
                Some(ask) = asked.recv() => self.answer(ask).await,
            }
        }
    }

    async fn answer(&mut self, ask: Ask) {
        match ask {
            Ask::Inspect(agent, answer) => match self.links.get(&agent) {
                Some(link) => {
                    let (inner, answered) = oneshot::channel();
                    let asked = link.commands.send(Command::Inspect(inner)).await;
                    let snapshot = if asked.is_ok() { answered.await.ok() } else { None };
                    // Whoever asked may have gone.
                    let _ = answer.send(snapshot);
                }
                None => {
                    let _ = answer.send(None);
                }
            },
            Ask::Resync(agent, answer) => {
                let _ = answer.send(self.resync(&agent).await);
            }
        }
    }

    /// Sends an agent everything again; whether there is such an agent.
    async fn resync(&self, agent: &str) -> bool {
        let Some(link) = self.links.get(agent) else { return false };
        let change = Box::new(|link: &mut HubLink, now| link.send_everything(now));
        link.commands.send(Command::Change(change)).await.is_ok()
    }

    /// A new connection for an agent.
    fn driver(&self, agent: &str, cluster: &str) -> Driver<Hub> {
        let side = Arc::new(self.config.side.clone());
        // The mirrors of an agent are in the namespace that has its name.
        let makes_namespaces = self.config.makes_namespaces.as_ref().is_some_and(|pattern| pattern.matches(agent));
        let hub = Hub::new(side, self.principal_uid.clone(), agent.to_owned(), cluster.to_owned(), makes_namespaces);
        Driver {
            link: HubLink::new(hub, self.config.link.clone(), format!("{}-{agent}", self.salt)),
            // An agent whose writes hang does not take those of all others.
            objects: self.objects.share(self.config.writes_max - self.config.writes_max / SHARES),
            namespace_labels: self.config.namespace_labels.clone(),
            clock: Arc::clone(&self.clock),
            metrics: self.figures.of(agent),
            peer: agent.to_owned(),
            passing: Arc::clone(&self.passing),
            passage: self.passage.clone(),
            troubled: {
                let (records, agent) = (self.records.clone(), agent.to_owned());
                Box::new(move |whose, report| records.troubled(&agent, whose, &report))
            },
        }
    }

    /// An agent's stream is open.
    async fn open(&mut self, stream: Stream) {
        // A newer one has taken over already, and may have been quicker.
        if stream.close.is_cancelled() {
            return;
        }
        let agent = stream.identity.agent.clone();
        if !self.router.has_agent(&agent) {
            self.strangers.turn_away(&agent);
            return stream.refuse(strangers::answer(&agent));
        }
        self.strangers.known(&agent);
        let identity = stream.identity;
        let news = self.router.set_mode(&agent, identity.mode);
        self.tell(news).await;
        self.tunnels.connected(&identity, stream.close.clone());
        let number = self.roster.connected(&agent, &identity.capabilities, self.clock.now());
        self.records.connected(&identity, number, stream.peer, self.clock.now());
        self.watch_end(&agent, &stream.close, number);
        let peer = Peer { capabilities: identity.capabilities };
        let (mode, namespace) = (identity.mode, identity.agent_namespace);
        let tell = Box::new(move |link: &mut HubLink, now| link.agent_connected(now, mode, namespace, peer));
        let inner = thane_link::Stream { outgoing: stream.outgoing, incoming: stream.incoming, close: stream.close };
        if let Some(link) = self.links.get(&agent) {
            let _ = link.commands.send(Command::Opened(inner, tell)).await;
        }
    }

    fn watch_end(&self, agent: &str, close: &tokio_util::sync::CancellationToken, stream: u64) {
        let (close, agent) = (close.clone(), agent.to_owned());
        let (records, roster, clock) = (self.records.clone(), self.roster.clone(), Arc::clone(&self.clock));
        let stop = self.tasks.token();
        self.tasks.spawn("stream-end", async move {
            tokio::select! {
                () = close.cancelled() => {
                    records.disconnected(&agent, stream, clock.now());
                    roster.disconnected(&agent, stream, clock.now());
                }
                () = stop.cancelled() => {}
            }
        });
    }
}
