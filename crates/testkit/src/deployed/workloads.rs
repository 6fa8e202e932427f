//! Workflows and workloads as users deploy them: our operator in pods from the manifests of `deploy/`, and beside it a real
//! Argo controller, which is a process on this machine.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::runtime::wait::{await_condition, conditions};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::ROLLOUT;
use super::command::Tool;
use super::style::deploy;
use crate::endpoint::kubeconfig;
use crate::peer::{Guarded, Image, Node, PeerHome, tail};

/// Where Argo has its settings, and where Workflows are.
const NAMESPACE: &str = "argo";
/// Where our operator is.
const OPERATOR: &str = "agentic-system";
/// The image with Argo's executor.
const EXECUTOR: &str = "localhost/argoexec:1";
/// Images that examples name.
const USERLANDS: [&str; 2] = ["docker.io/library/busybox:latest", "docker.io/library/alpine:3.23"];
/// The longest anything may take to come true.
const PATIENCE: Duration = Duration::from_mins(4);

/// What a node needs for it.
pub fn argo_images(home: &PeerHome) -> Vec<Image<'static>> {
    let executor = Image::Program { name: "argoexec", tag: EXECUTOR, path: home.program("argoexec") };
    USERLANDS.iter().map(|tag| Image::Userland { tag }).chain([executor]).collect()
}

/// Both controllers on one cluster.
pub struct Workloads {
    kubectl: Tool,
    thane: Tool,
    kubeconfig: PathBuf,
    // Dropped in this order: nobody misses what it stands on.
    _controller: Guarded,
    folder: TempDir,
}

impl Workloads {
    /// The programs that must be built.
    pub const PROGRAMS: [&str; 2] = ["workflow-controller", "argoexec"];

    /// Applies definitions and manifests, starts Argo, and waits until all of it is ready.
    pub async fn deploy(home: &PeerHome, node: &Node, program: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("thane-workloads-").tempdir()?;
        let file = folder.path().join("kubeconfig");
        std::fs::write(&file, kubeconfig(&[("node", node.api().endpoint())], NAMESPACE)?)?;
        let always = vec![format!("--kubeconfig={}", file.display()), "--context=node".to_owned()];
        let kubectl = Tool { program: home.program("kubectl"), always };
        let thane = Tool { program: program.to_owned(), always: Vec::new() };
        let definitions = home.definitions("argo-workflows").display().to_string();
        kubectl.run(&["apply", "--server-side", "-f", &definitions]).await?;
        let kinds: Api<CustomResourceDefinition> = Api::all(node.api().client().await?);
        // `kubectl wait` gives up on one that has no status yet.
        let known = await_condition(kinds, "workflows.argoproj.io", conditions::is_crd_established());
        tokio::time::timeout(PATIENCE, known).await.context("Argo's definitions are not established")??;
        kubectl.apply_text(&settings().to_string()).await?;
        kubectl.apply(&deploy("workflow", &["00-namespace", "20-rights", "30-steps"])).await?;
        let own = ["00-namespaces", "20-rights", "30-operator-rights", "60-operator", "70-approvals"];
        let mut own = deploy("workload", &own);
        own.insert(1, own[0].with_file_name("10-definition.json"));
        kubectl.apply(&own).await?;
        let policies = own[0].with_file_name("policies").display().to_string();
        kubectl.run(&["apply", "-k", &policies]).await?;
        let controller = start_argo(home, folder.path(), &file)?;
        let made = Self { kubectl, thane, kubeconfig: file, _controller: controller, folder };
        match made.kubectl(&["rollout", "status", "--namespace", OPERATOR, "deployment/thane-operator", ROLLOUT]).await
        {
            Ok(_) => Ok(made),
            Err(error) => Err(error.context(made.last_words().await)),
        }
    }

    /// Leaves it to the templates where their services are.
    pub async fn without_services(&self) -> Result<()> {
        let deployment = "deployment/thane-operator";
        let named =
            ["BUCKET", "BROWSERLESS_URL", "LITELLM_URL", "POSTGRES_DSN"].map(|name| format!("THANE_WORKLOAD_{name}-"));
        let mut set = vec!["set", "env", "--namespace", OPERATOR, deployment];
        set.extend(named.iter().map(String::as_str));
        self.kubectl.run(&set).await?;
        self.kubectl.run(&["rollout", "status", "--namespace", OPERATOR, deployment, ROLLOUT]).await?;
        Ok(())
    }

    /// How others reach the cluster.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Runs kubectl in the namespace of Workflows; what it prints.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl.run(arguments).await
    }

    /// Runs a command of ours there; what it prints.
    pub async fn thane(&self, arguments: &[&str]) -> Result<String> {
        let kubeconfig = self.kubeconfig.display().to_string();
        self.thane.run(&[arguments, &["--kubeconfig", &kubeconfig]].concat()).await
    }

    /// Applies an object.
    pub async fn apply(&self, object: &Value) -> Result<()> {
        self.kubectl.apply_text(&object.to_string()).await
    }

    /// Applies text with several objects.
    pub async fn apply_text(&self, text: &str) -> Result<()> {
        self.kubectl.apply_text(text).await
    }

    /// An object, or a list of them.
    pub async fn read(&self, arguments: &[&str]) -> Result<Value> {
        let said = self.kubectl.run(&[&["get", "--output=json"], arguments].concat()).await?;
        serde_json::from_str(&said).context("kubectl prints JSON")
    }

    /// An object once it is as it should be.
    pub async fn until(&self, arguments: &[&str], holds: impl Fn(&Value) -> bool) -> Result<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.read(arguments).await {
                Ok(object) if holds(&object) => return Ok(object),
                Ok(object) => {
                    ensure!(Instant::now() < deadline, "{}: {:#}", arguments.join(" "), object["status"]);
                }
                // It may not have been made yet.
                Err(error) => ensure!(Instant::now() < deadline, "{error:#}"),
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    /// Workflows once all of them have ended, by name.
    pub async fn ended(&self, names: &[String]) -> Result<Vec<Value>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let list = self.read(&["workflows"]).await?;
            let items = list["items"].as_array().context("a list")?;
            let found: Vec<Value> = names
                .iter()
                .filter_map(|name| {
                    items.iter().find(|one| one["metadata"]["name"] == **name && has_ended(one)).cloned()
                })
                .collect();
            if found.len() == names.len() {
                return Ok(found);
            }
            if Instant::now() >= deadline {
                let open = items.iter().filter(|one| !has_ended(one)).map(|one| &one["status"]);
                bail!("these have not ended: {:#?}", open.collect::<Vec<_>>());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Logs, and how everything is.
    pub async fn last_words(&self) -> String {
        let mut text = tail(&self.folder.path().join("argo.log"), 40);
        for arguments in [
            ["get", "workflows,agentworkloads,pods", "--all-namespaces", "--output=wide"].as_slice(),
            &[
                "logs",
                "--namespace",
                OPERATOR,
                "--selector=app.kubernetes.io/name=thane-operator",
                "--tail=40",
                "--prefix",
            ],
        ] {
            let said = self.kubectl.run(arguments).await.unwrap_or_else(|error| format!("{error:#}"));
            text.extend(["--- kubectl ", &arguments.join(" "), "\n", &said, "\n"]);
        }
        text
    }

    /// Takes away what could keep others from their turn.
    pub async fn remove(self) -> Result<()> {
        self.kubectl.run(&["delete", "agentworkloads,workflows", "--all", "--all-namespaces"]).await?;
        self.kubectl.run(&["delete", "--namespace", OPERATOR, "deployment/thane-operator"]).await?;
        Ok(())
    }
}

fn has_ended(workflow: &Value) -> bool {
    matches!(workflow["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Error"))
}

/// Argo's settings: nothing is pulled, and nobody asks for its numbers.
fn settings() -> Value {
    let policy = "imagePullPolicy: IfNotPresent\n";
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "workflow-controller-configmap", "namespace": NAMESPACE},
            "data": {"executor": policy, "mainContainer": policy, "metricsConfig": "enabled: false\n"}},
    ]})
}

fn start_argo(home: &PeerHome, folder: &Path, kubeconfig: &Path) -> Result<Guarded> {
    let arguments = [
        "LEADER_ELECTION_IDENTITY=node".to_owned(),
        // It looks at a Workflow again after ten seconds otherwise.
        "DEFAULT_REQUEUE_TIME=1s".to_owned(),
        home.program("workflow-controller").display().to_string(),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--executor-image={EXECUTOR}"),
    ];
    Guarded::start("env".as_ref(), &arguments, &folder.join("argo.log"), None)
}
