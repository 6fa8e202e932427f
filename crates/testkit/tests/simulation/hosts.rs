//! Hosts of the simulation: each has an API server on a store that outlives it, and a role.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use thane_agent::connection::{self, Dialer};
use thane_api::event::Mode;
use thane_apiserver::authz::User;
use thane_apiserver::{ApiServer, Options, Parts};
use thane_hub::gate::{self, Gate, Tokens};
use thane_hub::registration::Registration;
use thane_kv::{MemoryOptions, MemoryStore, Store};
use thane_link::{Passage, Takers};
use thane_runtime::net::SharedNetwork;
use thane_runtime::pki::{Authority, Identity, Request};
use thane_runtime::tls::{ClientAuth, ClientOptions, ClientTls, ServerOptions, ServerTls};
use thane_runtime::{SharedClock, Tasks};
use thane_sync::link;
use thane_sync::mapping::{Adoption, AgentSide, HubSide, Mismatch, OnRecreate, Pattern, Placement};

use crate::network::{Simulated, SimulatedClock};
use crate::users::{self, Ledger};

pub(crate) const PORT: u16 = 8443;
const NAMESPACE: &str = "argocd";

/// What outlives a crash of a host.
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) skew_seconds: Arc<AtomicI64>,
    starts: AtomicU64,
}

impl Host {
    pub(crate) fn new(name: &str) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            store: MemoryStore::new(MemoryOptions::default()),
            skew_seconds: Arc::default(),
            starts: AtomicU64::new(0),
        })
    }

    /// An API server on this host's store, with the kinds it should have.
    pub(crate) async fn api(&self, clock: SharedClock, tasks: &Tasks) -> Client {
        let parts = Parts {
            store: Arc::clone(&self.store) as Arc<dyn Store>,
            clock,
            authenticator: thane_apiserver::authn::Authenticator::default(),
            encryption: thane_apiserver::encryption::Encryption::default(),
            audit: None,
            readiness: thane_runtime::readiness::Readiness::default(),
            options: Options::default(),
        };
        let server = ApiServer::start(parts, tasks).await.unwrap();
        let user = User { name: "admin".into(), groups: vec!["system:masters".into()], ..User::default() };
        server.client(user, NAMESPACE)
    }
}

/// Keys and certificates, made once for all runs.
pub(crate) struct Secrets {
    /// When everything begins.
    day: jiff::Timestamp,
    ca_pem: String,
    hub: Identity,
    pub(crate) agents: Vec<(String, Mode, Identity)>,
    token_key: String,
}

impl Secrets {
    /// Those of a fleet whose last agent is autonomous.
    pub(crate) fn new(agents: usize, token_key: String) -> Self {
        // TLS itself reads the machine's clock, so certificates must be of its day.
        let now = thane_runtime::SystemClock::shared().now();
        let lifetime = Duration::from_hours(24 * 365);
        let authority = Authority::create("simulated", now, lifetime).unwrap();
        let issue = |request: &Request| authority.issue(request, now, lifetime).unwrap();
        let agents = (1..=agents).map(|number| {
            let name = format!("agent-{number}");
            let mode = if number == agents { Mode::Autonomous } else { Mode::Managed };
            let identity = issue(&Request::agent(&name));
            (name, mode, identity)
        });
        Self {
            // Certificates are not new: a clock that is an hour behind finds them valid.
            day: now + Duration::from_hours(2),
            ca_pem: authority.cert_pem().to_owned(),
            hub: issue(&Request::server("hub", ["hub"])),
            agents: agents.collect(),
            token_key,
        }
    }
}

/// What all hosts of one run share.
pub(crate) struct Fleet {
    seed: u64,
    pub(crate) secrets: Arc<Secrets>,
    options: link::Options,
    /// Whether writes are sometimes slow, and sometimes too slow.
    slow_writes: bool,
    pub(crate) ledger: Arc<Ledger>,
}

/// What a host of an earlier version could do, and what one of a later version might say besides.
const EARLIER: [&str; 3] = ["digest", "digest-places", "of-tomorrow"];

impl Fleet {
    /// One run's, whose seed decides everything.
    pub(crate) fn new(seed: u64, options: link::Options, slow_writes: bool, secrets: Arc<Secrets>) -> Arc<Self> {
        Arc::new(Self { seed, secrets, options, slow_writes, ledger: Arc::default() })
    }

    /// A number that one start of one host has to itself.
    fn seed(&self, start: u64, host: u64) -> u64 {
        self.seed ^ (start << 32) ^ (host << 48)
    }

    /// What a host can do: each start may be of another version.
    fn capabilities(seed: u64) -> BTreeSet<String> {
        match StdRng::seed_from_u64(seed).random_range(0..3) {
            0 => EARLIER.map(str::to_owned).into(),
            _ => thane_agent::role::capabilities(),
        }
    }

    /// A role's client: until all is calm, some writes take long.
    fn client(&self, client: Client, seed: u64) -> Client {
        if !self.slow_writes {
            return client;
        }
        let (rng, ledger) = (Mutex::new(StdRng::seed_from_u64(seed)), Arc::clone(&self.ledger));
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let is_write = request.method() != http::Method::GET && !ledger.is_calm();
            let mut rng = rng.lock();
            let mut wait = || {
                let is_slow = is_write && rng.random_ratio(1, 40);
                Duration::from_millis(if is_slow { rng.random_range(100..12_000) } else { 0 })
            };
            // What is too slow has not happened, or has.
            let (before, after) = (wait(), wait());
            let client = client.clone();
            async move {
                tokio::time::sleep(before).await;
                let answer = client.send(request).await;
                tokio::time::sleep(after).await;
                answer
            }
        });
        Client::new(service, NAMESPACE)
    }
}

/// Runs the hub until it is killed.
pub(crate) async fn hub(host: Arc<Host>, fleet: Arc<Fleet>) -> turmoil::Result {
    let (tasks, mut supervisor) = Tasks::root("hub");
    let clock = SimulatedClock::shared(fleet.secrets.day, Arc::clone(&host.skew_seconds));
    let client = host.api(Arc::clone(&clock), &tasks).await;
    let network: SharedNetwork = Arc::new(Simulated);
    let listener = network.bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT))).await?;
    let start = host.starts.fetch_add(1, Ordering::Relaxed);
    let seed = fleet.seed(start, 0);
    let options = ServerOptions { client_auth: ClientAuth::Asked, protocols: vec!["h2"], ..ServerOptions::default() };
    let rules = gate::Options {
        namespace: NAMESPACE.to_owned(),
        version: "sim".to_owned(),
        methods: vec!["mtls:CN=([^,]+)".parse()?],
        certificates: gate::Certificates::Matching,
        capabilities: Fleet::capabilities(seed),
    };
    let transport = thane_hub::transport::Config {
        keepalive_interval: Duration::from_secs(2),
        keepalive_timeout: Duration::from_secs(2),
        ..thane_hub::transport::Config::default()
    };
    let config = thane_hub::role::Config {
        side: HubSide {
            namespace: NAMESPACE.to_owned(),
            placement: Placement::Namespace,
            allowed_namespaces: vec![Pattern::new("*")],
        },
        selector: String::new(),
        makes_namespaces: Some(Pattern::new("*")),
        namespace_labels: json!({}),
        link: fleet.options.clone(),
        writes_max: 64,
        write_timeout: Duration::from_secs(10),
        transport,
    };
    let parts = thane_hub::role::Parts {
        client: fleet.client(client.clone(), seed),
        listener,
        tls: Some(ServerTls::from_pem(&fleet.secrets.hub, Some(&fleet.secrets.ca_pem), &options)?),
        gate: Arc::new(Gate::new(rules, Tokens::new(&fleet.secrets.token_key)?, Arc::clone(&clock))),
        clock,
        passing: Arc::new(Takers::default()),
        passage: Passage::default(),
        streams: Arc::new(thane_hub::transport::NoLive),
        tunnels: thane_hub::proxy::Tunnels::new(thane_hub::proxy::tunnel::Config::default(), tasks.child("tunnels")),
        guests: None,
        salt: format!("hub-{start}"),
    };
    thane_hub::role::start(config, parts, &mut Registry::default(), &tasks).await?;
    let of_mode =
        |mode| fleet.secrets.agents.iter().filter(move |(_, other, _)| *other == mode).map(|(name, ..)| name.clone());
    let (managed, mirrored) = (of_mode(Mode::Managed).collect(), of_mode(Mode::Autonomous).collect());
    tasks.spawn("user", users::hub_user(client, managed, mirrored, seed, Arc::clone(&fleet.ledger)));
    Err(supervisor.essential_failed().await.map_or_else(|| "ended".into(), |failure| failure.to_string().into()))
}

/// Runs one agent until it is killed.
pub(crate) async fn agent(host: Arc<Host>, fleet: Arc<Fleet>, number: usize) -> turmoil::Result {
    let (name, mode, identity) = &fleet.secrets.agents[number];
    let (tasks, mut supervisor) = Tasks::root("agent");
    let clock = SimulatedClock::shared(fleet.secrets.day, Arc::clone(&host.skew_seconds));
    let client = host.api(Arc::clone(&clock), &tasks).await;
    let start = host.starts.fetch_add(1, Ordering::Relaxed);
    let seed = fleet.seed(start, number as u64 + 1);
    let options = ClientOptions { protocols: vec!["h2"], ..ClientOptions::default() };
    let tls = ClientTls::from_pem(&fleet.secrets.ca_pem, Some(identity), &options)?;
    let mut connection = connection::Config::new("hub", PORT, *mode);
    connection.keepalive_interval = Some(Duration::from_secs(2));
    connection.keepalive_timeout = Duration::from_secs(2);
    connection.backoff_max = Duration::from_secs(4);
    connection.capabilities = Fleet::capabilities(seed);
    let config = thane_agent::role::Config {
        side: AgentSide {
            name: name.clone(),
            mode: *mode,
            namespace: NAMESPACE.to_owned(),
            hub_namespace: NAMESPACE.to_owned(),
            placement: Placement::Namespace,
            allowed_namespaces: Vec::new(),
            mismatch: Mismatch::default(),
            adoption: Adoption::default(),
            on_recreate: OnRecreate::default(),
        },
        selector: String::new(),
        makes_namespaces: false,
        link: fleet.options.clone(),
        writes_max: 64,
        write_timeout: Duration::from_secs(10),
    };
    let parts = thane_agent::role::Parts {
        client: fleet.client(client.clone(), seed),
        dialer: Dialer::new(connection, Arc::new(Simulated), Some(tls), Arc::clone(&clock)),
        clock,
        passing: Arc::new(Takers::default()),
        passage: Passage::default(),
        calls: tokio::sync::watch::Sender::new(None),
        tunnel: None,
        salt: format!("{name}-{start}"),
    };
    thane_agent::role::start(&config, parts, &mut Registry::default(), &tasks);
    tasks.spawn("cluster", users::cluster(client, *mode == Mode::Autonomous, seed, Arc::clone(&fleet.ledger)));
    Err(supervisor.essential_failed().await.map_or_else(|| "ended".into(), |failure| failure.to_string().into()))
}

/// Objects that are there before anything runs.
pub(crate) async fn prepare(hub: &Host, clusters: &[Arc<Host>], fleet: &Fleet) {
    let clock = thane_runtime::SystemClock::shared();
    for host in clusters.iter().map(AsRef::as_ref).chain([hub]) {
        let (tasks, _supervisor) = Tasks::root("prepare");
        let client = host.api(Arc::clone(&clock), &tasks).await;
        for definition in thane_api::kinds::definitions() {
            post(&client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
        }
        let mut namespaces = vec![NAMESPACE.to_owned()];
        if host.name == "hub" {
            namespaces.extend(fleet.secrets.agents.iter().map(|(name, ..)| name.clone()));
        }
        for name in namespaces {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            post(&client, "/api/v1/namespaces", namespace).await;
        }
        if host.name == "hub" {
            for (agent, _, identity) in &fleet.secrets.agents {
                let registration = Registration {
                    agent,
                    namespace: NAMESPACE,
                    proxy: "hub:9090",
                    ca_pem: &fleet.secrets.ca_pem,
                    identity,
                };
                post(&client, "/api/v1/namespaces/argocd/secrets", registration.secret()).await;
            }
            let project = json!({
                "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
                "metadata": {"name": "default", "namespace": NAMESPACE},
                "spec": {"destinations": [{"name": "*", "namespace": "*"}], "sourceNamespaces": ["*"], "sourceRepos": ["*"]},
            });
            while !crate::objects::Objects::projects(&client, NAMESPACE).create(project.clone()).await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        tasks.shutdown(Duration::from_secs(5)).await;
    }
}

async fn post(client: &Client, path: &str, object: serde_json::Value) {
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(object.to_string().into_bytes())
        .unwrap();
    client.request::<serde_json::Value>(request).await.unwrap();
}
