//! The hub role and an agent for each cluster, in this process, over the same wire as anywhere.

mod live;
mod material;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use kube::Client;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use thane_agent::connection::{self, Dialer};
use thane_api::code;
use thane_api::event::Mode;
use thane_apiserver::ApiServer;
use thane_apiserver::embedded::Embedded;
use thane_hub::gate::{self, Gate, Method, Tokens};
use thane_hub::live::Events;
use thane_hub::proxy::{Rule, Tunnels, tunnel};
use thane_hub::registration::Registration;
use thane_hub::transport::Guests;
use thane_link::Passage;
use thane_runtime::metrics::PREFIX;
use thane_runtime::net::{Listener, SharedNetwork};
use thane_runtime::tls::{ClientAuth, ClientOptions, ClientTls, ServerOptions, ServerTls};
use thane_runtime::{SharedClock, Tasks};
use thane_sync::link;
use thane_sync::mapping::{Adoption, AgentSide, HubSide, Mismatch, OnRecreate, Pattern, Placement};

use super::directory::Directory;
use super::install::Account;
use super::{HUB, install, redis};
use crate::failure::Failure;
use crate::settings::UpSettings;
pub(super) use material::Material;

/// The namespace of Argo CD on hub and clusters.
const NAMESPACE: &str = "argocd";
const WRITES_MAX: usize = 256;
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// What the roles may do, here as on Kubernetes.
const HUB_RIGHTS: &str = include_str!("../../../../deploy/hub/20-rights.yaml");
const AGENT_RIGHTS: &str = include_str!("../../../../deploy/agent/20-rights.yaml");

const PROJECTS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/appprojects?limit=1";
const HUB_ACCOUNT: Account = Account { namespace: NAMESPACE, name: "thane-hub", may: PROJECTS };
const AGENT_ACCOUNT: Account = Account { namespace: NAMESPACE, name: "thane-agent", may: PROJECTS };

/// Where everything runs.
pub(super) struct Place<'a> {
    pub(super) directory: &'a Directory,
    pub(super) clock: &'a SharedClock,
    pub(super) network: &'a SharedNetwork,
    pub(super) tasks: &'a Tasks,
}

/// Where the hub is called, and what agents prove themselves with.
pub(super) struct Started {
    /// By agents.
    pub(super) hub: SocketAddr,
    /// By clients of agents' clusters.
    pub(super) proxy: SocketAddr,
    /// By Argo CD, for what its Redis has of agents' applications.
    pub(super) redis: Option<SocketAddr>,
    pub(super) material: Material,
}

/// Starts the hub role and one agent for each cluster.
pub(super) async fn start(
    up: &UpSettings,
    place: &Place<'_>,
    names: &[String],
    apis: &[Embedded],
    guests: Guests,
    rules: &[Rule],
    registry: &mut Registry,
) -> Result<Started, Failure> {
    let proxy = place.network.bind(super::listen(up.proxy_address, up.ephemeral_ports)).await?;
    let proxy_address = proxy.local_addr();
    let listener = place.network.bind(super::listen(up.hub_address, up.ephemeral_ports)).await?;
    let address = listener.local_addr();
    let agents: Vec<&String> = names.iter().filter(|name| *name != HUB).collect();
    let material = Material::keep(place.directory.join("fleet"), &agents, place.clock.now()).await?;
    let client = apis[0].server.client(install::process(), NAMESPACE);
    for (agent, identity) in agents.iter().zip(&material.proxies) {
        let proxy = proxy_address.to_string();
        let (namespace, ca_pem) = (NAMESPACE, material.ca_pem.as_str());
        register(&client, &Registration { agent, namespace, proxy: &proxy, ca_pem, identity }).await?;
    }
    install::grant(&client, HUB_RIGHTS).await?;
    let client = install::entitled(&apis[0].server, &HUB_ACCOUNT).await?;
    let tunnels = Tunnels::new(tunnel::Config::default(), place.tasks.child("tunnels"));
    let gate = gate(place, &material)?;
    let passage = Passage::default();
    let events = Events::new(passage.clone(), registry.sub_registry_with_prefix(PREFIX), place.tasks.child("live"));
    let parts = HubParts {
        client: client.clone(),
        gate: Arc::clone(&gate),
        tunnels: tunnels.clone(),
        passage,
        events: events.clone(),
        guests,
    };
    let redis = start_hub(up, place, parts, listener, &material, registry).await?;
    let door = live::Door { listener: proxy, material: &material, hub: &apis[0], client, gate, tunnels, events, rules };
    live::start(place, door, registry)?;
    for (number, (agent, api)) in agents.iter().zip(&apis[1..]).enumerate() {
        let autonomous = number + usize::from(up.autonomous) >= agents.len();
        let mode = if autonomous { Mode::Autonomous } else { Mode::Managed };
        let options = ClientOptions { protocols: vec!["h2", "http/1.1"], ..ClientOptions::default() };
        let tls = ClientTls::from_pem(&material.ca_pem, Some(&material.agents[number]), &options)?;
        let mut config = connection::Config::new("127.0.0.1", address.port(), mode);
        config.capabilities = thane_agent::role::capabilities();
        let dialer = Dialer::new(config, Arc::clone(place.network), Some(tls), Arc::clone(place.clock));
        install::grant(&api.server.client(install::process(), NAMESPACE), AGENT_RIGHTS).await?;
        let client = install::entitled(&api.server, &AGENT_ACCOUNT).await?;
        let registry = registry.sub_registry_with_label(("agent".into(), (*agent).clone().into()));
        let redis = up.cluster_redis.get(number);
        start_agent(place, (agent.as_str(), mode), (client, &api.server), dialer, redis, registry)?;
    }
    Ok(Started { hub: address, proxy: proxy_address, redis, material })
}

/// Registers an agent; one that is there already is told where the proxy is this time.
async fn register(client: &Client, wanted: &Registration<'_>) -> Result<(), Failure> {
    let (path, secret) = (format!("/api/v1/namespaces/{NAMESPACE}/secrets"), wanted.secret());
    let there = install::ensure(client, &path, secret.clone()).await?;
    if there["data"]["server"] == secret["data"]["server"] && there["data"]["config"] == secret["data"]["config"] {
        return Ok(());
    }
    let path = format!("{path}/cluster-{}?fieldManager=thane", wanted.agent);
    let change = json!({"data": {"server": secret["data"]["server"], "config": secret["data"]["config"]}});
    let request = http::Request::patch(&path)
        .header(CONTENT_TYPE, "application/merge-patch+json")
        .body(change.to_string().into_bytes())
        .map_err(|error| Failure::new(code::BUG, error.to_string()))?;
    client.request::<Value>(request).await.map_err(|error| Failure::from(error).about(&path))?;
    Ok(())
}

/// What the hub role is made of here.
struct HubParts {
    client: Client,
    gate: Arc<Gate>,
    tunnels: Tunnels,
    passage: Passage,
    events: Events,
    guests: Guests,
}

fn gate(place: &Place<'_>, material: &Material) -> Result<Arc<Gate>, Failure> {
    let by_certificate = "mtls:CN=([^,]+)".parse::<Method>();
    let rules = gate::Options {
        namespace: NAMESPACE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        methods: vec![by_certificate.map_err(|error| Failure::new(code::BUG, error.to_string()))?],
        certificates: gate::Certificates::Matching,
        capabilities: thane_agent::role::capabilities(),
    };
    let tokens = Tokens::new(&material.token_key)
        .map_err(|error| Failure::new(code::CERTIFICATE_UNUSABLE, error.to_string()))?;
    Ok(Arc::new(Gate::new(rules, tokens, Arc::clone(place.clock))))
}

async fn start_hub(
    up: &UpSettings,
    place: &Place<'_>,
    hub: HubParts,
    listener: Box<dyn Listener>,
    material: &Material,
    registry: &mut Registry,
) -> Result<Option<SocketAddr>, Failure> {
    let options =
        ServerOptions { client_auth: ClientAuth::Asked, protocols: vec!["h2", "http/1.1"], ..ServerOptions::default() };
    let tls = ServerTls::from_pem(&material.hub, Some(&material.ca_pem), &options)?;
    let config = thane_hub::role::Config {
        side: HubSide {
            namespace: NAMESPACE.to_owned(),
            placement: Placement::Namespace,
            allowed_namespaces: vec![Pattern::new("*")],
        },
        selector: String::new(),
        makes_namespaces: None,
        namespace_labels: json!({}),
        link: link::Options::default(),
        writes_max: WRITES_MAX,
        write_timeout: WRITE_TIMEOUT,
        transport: thane_hub::transport::Config::default(),
    };
    let (desk, takers) = redis::desk(&hub.passage);
    let parts = thane_hub::role::Parts {
        client: hub.client,
        listener,
        tls: Some(tls),
        gate: hub.gate,
        clock: Arc::clone(place.clock),
        passing: Arc::new(takers.and(hub.events.takers())),
        passage: hub.passage,
        streams: Arc::new(hub.events),
        tunnels: hub.tunnels,
        guests: Some(hub.guests),
        salt: uuid::Uuid::new_v4().to_string(),
    };
    let hub = thane_hub::role::start(config, parts, registry, &place.tasks.child("fleet-hub")).await?;
    redis::start(up, place, hub.roster(), desk, registry).await
}

fn start_agent(
    place: &Place<'_>,
    (agent, mode): (&str, Mode),
    (client, server): (Client, &ApiServer),
    dialer: Dialer,
    redis: Option<&String>,
    registry: &mut Registry,
) -> Result<(), Failure> {
    let tasks = place.tasks.child(format!("fleet-{agent}"));
    let config = thane_agent::role::Config {
        side: AgentSide {
            name: agent.to_owned(),
            mode,
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
        link: link::Options::default(),
        writes_max: WRITES_MAX,
        write_timeout: WRITE_TIMEOUT,
    };
    let (passage, calls) = (Passage::default(), tokio::sync::watch::Sender::new(None));
    let live = thane_agent::live::Parts {
        client: client.clone(),
        passage: passage.clone(),
        calls: calls.subscribe(),
        namespace: NAMESPACE.to_owned(),
        clock: Arc::clone(place.clock),
        tasks: place.tasks.child(format!("fleet-{agent}-live")),
    };
    let live = thane_agent::live::Live::new(live, registry.sub_registry_with_prefix(PREFIX));
    let takers = redis::answers(redis, &config.side, place, &passage, registry)?;
    let parts = thane_agent::role::Parts {
        client,
        dialer,
        clock: Arc::clone(place.clock),
        passing: Arc::new(takers.and(live.takers())),
        passage,
        calls,
        tunnel: Some(live::tunnel(server, &tasks)),
        salt: uuid::Uuid::new_v4().to_string(),
    };
    let handle = thane_agent::role::start(&config, parts, registry, &tasks);
    let group = tasks.clone();
    tasks.spawn("handle", async move {
        group.cancelled().await;
        // The loop would end, unasked, when nobody can ask it anything any more.
        drop(handle);
    });
    Ok(())
}
