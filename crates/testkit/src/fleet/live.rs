//! A hub and an agent with live access, each Go's or ours: the agent's cluster runs pods, and each side has a Redis.
//!
//! Only for a network of its own: see [`in_own_network`](crate::peer::in_own_network).

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Api, ObjectMeta, PostParams};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use super::api::{ApiKind, FleetApi};
use super::pair::{start_redis, two_contexts};
use super::program::{Mode, NAMESPACE, Program, Programs};
use super::role::{Role, Stop, ask};
use super::{Side, secrets};
use crate::argo;
use crate::endpoint::{ClientIdentity, Endpoint};
use crate::peer::{Absence, Guarded, PeerHome, Thane, free_ports};

/// The agent's name, which is also its namespace on the hub.
const AGENT: &str = "agent-one";
/// Where every hub's proxies listen.
const PROXY: &str = "127.0.0.1:9090";
const REDIS_PROXY: &str = "127.0.0.1:6379";

/// A connected pair; dropping it ends everything and removes its files.
pub struct LivePair {
    /// How Argo CD reaches the agent's cluster.
    pub proxy: Endpoint,
    /// The hub's API.
    pub hub: Endpoint,
    /// The agent's cluster itself.
    pub spoke: Endpoint,
    /// Ports of Redis beside the hub and beside the agent.
    pub redis: [u16; 2],
    hub_client: kube::Client,
    spoke_client: kube::Client,
    // Dropped in this order: nobody misses what it stands on.
    agent_role: Role,
    hub_role: Role,
    metrics: [u16; 2],
    _redis: [Guarded; 2],
    _spoke: Thane,
    hub_api: FleetApi,
    folder: TempDir,
}

impl LivePair {
    /// Whether every program that this needs is built; if not, what a test should do about it.
    pub fn require(home: &PeerHome) -> Result<(), Absence> {
        home.require(&["argocd-agent", "argocd-agentctl", "redis-server", "kubectl"])?;
        Programs::locate(home).require(Program::Thane)
    }

    /// Starts everything and waits until the agent is connected.
    pub async fn start(home: &PeerHome, hub: Program, agent: Program) -> Result<Self> {
        let programs = Programs::locate(home);
        let folder = tempfile::Builder::new().prefix("thane-live-").tempdir()?;
        let root = folder.path();
        // A hub without clusters is a cluster that runs pods.
        let up = Thane::start(programs.path(Program::Thane)?, &["--clusters", "0", "--ephemeral-ports"]);
        let (hub_api, up) = tokio::try_join!(FleetApi::start(home, ApiKind::Thane), up)?;
        let (hub_client, spoke) = (hub_api.client().await?, up.endpoint().clone());
        let kubeconfig = root.join("kubeconfig");
        std::fs::write(&kubeconfig, two_contexts(hub_api.endpoint(), &spoke)?)?;
        for (name, endpoint) in [("hub", hub_api.endpoint()), ("spoke", &spoke)] {
            std::fs::write(root.join(name), endpoint.kubeconfig(NAMESPACE)?)?;
        }
        let spoke_client = crate::peer::client(&root.join("spoke")).await?;
        for (client, name) in [(&hub_client, NAMESPACE), (&hub_client, AGENT), (&spoke_client, NAMESPACE)] {
            ensure_namespace(client, name).await?;
        }
        for name in ["hub", "spoke"] {
            settings(home, &root.join(name)).await?;
        }
        secrets::make_live(home, root, &kubeconfig, AGENT).await?;
        let mut setting = super::pair::setting(kubeconfig, Mode::Managed)?;
        let [spoke_redis] = free_ports()?;
        (setting.spoke_redis, setting.live) = (spoke_redis, true);
        let redis = [setting.hub_redis, setting.spoke_redis];
        let mut made = Self {
            proxy: argocds(&hub_client).await?,
            hub: hub_api.endpoint().clone(),
            spoke,
            redis,
            hub_client,
            spoke_client,
            agent_role: Role::new("agent", programs.path(agent)?, setting.agent(), setting.agent_health, root),
            hub_role: Role::new("hub", programs.path(hub)?, setting.hub(), setting.hub_health, root),
            metrics: [setting.hub_metrics, setting.agent_metrics],
            _redis: [start_redis(home, root, redis[0])?, start_redis(home, root, redis[1])?],
            _spoke: up,
            hub_api,
            folder,
        };
        match made.start_both().await {
            Ok(()) => Ok(made),
            Err(error) => Err(error.context(made.last_words())),
        }
    }

    async fn start_both(&mut self) -> Result<()> {
        self.hub_role.start()?;
        self.hub_role.healthy().await?;
        self.start_agent().await
    }

    /// Starts the agent and waits until it is connected.
    pub async fn start_agent(&mut self) -> Result<()> {
        self.agent_role.start()?;
        self.agent_role.healthy().await
    }

    /// Ends the agent.
    pub async fn stop_agent(&mut self, how: Stop) -> Result<()> {
        self.agent_role.stop(how).await
    }

    /// Where the hub's Redis proxy listens.
    pub fn redis_proxy(&self) -> &'static str {
        REDIS_PROXY
    }

    /// The agent's name, which is also its namespace on the hub.
    pub fn agent_name(&self) -> &'static str {
        AGENT
    }

    /// The hub's API as its users see it.
    pub fn hub_side(&self) -> Side {
        Side::new("hub", self.hub_client.clone(), AGENT)
    }

    /// The administrator of the agent's cluster.
    pub fn spoke_client(&self) -> kube::Client {
        self.spoke_client.clone()
    }

    /// A folder that ends with the pair.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Process ids of hub and agent, for measurements.
    pub fn processes(&self) -> [Vec<u32>; 2] {
        [self.hub_role.processes(), self.agent_role.processes()]
    }

    /// The hub's metrics, by their names with labels.
    pub async fn hub_metrics(&self) -> Result<BTreeMap<String, f64>> {
        let text = ask(self.metrics[0], "/metrics").await?;
        let read = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Ok(text.lines().filter(|line| !line.starts_with('#')).filter_map(read).collect())
    }

    /// The ends of the latest logs of hub and agent.
    pub fn last_words(&self) -> String {
        self.hub_role.last_words() + &self.agent_role.last_words()
    }

    /// Ends everything; fails if something of ours had failed unseen.
    pub async fn stop(self) -> Result<()> {
        let Self { agent_role, hub_role, hub_api, .. } = self;
        drop((agent_role, hub_role));
        hub_api.stop().await
    }
}

async fn ensure_namespace(client: &kube::Client, name: &str) -> Result<()> {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    match Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Argo CD's settings, among which is how its objects are told.
async fn settings(home: &PeerHome, kubeconfig: &Path) -> Result<()> {
    let mut command = Command::new(home.program("kubectl"));
    command.arg("--kubeconfig").arg(kubeconfig).arg("apply").arg("-f").arg(argo::settings(home)?);
    let output = command.output().await?;
    ensure!(output.status.success(), "kubectl apply: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// What the agent's cluster Secret tells Argo CD.
async fn argocds(hub: &kube::Client) -> Result<Endpoint> {
    let secret = Api::<Secret>::namespaced(hub.clone(), NAMESPACE).get(&format!("cluster-{AGENT}")).await?;
    let data = secret.data.unwrap_or_default();
    let config: Value = serde_json::from_slice(&data.get("config").context("the cluster has a configuration")?.0)?;
    let part = |name: &str| {
        let text = config["tlsClientConfig"][name].as_str().with_context(|| format!("the cluster has no {name}"))?;
        anyhow::Ok(String::from_utf8(STANDARD.decode(text)?)?)
    };
    let client = ClientIdentity { certificate: part("certData")?, key: part("keyData")? };
    Ok(Endpoint { address: PROXY.to_owned(), ca: part("caData")?, client: Some(client) })
}
