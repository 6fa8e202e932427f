//! An embedded API with a node, and what tests ask of it.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ContainerState, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use tempfile::TempDir;
use thane_node::{Addresses, Config, Node};
use thane_runtime::{SystemClock, Tasks};
use thane_testkit::peer::EmbeddedApi;

/// Nothing here takes long; this is for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// An API and a node.
pub(crate) struct Bed {
    api: Option<EmbeddedApi>,
    pub(crate) node: Option<Running>,
    pub(crate) folder: TempDir,
    config: Config,
}

/// A node that runs.
pub(crate) struct Running {
    pub(crate) rooms: Arc<Node>,
    pub(crate) tasks: Tasks,
    _supervisor: thane_runtime::tasks::Supervisor,
    pub(crate) runtime: tokio::runtime::Runtime,
}

impl Running {
    /// Vanishes without a word, as a process that is killed does.
    pub(crate) fn kill(self) {
        self.runtime.shutdown_background();
    }
}

impl Bed {
    /// A bed, unless this machine cannot have one.
    pub(crate) async fn new(change: impl FnOnce(&mut Config)) -> Option<Self> {
        let missing = thane_node::host::missing();
        if !missing.is_empty() {
            eprintln!("SKIPPED, this test runs containers and the machine lacks: {}", missing.join("; "));
            return None;
        }
        let folder = tempfile::Builder::new().prefix("thane-node-").tempdir().unwrap();
        let mut config = Config::new("here", folder.path().join("node"), folder.path().join("images"));
        config.restart_first = Duration::from_millis(200);
        config.disk_every = Duration::from_millis(200);
        change(&mut config);
        let api = EmbeddedApi::start().await.unwrap();
        let mut bed = Self { api: Some(api), node: None, folder, config };
        bed.start_node().await;
        Some(bed)
    }

    pub(crate) async fn start_node(&mut self) {
        let (tasks, supervisor) = Tasks::root("node");
        let addresses = Arc::new(Addresses::default());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (config, client, group) = (self.config.clone(), self.client(), tasks.clone());
        let starting =
            runtime.spawn(async move { Node::start(config, client, SystemClock::shared(), addresses, &group).await });
        let node = Arc::new(starting.await.unwrap().unwrap());
        self.api.as_ref().unwrap().server().open_pods(Arc::clone(&node) as _, tasks.child("streams"));
        self.node = Some(Running { rooms: node, tasks, _supervisor: supervisor, runtime });
    }

    /// Ends the node as a signal would.
    pub(crate) async fn stop_node(&mut self) {
        let node = self.node.take().unwrap();
        assert!(node.tasks.shutdown(PATIENCE).await.is_empty());
        node.runtime.shutdown_background();
    }

    pub(crate) fn client(&self) -> kube::Client {
        self.api.as_ref().unwrap().in_process("default")
    }

    /// The way of kubectl.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.api.as_ref().unwrap().kubeconfig().to_owned()
    }

    /// A client over TLS.
    pub(crate) async fn remote(&self) -> kube::Client {
        self.api.as_ref().unwrap().client().await.unwrap()
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client(), "default")
    }

    /// Creates a pod of one container that runs a script from the machine's own userland.
    pub(crate) async fn script(&self, name: &str, script: &str, more: Value) -> Pod {
        let container = json!({"name": "main", "image": "host", "command": ["sh", "-c", script]});
        let mut spec = json!({"restartPolicy": "Never", "containers": [container]});
        merge(&mut spec, more);
        self.create(name, spec, json!({})).await
    }

    pub(crate) async fn create(&self, name: &str, spec: Value, annotations: Value) -> Pod {
        let mut spec = spec;
        if spec.get("terminationGracePeriodSeconds").is_none() {
            spec["terminationGracePeriodSeconds"] = 1.into();
        }
        let pod = json!({"metadata": {"name": name, "annotations": annotations}, "spec": spec});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap()
    }

    /// Waits until a pod is like that.
    pub(crate) async fn until(&self, name: &str, what: &str, wanted: impl Fn(&Pod) -> bool + Send + Sync) -> Pod {
        let condition = |pod: Option<&Pod>| pod.is_some_and(&wanted);
        match tokio::time::timeout(PATIENCE, await_condition(self.pods(), name, condition)).await {
            Ok(found) => found.unwrap().unwrap(),
            Err(_) => {
                let pod = self.pods().get(name).await.ok().and_then(|pod| pod.status);
                panic!("pod {name} is not {what}: {}", serde_json::to_string_pretty(&pod).unwrap());
            }
        }
    }

    pub(crate) async fn phase(&self, name: &str, phase: &str) -> Pod {
        self.until(name, phase, |pod| phase_of(pod) == phase).await
    }

    /// Runs a script to its end: its exit code and what it said.
    pub(crate) async fn outcome(&self, name: &str, script: &str, more: Value) -> (i32, String) {
        self.script(name, script, more).await;
        let pod = self.until(name, "ended", |pod| matches!(phase_of(pod), "Succeeded" | "Failed")).await;
        let ended = state(&pod, "main").terminated.unwrap_or_else(|| panic!("{:?}", pod.status));
        (ended.exit_code, self.log(&pod, "main", 0))
    }

    pub(crate) fn attempt(&self, pod: &Pod, container: &str, attempt: u32) -> PathBuf {
        let uid = pod.metadata.uid.clone().unwrap();
        let containers = self.folder.path().join("node/pods").join(uid).join("containers");
        containers.join(container).join(attempt.to_string())
    }

    /// What a container said.
    pub(crate) fn log(&self, pod: &Pod, container: &str, attempt: u32) -> String {
        let bytes = std::fs::read(self.attempt(pod, container, attempt).join("run/log")).unwrap_or_default();
        let lines = bytes.split(|byte| *byte == b'\n').filter_map(thane_executor::log::parse);
        let text: Vec<u8> = lines.flat_map(|line| line.text.iter().copied().chain([b'\n'])).collect();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Deletes a pod and waits until nothing of it is left, in the API and on disk.
    pub(crate) async fn delete(&self, name: &str) {
        let pod = self.pods().get(name).await.unwrap();
        self.pods().delete(name, &DeleteParams::default()).await.unwrap();
        let directory = self.folder.path().join("node/pods").join(pod.metadata.uid.unwrap());
        let gone = async {
            while self.pods().get_opt(name).await.unwrap().is_some() || directory.exists() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, gone).await.unwrap();
    }

    /// Stops everything and fails if anything is left behind.
    pub(crate) async fn end(mut self) -> Result<()> {
        // Logs of pods that have ended stay until somebody deletes the pod.
        let ended = self.pods().list(&ListParams::default()).await?;
        let ended = ended.items.iter().filter(|pod| matches!(phase_of(pod), "Succeeded" | "Failed"));
        let names: Vec<String> = ended.filter_map(|pod| pod.metadata.name.clone()).collect();
        futures::future::join_all(names.iter().map(|name| self.delete(name))).await;
        if let Some(node) = self.node.take() {
            let late = node.tasks.shutdown(PATIENCE).await;
            node.runtime.shutdown_background();
            anyhow::ensure!(late.is_empty(), "tasks did not end: {late:?}");
        }
        self.api.take().context("an API")?.stop().await?;
        let left: Vec<_> = std::fs::read_dir(self.folder.path().join("node/pods"))?.collect();
        anyhow::ensure!(left.is_empty(), "files are left: {left:?}");
        let left: Vec<_> = std::fs::read_dir(self.folder.path().join("node/layers"))?.collect();
        anyhow::ensure!(left.is_empty(), "layers are left: {left:?}");
        nothing_left(self.folder.path())
    }
}

impl Drop for Bed {
    /// A test that failed leaves nothing behind either.
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            node.kill();
        }
        for pid in processes(self.folder.path()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let name = group_name(&self.folder.path().join("node"));
        for _ in 0..50 {
            let groups = walk(Path::new("/sys/fs/cgroup"), 6).into_iter();
            let own: Vec<_> = groups.filter(|path| path.iter().any(|part| part == name.as_str())).collect();
            if own.is_empty() {
                break;
            }
            for path in own {
                let _ = std::fs::remove_dir(path);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Processes of the executor in that folder: it is run from there, so its program tells.
fn processes(folder: &Path) -> Vec<rustix::process::Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let own = entries
        .filter(|entry| std::fs::read_link(entry.path().join("exe")).is_ok_and(|program| program.starts_with(folder)));
    let pids = own.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(rustix::process::Pid::from_raw).collect()
}

/// No process, mount or control group of a node in that folder is left.
pub(crate) fn nothing_left(folder: &Path) -> Result<()> {
    let shown = folder.display().to_string();
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    anyhow::ensure!(!mounts.contains(&shown), "mounts are left: {mounts}");
    let processes = processes(folder);
    anyhow::ensure!(processes.is_empty(), "processes are left: {processes:?}");
    let node = folder.join("node").canonicalize().context("the node's folder")?;
    let name = group_name(&node);
    let groups: Vec<_> =
        walk(Path::new("/sys/fs/cgroup"), 2).into_iter().filter(|path| path.ends_with(&name)).collect();
    anyhow::ensure!(groups.is_empty(), "control groups are left: {groups:?}");
    Ok(())
}

fn group_name(node: &Path) -> String {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(node.as_os_str().as_encoded_bytes());
    let hex: String = digest.iter().take(6).fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    format!("thane-{hex}")
}

fn walk(path: &Path, depth: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if depth > 1 {
                found.extend(walk(&entry.path(), depth - 1));
            }
            found.push(entry.path());
        }
    }
    found
}

pub(crate) fn phase_of(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// The present state of a container.
pub(crate) fn state(pod: &Pod, container: &str) -> ContainerState {
    let all = pod.status.iter().flat_map(|status| {
        status.container_statuses.iter().flatten().chain(status.init_container_statuses.iter().flatten())
    });
    all.filter(|one| one.name == container).find_map(|one| one.state.clone()).unwrap_or_default()
}

/// Whether a condition holds.
pub(crate) fn holds(pod: &Pod, kind: &str) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.type_ == kind && one.status == "True")
}

/// Puts the fields of one value into another; the first container takes those of `container`.
pub(crate) fn merge(into: &mut Value, from: Value) {
    let Value::Object(from) = from else { return };
    for (key, value) in from {
        if key == "container" {
            merge(&mut into["containers"][0], value);
        } else {
            into[key] = value;
        }
    }
}

/// Runs a test on a bed and ends it.
pub(crate) fn on_bed<F: Future<Output = Bed>>(test: impl FnOnce(Bed) -> F) {
    with_bed(|_| {}, test);
}

/// So that a test which waits for ever says so, instead of holding up everything after it.
const LONGEST: Duration = Duration::from_mins(5);

/// The same with a node that is told something else.
pub(crate) fn with_bed<F: Future<Output = Bed>>(change: impl FnOnce(&mut Config), test: impl FnOnce(Bed) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let Some(bed) = Bed::new(change).await else { return };
        let bed = tokio::time::timeout(LONGEST, test(bed)).await.expect("a test hangs");
        bed.end().await.unwrap();
    });
}
