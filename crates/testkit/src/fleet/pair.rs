//! A hub and an agent that talk to each other.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::api::{ApiKind, FleetApi, make_namespace};
use super::program::{Mode, NAMESPACE, Program, Programs, Setting};
use super::role::{Role, Stop};
use super::{Side, secrets};
use crate::endpoint::{Endpoint, kubeconfig};
use crate::peer::{Absence, Guarded, KubeApiServer, PeerHome, free_ports, low_ports};

/// The agent's name, which is also its namespace on the hub.
const AGENT: &str = "agent-one";

/// Who plays what on which API.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Who is the hub.
    pub hub: Program,
    /// Who is the agent.
    pub agent: Program,
    /// What the hub stands on.
    pub hub_api: ApiKind,
    /// What the agent stands on.
    pub spoke_api: ApiKind,
    /// Where the truth is.
    pub mode: Mode,
}

impl Options {
    /// Whether every program that this needs is built; if not, what a test should do about it.
    pub fn require(&self, home: &PeerHome) -> Result<(), Absence> {
        let mut peers = vec!["argocd-agentctl", "redis-server"];
        if [self.hub, self.agent].contains(&Program::Go) {
            peers.push("argocd-agent");
        }
        if [self.hub_api, self.spoke_api].contains(&ApiKind::Kubernetes) {
            peers.extend(KubeApiServer::programs());
        }
        home.require(&peers)?;
        let programs = Programs::locate(home);
        [self.hub, self.agent].into_iter().try_for_each(|program| programs.require(program))
    }
}

/// A connected pair with its APIs; dropping it ends everything and removes its files.
pub struct Pair {
    /// The hub's API; its Applications are those of the agent.
    pub hub: Side,
    /// The agent's API.
    pub spoke: Side,
    /// How it was made.
    pub options: Options,
    // Dropped in this order: nobody misses what it stands on.
    agent_role: Role,
    hub_role: Role,
    _redis: Guarded,
    spoke_api: FleetApi,
    hub_api: FleetApi,
    _folder: TempDir,
}

impl Pair {
    /// Starts the APIs, makes the secrets, starts hub and agent, and waits until they are connected.
    pub async fn start(home: &PeerHome, options: Options) -> Result<Self> {
        let programs = Programs::locate(home);
        let (hub_program, agent_program) = (programs.path(options.hub)?, programs.path(options.agent)?);
        let folder = tempfile::Builder::new().prefix("thane-pair-").tempdir()?;
        let root = folder.path();
        let (hub_api, spoke_api) =
            tokio::try_join!(FleetApi::start(home, options.hub_api), FleetApi::start(home, options.spoke_api))?;
        let (hub_client, spoke_client) = tokio::try_join!(hub_api.client(), spoke_api.client())?;
        make_namespace(&hub_client, NAMESPACE).await?;
        make_namespace(&hub_client, AGENT).await?;
        make_namespace(&spoke_client, NAMESPACE).await?;
        let kubeconfig = root.join("kubeconfig");
        std::fs::write(&kubeconfig, two_contexts(hub_api.endpoint(), spoke_api.endpoint())?)?;
        secrets::make(home, root, &kubeconfig, AGENT).await?;

        let setting = setting(kubeconfig, options.mode)?;
        let redis = start_redis(home, root, setting.hub_redis)?;
        let mut pair = Self {
            hub: Side::new("hub", hub_client, AGENT),
            spoke: Side::new("spoke", spoke_client, NAMESPACE),
            options,
            agent_role: Role::new("agent", agent_program, setting.agent(), setting.agent_health, root),
            hub_role: Role::new("hub", hub_program, setting.hub(), setting.hub_health, root),
            _redis: redis,
            spoke_api,
            hub_api,
            _folder: folder,
        };
        match pair.start_both().await {
            Ok(()) => Ok(pair),
            Err(error) => Err(error.context(pair.last_words())),
        }
    }

    async fn start_both(&mut self) -> Result<()> {
        self.start_hub().await?;
        self.start_agent()?;
        self.connected().await
    }

    /// The agent's name, which is also its namespace on the hub and the name of its cluster.
    pub fn agent_name(&self) -> &'static str {
        AGENT
    }

    /// Starts the hub and waits until it listens.
    pub async fn start_hub(&mut self) -> Result<()> {
        self.hub_role.start()?;
        self.hub_role.healthy().await
    }

    /// Ends the hub.
    pub async fn stop_hub(&mut self, how: Stop) -> Result<()> {
        self.hub_role.stop(how).await
    }

    /// Starts the agent, which may find its hub or not.
    pub fn start_agent(&mut self) -> Result<()> {
        self.agent_role.start()
    }

    /// Ends the agent.
    pub async fn stop_agent(&mut self, how: Stop) -> Result<()> {
        self.agent_role.stop(how).await
    }

    /// Waits until the agent says that it is connected.
    pub async fn connected(&mut self) -> Result<()> {
        self.agent_role.healthy().await
    }

    /// Ends whichever of the two still runs and starts both again: what a failed scenario leaves is no concern of the next.
    pub async fn restart(&mut self) -> Result<()> {
        drop((self.agent_role.process.take(), self.hub_role.process.take()));
        self.hub_role.more.clear();
        self.agent_role.more.clear();
        self.start_both().await
    }

    /// Starts both again, the agent of an Application being the one that its destination names, or as before.
    pub async fn restart_by_destination(&mut self, by_destination: bool) -> Result<()> {
        self.stop_agent(Stop::Asked).await?;
        self.stop_hub(Stop::Asked).await?;
        let more = |words: &[&str]| words.iter().filter(|_| by_destination).map(|word| (*word).to_owned()).collect();
        self.hub_role.more = more(&["--destination-based-mapping"]);
        self.agent_role.more =
            more(&["--destination-based-mapping", "--create-namespace", "--allowed-namespaces", "*"]);
        self.start_both().await
    }

    /// Process ids of hub and agent, for measurements.
    pub fn processes(&self) -> (Vec<u32>, Vec<u32>) {
        (self.hub_role.processes(), self.agent_role.processes())
    }

    /// The ends of the latest logs of hub and agent.
    pub fn last_words(&self) -> String {
        self.hub_role.last_words() + &self.agent_role.last_words()
    }

    /// Ends everything; fails if something of ours had failed unseen.
    pub async fn stop(self) -> Result<()> {
        let Self { agent_role, hub_role, spoke_api, hub_api, .. } = self;
        drop((agent_role, hub_role));
        spoke_api.stop().await.context("the spoke's API")?;
        hub_api.stop().await.context("the hub's API")
    }
}

pub(super) fn setting(kubeconfig: PathBuf, mode: Mode) -> Result<Setting> {
    let [redis, listen] = free_ports()?;
    let [hub_metrics, hub_health, agent_metrics, agent_health] = low_ports()?;
    Ok(Setting {
        kubeconfig,
        mode,
        hub_redis: redis,
        spoke_redis: redis,
        live: false,
        listen,
        hub_metrics,
        hub_health,
        agent_metrics,
        agent_health,
    })
}

/// Argo CD's cache, in which a Go hub notes who is connected.
pub(super) fn start_redis(home: &PeerHome, root: &Path, port: u16) -> Result<Guarded> {
    let folder = root.display().to_string();
    let port = port.to_string();
    let arguments = ["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no", "--dir", &folder];
    Guarded::start(
        &home.program("redis-server"),
        &arguments.map(str::to_owned),
        &root.join(format!("redis-{port}.log")),
        Some(root),
    )
}

/// One kubeconfig for both APIs, as people who administer both have it.
pub(super) fn two_contexts(hub: &Endpoint, spoke: &Endpoint) -> Result<String> {
    kubeconfig(&[("hub", hub), ("spoke", spoke)], NAMESPACE)
}
