//! Hub and agent as users deploy them: the image of `make image` and the manifests of `deploy/`, in pods on a node.
//!
//! The hub's API is another than the node's: its pod is told so where a pod of that API's own cluster would find it, with
//! a token that has the rights of `deploy/hub` there and none on the node's cluster. The agent is a pod of its own cluster.

mod command;
mod manifest;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use tempfile::TempDir;

use crate::argo;
use crate::endpoint::{Endpoint, kubeconfig};
use crate::fleet::api::{FleetApi, define};
use crate::fleet::{ApiKind, Mode, Side};
use crate::peer::{Absence, Node, PeerHome};
use command::Tool;

/// Where hub and agent are, each on its API.
const NAMESPACE: &str = "argocd";
/// The longest a pod may take to be ready, as kubectl is told.
const ROLLOUT: &str = "--timeout=120s";
/// The longest anything may take to come true.
const PATIENCE: Duration = Duration::from_mins(3);

/// What is deployed.
#[derive(Debug, Clone)]
pub struct Programs {
    /// Our program, for its commands.
    pub program: PathBuf,
    /// The archive of `make image`.
    pub image: PathBuf,
}

impl Programs {
    /// As `THANE_PROGRAM` and `THANE_IMAGE` say.
    pub fn locate() -> Result<Self, Absence> {
        let file = |name: &str| {
            let path = std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_file());
            // Only that target makes both, so their absence is nobody's mistake.
            path.ok_or_else(|| Absence::Skip(format!("{name} does not say where it is: run `make test-node`")))
        };
        Ok(Self { program: file("THANE_PROGRAM")?, image: file("THANE_IMAGE")? })
    }
}

/// A hub in a pod, and what an agent needs to join it; dropping it ends the hub's API.
pub struct Deployed<'a> {
    node: &'a Node,
    api: FleetApi,
    hub: Tool,
    spoke: Tool,
    thane: Tool,
    /// Our commands take it after what is to be done.
    connection: [String; 2],
    address: String,
    _folder: TempDir,
}

impl<'a> Deployed<'a> {
    /// Gives both APIs Argo CD's kinds and settings, makes the hub's secrets and deploys the hub.
    pub async fn start(home: &PeerHome, node: &'a Node, programs: &Programs, kind: ApiKind) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("thane-deployed-").tempdir()?;
        let api = FleetApi::start_at(home, kind, node.host()).await?;
        let file = folder.path().join("kubeconfig");
        std::fs::write(&file, kubeconfig(&[("hub", api.endpoint()), ("spoke", node.api().endpoint())], NAMESPACE)?)?;
        let given = format!("--kubeconfig={}", file.display());
        let kubectl = |context: &str| Tool {
            program: home.program("kubectl"),
            always: vec![given.clone(), format!("--context={context}")],
        };
        let thane = Tool { program: programs.program.clone(), always: Vec::new() };
        let (hub, spoke) = (kubectl("hub"), kubectl("spoke"));
        let connection = [given.clone(), "--context=hub".to_owned()];
        let mut made = Self { node, api, hub, spoke, thane, connection, address: String::new(), _folder: folder };
        define(&node.api().client().await?, &home.definitions("argo-cd")).await?;
        for (side, tool) in [("hub", &made.hub), ("agent", &made.spoke)] {
            tool.run(&["apply", "-f", &deploy(&format!("{side}/00-namespace.yaml"))]).await?;
            let settings = argo::settings(home)?.display().to_string();
            tool.run(&["apply", "--namespace", NAMESPACE, "-f", &settings]).await?;
        }
        match made.deploy_hub().await {
            Ok(()) => Ok(made),
            Err(error) => Err(error.context(made.last_words().await)),
        }
    }

    async fn deploy_hub(&mut self) -> Result<()> {
        for file in ["10-definition", "20-rights"] {
            self.hub.run(&["apply", "-f", &deploy(&format!("hub/{file}.yaml"))]).await?;
        }
        self.spoke.run(&["apply", "-f", &deploy("hub/40-network.yaml")]).await?;
        let of_service = ["--namespace", NAMESPACE, "get", "service", "thane-hub", "-o", "jsonpath={.spec.clusterIP}"];
        self.address = self.spoke.run(&of_service).await?;
        self.thane_run(&["pki", "init"]).await?;
        self.thane_run(&["pki", "issue", "principal", "--san", &self.address]).await?;
        self.thane_run(&["jwt", "create-key"]).await?;
        // On the node's cluster it may do nothing; what it may do is said by the token for its own API.
        self.spoke.run_with(&["apply", "-f", "-"], &manifest::nobody(NAMESPACE)).await?;
        let token = ["--namespace", NAMESPACE, "create", "token", "thane-hub", "--duration=1h"];
        let token = self.hub.run(&token).await?;
        let endpoint = self.api.endpoint();
        let account = manifest::account(NAMESPACE, token.trim(), &endpoint.ca);
        self.spoke.run_with(&["apply", "-f", "-"], &account).await?;
        let deployment = manifest::elsewhere(Path::new(&deploy("hub/30-hub.yaml")), &endpoint.address)?;
        self.spoke.run_with(&["apply", "-f", "-"], &deployment).await?;
        self.rolled_out("thane-hub").await
    }

    /// Registers an agent, deploys it on the node's cluster and waits until it is connected.
    pub async fn deploy_agent(&self, name: &str, mode: Mode) -> Result<()> {
        let deployed = async {
            self.thane_run(&["agents", "create", name, "--agent-context=spoke"]).await?;
            let settings = manifest::settings(Path::new(&deploy("agent/10-settings.yaml")), &self.address, mode)?;
            self.spoke.run_with(&["apply", "-f", "-"], &settings).await?;
            for file in ["20-rights", "30-agent", "40-network"] {
                self.spoke.run(&["apply", "-f", &deploy(&format!("agent/{file}.yaml"))]).await?;
            }
            self.rolled_out("thane-agent").await?;
            let (agent, connected) = (format!("agents.thane.dev/{name}"), "--for=jsonpath={.status.connected}=true");
            self.hub.run(&["wait", &agent, connected, ROLLOUT]).await
        };
        match deployed.await {
            Ok(_) => Ok(()),
            Err(error) => Err(error.context(self.last_words().await)),
        }
    }

    /// Replaces the pods of hub and agent, one after the other, as a new version would.
    pub async fn restart(&self) -> Result<()> {
        for name in ["thane-hub", "thane-agent"] {
            self.spoke.run(&["--namespace", NAMESPACE, "rollout", "restart", &format!("deployment/{name}")]).await?;
            self.rolled_out(name).await?;
        }
        self.rolled_out("thane-agent").await
    }

    /// Fails if hub or agent had reason to complain.
    pub async fn quiet(&self) -> Result<()> {
        for name in ["thane-hub", "thane-agent"] {
            let log = self.spoke.run(&["--namespace", NAMESPACE, "logs", &format!("deployment/{name}")]).await?;
            let loud: Vec<&str> =
                log.lines().filter(|line| [r#""WARN""#, r#""ERROR""#].iter().any(|it| line.contains(it))).collect();
            ensure!(loud.is_empty(), "{name} complains: {}", loud.join("\n"));
        }
        Ok(())
    }

    /// Takes the agent away, with its certificate; its Applications stay.
    pub async fn remove_agent(&self) -> Result<()> {
        let file = deploy("agent/30-agent.yaml");
        self.spoke.run(&["delete", "--wait", "--cascade=foreground", "-f", &file]).await?;
        let secrets = ["--namespace", NAMESPACE, "delete", "secret", "argocd-agent-client-tls", "argocd-agent-ca"];
        self.spoke.run(&secrets).await?;
        Ok(())
    }

    /// Has `thane doctor` look at the pair; fails if something is wrong.
    pub async fn doctor(&self) -> Result<()> {
        self.thane_run(&["doctor", "--agent-context=spoke"]).await?;
        Ok(())
    }

    /// The hub's API as its users see it, with the Applications of an agent.
    pub async fn hub(&self, agent: &str) -> Result<Side> {
        Ok(Side::new("hub", self.api.client().await?, agent).patient(PATIENCE))
    }

    /// The node's API.
    pub async fn spoke(&self) -> Result<Side> {
        Ok(Side::new("spoke", self.node.api().client().await?, NAMESPACE).patient(PATIENCE))
    }

    /// How the administrator of the node's cluster reaches it.
    pub fn spoke_endpoint(&self) -> &Endpoint {
        self.node.api().endpoint()
    }

    /// Logs of hub and agent, and how their pods are.
    pub async fn last_words(&self) -> String {
        let mut text = String::new();
        for arguments in [
            ["get", "pods,deployments,services", "--all-namespaces", "--output=wide"].as_slice(),
            &["--namespace", NAMESPACE, "get", "events", "--sort-by=.lastTimestamp"],
            &["--namespace", NAMESPACE, "logs", "deployment/thane-hub", "--tail=40"],
            &["--namespace", NAMESPACE, "logs", "deployment/thane-agent", "--tail=40"],
        ] {
            let said = self.spoke.run(arguments).await.unwrap_or_else(|error| format!("{error:#}"));
            text.extend(["--- kubectl ", &arguments.join(" "), "\n", &said, "\n"]);
        }
        text
    }

    /// Takes the hub away and ends its API; fails if something of that had failed unseen.
    pub async fn stop(self) -> Result<()> {
        let file = deploy("hub/30-hub.yaml");
        self.spoke.run(&["delete", "--wait", "--cascade=foreground", "-f", &file]).await?;
        self.api.stop().await
    }

    async fn rolled_out(&self, name: &str) -> Result<()> {
        let target = format!("deployment/{name}");
        self.spoke.run(&["--namespace", NAMESPACE, "rollout", "status", &target, ROLLOUT]).await?;
        Ok(())
    }

    async fn thane_run(&self, command: &[&str]) -> Result<String> {
        let connection: Vec<&str> = self.connection.iter().map(String::as_str).collect();
        self.thane.run(&[command, &connection].concat()).await
    }
}

/// A path below `deploy/`.
fn deploy(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path).display().to_string()
}
