//! The agent at work: its cluster's objects and the hub's, kept in step.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use prometheus_client::registry::Registry;
use serde_json::json;
use thane_api::event::TUNNEL;
use thane_api::redis::SHARDS;
use thane_link::{
    Command, Driver, Figures, Objects, Observed, Passage, Passing, Snapshot, Source, Stream, collection, follow,
};
use thane_runtime::metrics::PREFIX;
use thane_runtime::{SharedClock, Tasks};
use thane_sync::agent::{Agent, AgentLink};
use thane_sync::link::{self, Peer, TROUBLES};
use thane_sync::mapping::{AgentSide, Placement};
use thane_sync::object::{Key, Kind, SECRET_TYPE};
use thane_sync::resync::{DIGEST, PLACES, PONG};
use thane_sync::store::{Seen, version};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::connection::{self, Calls, Dialer, Opened};
use crate::tunnel::Tunnel;

/// What an agent is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its mode, its namespace, and what it may do with what is there already.
    pub side: AgentSide,
    /// Labels that Applications must have; empty for all.
    pub selector: String,
    /// Whether namespaces of Applications may be made.
    pub makes_namespaces: bool,
    /// Bounds and intervals of the connection.
    pub link: link::Options,
    /// Writes to the API at once.
    pub writes_max: usize,
    /// How long one write may take.
    pub write_timeout: Duration,
}

/// What an agent needs.
pub struct Parts {
    /// Its cluster's API, as a user who may do what `deploy/` allows the agent.
    pub client: Client,
    /// How it reaches the hub.
    pub dialer: Dialer,
    /// Time.
    pub clock: SharedClock,
    /// Who takes what the hub asks for beside the objects: live access.
    pub passing: Arc<dyn Passing>,
    /// Where the line to the hub is found, by the name [`HUB`].
    pub passage: Passage,
    /// Where the way to make further calls is found while the hub is there.
    pub calls: watch::Sender<Option<Calls>>,
    /// Live access over calls of their own, with hubs that can; none offers none.
    pub tunnel: Option<Tunnel>,
    /// A random text of this process.
    pub salt: String,
}

/// A running agent.
#[derive(Clone)]
pub struct Handle {
    commands: mpsc::Sender<Command<Agent>>,
}

impl Handle {
    /// How the connection is doing.
    pub async fn inspect(&self) -> Option<Snapshot> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(Command::Inspect(answer)).await.ok()?;
        answered.await.ok()
    }
}

/// What an agent can do beyond upstream's protocol.
pub fn capabilities() -> std::collections::BTreeSet<String> {
    [DIGEST, PLACES, PONG, SHARDS, TROUBLES, TUNNEL].map(str::to_owned).into()
}

/// What the hub is called as a peer.
pub const HUB: &str = "hub";

/// What waits for the connection's loop before the watches wait.
const COMMANDS_MAX: usize = 1_024;

/// Starts an agent; it calls its hub once it knows everything its cluster has.
pub fn start(config: &Config, parts: Parts, registry: &mut Registry, tasks: &Tasks) -> Handle {
    let figures = Figures::new(thane_link::Role::Agent(config.side.mode));
    figures.register(registry);
    let (commands, received) = mpsc::channel(COMMANDS_MAX);
    let agent = Agent::new(config.side.clone(), config.makes_namespaces);
    let driver = Driver {
        link: AgentLink::new(agent, config.link.clone(), parts.salt),
        objects: Objects::new(parts.client.clone(), "thane-agent", config.writes_max, config.write_timeout),
        namespace_labels: json!({}),
        clock: parts.clock,
        metrics: figures.of(HUB),
        peer: HUB.to_owned(),
        passing: parts.passing,
        passage: parts.passage,
        // The hub is told, and tells whoever asks.
        troubled: Box::new(|_, _| {}),
    };
    let links = tasks.child("link");
    links.spawn_essential("loop", driver.run(received, links.clone()));
    let (observed, incoming) = mpsc::channel(COMMANDS_MAX);
    let watches = tasks.child("watches");
    for kind in Kind::ALL {
        let (client, out) = (parts.client.clone(), observed.clone());
        let wrap = move |observed| (kind, observed);
        watches.spawn("watch", follow(client, source(kind, config), out, wrap, watches.clone()));
    }
    let (on, opened) = mpsc::channel(1);
    let connections = tasks.child("connection");
    let dial = {
        let connections = connections.clone();
        move || connections.spawn_essential("dialer", connection::run(parts.dialer, on, connections.clone()))
    };
    let feeds = tasks.child("feeds");
    feeds.spawn_essential("watched", feed(incoming, commands.clone(), dial, feeds.token()));
    if let Some(tunnel) = &parts.tunnel {
        tunnel.metrics().register(registry.sub_registry_with_prefix(PREFIX));
    }
    let opening = open(opened, commands.clone(), parts.calls, parts.tunnel, connections.clone());
    connections.spawn_essential("opened", opening);
    Handle { commands }
}

fn source(kind: Kind, config: &Config) -> Source {
    let own = Some(config.side.namespace.as_str());
    match kind {
        Kind::Application => {
            let everywhere = config.side.placement == Placement::Destination;
            let path = collection(kind, own.filter(|_| !everywhere));
            Source { path, labels: config.selector.clone(), fields: String::new() }
        }
        Kind::AppProject => Source { path: collection(kind, own), ..Source::default() },
        Kind::Repository => Source {
            path: collection(kind, own),
            labels: format!("{SECRET_TYPE} in (repository, repo-creds)"),
            fields: String::new(),
        },
    }
}

/// Tells the loop what watches see. The first lists are how things are; the hub is called once they are known.
async fn feed(
    mut incoming: mpsc::Receiver<(Kind, Observed)>,
    commands: mpsc::Sender<Command<Agent>>,
    dial: impl FnOnce(),
    stop: CancellationToken,
) {
    let mut unseen: Vec<Kind> = Kind::ALL.to_vec();
    let mut dial = Some(dial);
    loop {
        let (kind, observed) = tokio::select! {
            () = stop.cancelled() => return,
            next = incoming.recv() => match next {
                Some(next) => next,
                None => return,
            },
        };
        let is_first = unseen.contains(&kind);
        unseen.retain(|other| *other != kind);
        let command = match observed {
            Observed::All(objects, _) if is_first => {
                Command::Initial(objects.into_iter().map(|object| (Key::of(kind, &object), object)).collect())
            }
            Observed::All(objects, version) => {
                let listed = objects.into_iter().map(|object| (Key::of(kind, &object), object)).collect();
                Command::Change(Box::new(move |link: &mut AgentLink, now| link.relisted(now, kind, version, listed)))
            }
            Observed::Applied(object) => Command::Seen(Key::of(kind, &object), Seen::Applied(object)),
            Observed::Deleted(object) => Command::Seen(Key::of(kind, &object), Seen::Gone(version(&object))),
        };
        if commands.send(command).await.is_err() {
            return;
        }
        if unseen.is_empty()
            && let Some(dial) = dial.take()
        {
            let loaded = Command::Change(Box::new(|link: &mut AgentLink, _| link.loaded()));
            if commands.send(loaded).await.is_err() {
                return;
            }
            dial();
        }
    }
}

/// Gives open streams to the loop.
async fn open(
    mut opened: mpsc::Receiver<Opened>,
    commands: mpsc::Sender<Command<Agent>>,
    told: watch::Sender<Option<Calls>>,
    tunnel: Option<Tunnel>,
    tasks: Tasks,
) {
    loop {
        let new = tokio::select! {
            () = tasks.cancelled() => return,
            next = opened.recv() => match next {
                Some(next) => next,
                None => return,
            },
        };
        let Opened { agent, hub_namespace, capabilities, outgoing, incoming, close, calls, .. } = new;
        told.send_replace(Some(calls.clone()));
        if let Some(tunnel) = tunnel.clone().filter(|_| capabilities.contains(TUNNEL)) {
            tasks.spawn("tunnel", tunnel.serve(calls, close.clone(), tasks.clone()));
        }
        let tell = Box::new(move |link: &mut AgentLink, now| {
            link.hub_connected(now, agent, hub_namespace, Peer { capabilities });
        });
        if commands.send(Command::Opened(Stream { outgoing, incoming, close }, tell)).await.is_err() {
            return;
        }
    }
}
