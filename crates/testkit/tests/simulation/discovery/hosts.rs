//! The hub with its registry, and agents, each on a store that outlives it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use thane_discovery::agent::{Adjustable, Agent, Limits, Options};
use thane_discovery::backend::Backend;
use thane_discovery::hub::{self, Registry};
use thane_discovery::wire;
use thane_hub::gate::{self, Gate, Tokens};
use thane_hub::transport::{self, Guests, NoLive, Service};
use thane_kv::{MemoryOptions, MemoryStore, Store};
use thane_runtime::net::{Network, SharedNetwork};
use thane_runtime::pki::{Authority, Identity, Request};
use thane_runtime::tls::{ClientAuth, ClientOptions, ClientTls, ServerOptions, ServerTls};
use thane_runtime::{Clock, Tasks};
use tokio::sync::mpsc;

use super::book::{Book, Tally};
use super::stalling::Stalling;
use super::{keys, locks, readers, services};
use crate::network::{Simulated, SimulatedClock};

const PORT: u16 = 8443;

/// What outlives a crash of a host.
pub(super) struct Place {
    pub(super) name: String,
    pub(super) skew_seconds: Arc<AtomicI64>,
    /// Its disk writes nothing until then.
    pub(super) stalled_until: Arc<AtomicU64>,
    store: Mutex<Arc<MemoryStore>>,
    identity: Identity,
    starts: AtomicU64,
}

/// What all hosts of one run share.
pub(super) struct World {
    seed: u64,
    /// When it begins.
    day: jiff::Timestamp,
    ca_pem: String,
    token_key: String,
    pub(super) hub: Place,
    pub(super) agents: Vec<Place>,
    pub(super) book: Arc<Book>,
}

impl World {
    pub(super) fn new(seed: u64, agents: usize, token_key: &str, tally: &Tally) -> Arc<Self> {
        // TLS itself reads the machine's clock, so certificates must be of its day.
        let now = thane_runtime::SystemClock::new().now();
        let lifetime = Duration::from_hours(24 * 365);
        let authority = Authority::create("simulated", now, lifetime).unwrap();
        let place = |name: &str, request: &Request| Place {
            name: name.to_owned(),
            skew_seconds: Arc::default(),
            stalled_until: Arc::default(),
            store: Mutex::new(MemoryStore::new(MemoryOptions::default())),
            identity: authority.issue(request, now, lifetime).unwrap(),
            starts: AtomicU64::new(0),
        };
        let names = (1..=agents).map(|number| format!("agent-{number}"));
        Arc::new(Self {
            seed,
            day: now,
            ca_pem: authority.cert_pem().to_owned(),
            token_key: token_key.to_owned(),
            hub: place("hub", &Request::server("hub", ["hub"])),
            agents: names.map(|name| place(&name, &Request::agent(&name))).collect(),
            book: Book::new(tally),
        })
    }

    /// An agent that does not run loses all it had, and with it what was registered there.
    pub(super) fn wipe(&self, agent: usize) {
        let place = &self.agents[agent];
        *place.store.lock() = MemoryStore::new(MemoryOptions::default());
        self.book.forget(&place.name);
        self.book.tell("wiped");
    }

    /// Chance for one life of a host.
    fn chance(&self, place: &Place, part: u64) -> StdRng {
        let start = place.starts.load(Ordering::Relaxed);
        let host = place.name.bytes().map(u64::from).sum::<u64>();
        StdRng::seed_from_u64(self.seed ^ (start << 32) ^ (host << 44) ^ (part << 56))
    }
}

/// Runs the hub until it is killed.
pub(super) async fn hub(world: Arc<World>) -> turmoil::Result {
    let (tasks, mut supervisor) = Tasks::root("hub");
    let place = &world.hub;
    place.starts.fetch_add(1, Ordering::Relaxed);
    let clock = SimulatedClock::shared(world.day, Arc::clone(&place.skew_seconds));
    let kept = Arc::clone(&place.store.lock());
    let store = Stalling::shared(kept, &place.stalled_until, &world.book);
    let registry = Registry::open(store, hub::Options::default(), Arc::clone(&clock), &tasks).await?;
    let desk = wire::service(Arc::clone(&registry), wire::Metrics::default(), Arc::clone(&clock), &tasks);
    let rules = gate::Options {
        namespace: "argocd".to_owned(),
        version: "sim".to_owned(),
        methods: vec!["mtls:CN=([^,]+)".parse()?],
        certificates: gate::Certificates::Matching,
        capabilities: std::collections::BTreeSet::new(),
    };
    let (streams, _nobody) = mpsc::channel(1);
    let service = Service {
        gate: Arc::new(Gate::new(rules, Tokens::new(&world.token_key)?, Arc::clone(&clock))),
        streams,
        live: Arc::new(NoLive),
        tunnels: thane_hub::proxy::Tunnels::new(thane_hub::proxy::tunnel::Config::default(), tasks.child("tunnels")),
        guests: Some(Guests::new("/konsul.agent.", tonic::service::Routes::new(desk))),
        config: transport::Config::default(),
        metrics: transport::Metrics::default(),
        clock,
    };
    let options = ServerOptions { client_auth: ClientAuth::Asked, protocols: vec!["h2"], ..ServerOptions::default() };
    let tls = ServerTls::from_pem(&place.identity, Some(&world.ca_pem), &options)?;
    let listener = Simulated.bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT))).await?;
    tasks.spawn("serve", transport::serve(listener, Some(tls), service, tasks.clone()));
    let backend: Arc<dyn Backend> = registry;
    tasks.spawn("witness", readers::witness(Arc::clone(&backend), Arc::clone(&world.book)));
    tasks.spawn("view", readers::view("hub".to_owned(), backend, None, Arc::clone(&world.book)));
    Err(supervisor.essential_failed().await.map_or_else(|| "ended".into(), |failure| failure.to_string().into()))
}

/// Runs one agent, and those near it, until it is killed.
pub(super) async fn agent(world: Arc<World>, number: usize) -> turmoil::Result {
    let (tasks, mut supervisor) = Tasks::root("agent");
    let place = &world.agents[number];
    place.starts.fetch_add(1, Ordering::Relaxed);
    let clock = SimulatedClock::shared(world.day, Arc::clone(&place.skew_seconds));
    let options = ClientOptions { protocols: vec!["h2"], ..ClientOptions::default() };
    let tls = ClientTls::from_pem(&world.ca_pem, Some(&place.identity), &options)?;
    let adjustable = Adjustable {
        hubs: vec![format!("hub:{PORT}")],
        watched_prefixes: [keys::PREFIX.to_owned()].into(),
        // Little enough that topics are folded and opened all the time.
        limits: Limits { open_bytes: 5_000, ..Limits::default() },
        ..Adjustable::default()
    };
    let options = Options { adjustable, ..Options::new(&place.name) };
    let network: SharedNetwork = Arc::new(Simulated);
    let store: Arc<dyn Store> = Arc::clone(&place.store.lock()) as _;
    let agent = Agent::start(options, store, network, Some(tls), clock, tasks.child("agent")).await?;
    let chance = |part| world.chance(place, part);
    let book = || Arc::clone(&world.book);
    let name = || place.name.clone();
    tasks.spawn("services", services::run(name(), Arc::clone(&agent), book(), chance(1)));
    tasks.spawn("keys", keys::run(name(), Arc::clone(&agent), book(), chance(2)));
    tasks.spawn("locks", locks::run(name(), Arc::clone(&agent), book(), chance(3)));
    tasks.spawn("reader", readers::run(name(), Arc::clone(&agent), book(), chance(4)));
    let backend: Arc<dyn Backend> = Arc::clone(&agent) as _;
    tasks.spawn("view", readers::view(name(), backend, Some(agent), book()));
    Err(supervisor.essential_failed().await.map_or_else(|| "ended".into(), |failure| failure.to_string().into()))
}
