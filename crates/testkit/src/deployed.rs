//! Hub and agent as users deploy them: the image of `make image` and the manifests of `deploy/` or of argocd-agent, in pods on
//! a node.
//!
//! The hub's API is another than the node's: its pod is told so where a pod of that API's own cluster would find it, with
//! a token that has the rights of `deploy/hub` there and none on the node's cluster. The agent is a pod of its own cluster.

mod command;
mod discovery;
mod live;
mod manifest;
mod sandboxes;
mod style;
mod workloads;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::argo::{self, Stores};
use crate::endpoint::{Endpoint, kubeconfig};
use crate::fleet::api::{FleetApi, define};
use crate::fleet::{ApiKind, Mode, Side};
use crate::peer::{Absence, Node, PeerHome};
use command::Tool;
pub use sandboxes::Sandboxes;
pub use style::Style;
use style::{Files, deploy};
pub use workloads::{Workloads, argo_images};

/// Where hub and agent are, each on its API.
const NAMESPACE: &str = "argocd";
/// The name of Argo CD's application controller.
const CONTROLLER: &str = "argocd-application-controller";
/// The longest a pod may take to be ready, as kubectl is told.
const ROLLOUT: &str = "--timeout=120s";
/// The longest anything may take to come true.
const PATIENCE: Duration = Duration::from_mins(3);
/// What is said once where another's settings and rights are all that there is, and is no complaint.
const TOLD: [&str; 3] = [
    // No Redis runs beside these hubs.
    "cannot be shown which agents are connected",
    "of no effect here",
    "agents are not kept as objects",
];

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
    style: Style,
    api: FleetApi,
    hub: Tool,
    spoke: Tool,
    thane: Tool,
    /// Our commands take it after what is to be done.
    connection: [String; 2],
    hub_files: Files,
    agent_files: Files,
    address: String,
    folder: TempDir,
}

impl<'a> Deployed<'a> {
    /// Gives both APIs Argo CD's kinds and settings, makes the hub's secrets and deploys the hub.
    pub async fn start(
        home: &PeerHome,
        node: &'a Node,
        programs: &Programs,
        kind: ApiKind,
        style: Style,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("thane-deployed-").tempdir()?;
        let api = FleetApi::start_at(home, kind, node.host()).await?;
        let file = folder.path().join("kubeconfig");
        std::fs::write(&file, kubeconfig(&[("hub", api.endpoint()), ("spoke", node.api().endpoint())], NAMESPACE)?)?;
        let given = format!("--kubeconfig={}", file.display());
        let kubectl = |context: &str| Tool {
            program: home.program("kubectl"),
            always: vec![given.clone(), format!("--context={context}")],
        };
        let mut made = Self {
            node,
            style,
            api,
            hub: kubectl("hub"),
            spoke: kubectl("spoke"),
            thane: Tool { program: programs.program.clone(), always: Vec::new() },
            connection: [given.clone(), "--context=hub".to_owned()],
            hub_files: style.hub(home)?,
            agent_files: style.agent(home)?,
            address: String::new(),
            folder,
        };
        define(&node.api().client().await?, &home.definitions("argo-cd")).await?;
        for (role, tool) in [("hub", &made.hub), ("agent", &made.spoke)] {
            tool.apply(&deploy(role, &["00-namespace"])).await?;
            tool.apply(&[argo::settings(home)?]).await?;
        }
        match made.deploy_hub().await {
            Ok(()) => Ok(made),
            Err(error) => Err(error.context(made.last_words().await)),
        }
    }

    async fn deploy_hub(&mut self) -> Result<()> {
        let files = &self.hub_files;
        self.hub.apply(&files.rights).await?;
        self.spoke.apply(&files.services).await?;
        self.address = self.spoke.run(&["get", "service", files.name, "-o", "jsonpath={.spec.clusterIP}"]).await?;
        self.thane_run(&["pki", "init"]).await?;
        self.thane_run(&["pki", "issue", "principal", "--san", &self.address]).await?;
        self.thane_run(&["jwt", "create-key"]).await?;
        // On the node's cluster it may do nothing; what it may do is said by the token for its own API.
        self.spoke.apply_text(&manifest::nobody(files.name)).await?;
        let token = self.hub.run(&["create", "token", files.name, "--duration=1h"]).await?;
        let endpoint = self.api.endpoint();
        self.spoke.apply_text(&manifest::account(NAMESPACE, token.trim(), &endpoint.ca)).await?;
        if self.style == Style::Upstream {
            self.spoke.apply_text(&manifest::redis_password()).await?;
            self.upstream_settings(Mode::Managed).await?;
        }
        let mut deployment = self.deployment(&files.deployment)?;
        manifest::elsewhere(&mut deployment, &endpoint.address)?;
        self.spoke.apply_text(&deployment.to_string()).await?;
        self.rolled_out(files.name).await
    }

    /// Registers an agent, deploys it on the node's cluster and waits until it is connected.
    pub async fn deploy_agent(&self, name: &str, mode: Mode) -> Result<()> {
        match self.try_deploy_agent(name, mode).await {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(self.last_words().await)),
        }
    }

    async fn try_deploy_agent(&self, name: &str, mode: Mode) -> Result<()> {
        let files = &self.agent_files;
        self.thane_run(&["agents", "create", name, "--agent-context=spoke"]).await?;
        match self.style {
            Style::Ours => {
                self.spoke.apply_text(&manifest::settings(&files.settings, &self.address, mode)?).await?;
            }
            Style::Upstream => self.upstream_settings(mode).await?,
        }
        self.spoke.apply(&files.rights).await?;
        self.spoke.apply(&files.services).await?;
        self.spoke.apply_text(&self.deployment(&files.deployment)?.to_string()).await?;
        self.rolled_out(files.name).await?;
        if self.style == Style::Ours {
            let connected = "--for=jsonpath={.status.connected}=true";
            self.hub.run(&["wait", &format!("agents.thane.dev/{name}"), connected, ROLLOUT]).await?;
        }
        Ok(())
    }

    async fn upstream_settings(&self, mode: Mode) -> Result<()> {
        let (hub, agent) = (&self.hub_files.settings, &self.agent_files.settings);
        self.spoke.apply_text(&manifest::upstream_settings(hub, agent, &self.address, mode)?).await
    }

    /// Ours is as it is; another is switched to us.
    fn deployment(&self, file: &Path) -> Result<Value> {
        match self.style {
            Style::Ours => manifest::read(file),
            Style::Upstream => manifest::switched(file, concat!("localhost/thane:", env!("CARGO_PKG_VERSION"))),
        }
    }

    /// Replaces the pods of hub and agent, one after the other, as a new version would.
    pub async fn restart(&self) -> Result<()> {
        for files in [&self.hub_files, &self.agent_files] {
            self.spoke.run(&["rollout", "restart", &format!("deployment/{}", files.name)]).await?;
            self.rolled_out(files.name).await?;
        }
        Ok(())
    }

    /// Fails if hub or agent had reason to complain.
    pub async fn quiet(&self) -> Result<()> {
        for files in [&self.hub_files, &self.agent_files] {
            let log = self.spoke.run(&["logs", &format!("deployment/{}", files.name)]).await?;
            let is_told = |line: &str| self.style == Style::Upstream && TOLD.iter().any(|told| line.contains(told));
            let is_loud = |line: &&str| ["WARN", "ERROR"].iter().any(|level| line.contains(level)) && !is_told(line);
            let loud: Vec<&str> = log.lines().filter(is_loud).collect();
            ensure!(loud.is_empty(), "{} complains: {}", files.name, loud.join("\n"));
        }
        Ok(())
    }

    /// Takes the agent away, with its certificate; its Applications stay.
    pub async fn remove_agent(&self) -> Result<()> {
        self.remove(&self.agent_files).await?;
        self.spoke.run(&["delete", "secret", "argocd-agent-client-tls", "argocd-agent-ca"]).await?;
        Ok(())
    }

    async fn remove(&self, files: &Files) -> Result<()> {
        let target = format!("deployment/{}", files.name);
        self.spoke.run(&["delete", "--wait", "--cascade=foreground", &target]).await?;
        Ok(())
    }

    /// Deploys Argo CD's own application controller on the node's cluster, with stores that are elsewhere.
    pub async fn deploy_controller(&self, home: &PeerHome, stores: &Stores) -> Result<()> {
        let folder = home.manifests("argo-cd-controller");
        let file = |part: &str| folder.join(format!("{CONTROLLER}-{part}.yaml"));
        self.spoke.apply(&["sa", "role", "rolebinding", "clusterrole", "clusterrolebinding"].map(file)).await?;
        self.spoke.apply_text(&manifest::redis_password()).await?;
        let (patch, target) = (manifest::stores(stores), "configmap/argocd-cmd-params-cm");
        self.spoke.run(&["patch", target, "--type=merge", "--patch", &patch]).await?;
        self.spoke.apply_text(&manifest::controller(&file("statefulset"))?.to_string()).await
    }

    /// Takes that controller away.
    pub async fn remove_controller(&self) -> Result<()> {
        let target = format!("statefulset/{CONTROLLER}");
        self.spoke.run(&["delete", "--wait", "--cascade=foreground", &target]).await?;
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
            &["get", "events", "--sort-by=.lastTimestamp"],
            &["logs", &format!("deployment/{}", self.hub_files.name), "--tail=40"],
            &["logs", &format!("deployment/{}", self.agent_files.name), "--tail=40"],
            &["logs", &format!("statefulset/{CONTROLLER}"), "--tail=40", "--ignore-errors"],
        ] {
            let said = self.spoke.run(arguments).await.unwrap_or_else(|error| format!("{error:#}"));
            text.extend(["--- kubectl ", &arguments.join(" "), "\n", &said, "\n"]);
        }
        text
    }

    /// Takes the hub away and ends its API; fails if something of that had failed unseen.
    pub async fn stop(self) -> Result<()> {
        self.remove(&self.hub_files).await?;
        self.api.stop().await
    }

    async fn rolled_out(&self, name: &str) -> Result<()> {
        self.spoke.run(&["rollout", "status", &format!("deployment/{name}"), ROLLOUT]).await?;
        Ok(())
    }

    async fn thane_run(&self, command: &[&str]) -> Result<String> {
        let connection: Vec<&str> = self.connection.iter().map(String::as_str).collect();
        self.thane.run(&[command, &connection].concat()).await
    }
}
