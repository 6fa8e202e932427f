//! A real node: pods that run, on a machine that is left as it was.

mod sweep;

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::api::Api;
use kube::runtime::wait::{Condition, await_condition};
use rustix::fs::{FlockOperation, flock};

use super::{Absence, Guarded, KubeApiServer, PeerHome};
use crate::image;

/// Where the machine is for pods; only there when a node is.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// The longest a part may take to come up on a busy machine.
const START_LIMIT: Duration = Duration::from_mins(2);
/// The longest another run's node is waited for.
const TURN_LIMIT: Duration = Duration::from_mins(10);
/// Programs from `make peers`.
const PEERS: [&str; 3] = ["kubelet", "kube-proxy", "kube-scheduler"];
/// Programs of the system.
const SYSTEM: [&str; 9] = ["containerd", "ctr", "runc", "iptables", "conntrack", "busybox", "ip", "unshare", "nsenter"];
/// A plugin of the package that has all of them.
const NETWORK_PLUGIN: &str = "/usr/lib/cni/bridge";
/// Lines of a log that are shown.
const LAST_LINES: usize = 15;

/// An image that pods of the node may use.
#[derive(Debug, Clone)]
pub enum Image<'a> {
    /// An archive.
    Archive(&'a Path),
    /// A static program, packed when the node starts.
    Program {
        /// Where it is in the image.
        name: &'a str,
        /// The image's name.
        tag: &'a str,
        /// Where it is here.
        path: PathBuf,
    },
    /// A shell and busybox's commands, in place of what examples name.
    Userland {
        /// The image's name.
        tag: &'a str,
    },
}

/// A Kubernetes with one node; dropping it ends everything and removes its files, links and control groups.
pub struct Node {
    // Dropped in this order: nobody misses what it stands on.
    process: Option<Guarded>,
    api: KubeApiServer,
    folder: PathBuf,
    _turn: File,
}

impl Node {
    /// The image that workloads may use: `/busybox`, every command an argument.
    pub const BUSYBOX: &str = "localhost/busybox:1";

    /// Whether a node can be had here; if not, what a test should do about it.
    pub fn require(home: &PeerHome) -> Result<(), Absence> {
        home.require(&[KubeApiServer::programs(), PEERS.as_slice()].concat())?;
        let missing: Vec<&str> = SYSTEM.into_iter().filter(|name| find(name).is_none()).collect();
        if !missing.is_empty() {
            return Err(Absence::because(format!("{} not installed: run `make peers`", missing.join(", "))));
        }
        if !Path::new(NETWORK_PLUGIN).exists() {
            return Err(Absence::because(format!("{NETWORK_PLUGIN} not installed: run `make peers`")));
        }
        if !rustix::process::geteuid().is_root() {
            return Err(Absence::because("a node takes root".to_owned()));
        }
        let mut namespaces = Command::new("unshare");
        namespaces.args(["--net", "--mount", "--pid", "--fork", "ip", "link", "add", "pods", "type", "bridge"]);
        match namespaces.output() {
            Ok(made) if made.status.success() => Ok(()),
            Ok(made) => {
                let why = String::from_utf8_lossy(&made.stderr).trim().to_owned();
                Err(Absence::because(format!("namespaces and bridges are not to be had here: {why}")))
            }
            Err(error) => Err(Absence::because(format!("unshare: {error}"))),
        }
    }

    /// Starts it with these images, after any other run on this machine; what a killed run left is removed.
    pub async fn start(home: &PeerHome, images: &[Image<'_>]) -> Result<Self> {
        let turn = turn().await?;
        let folder = std::env::temp_dir().join("thane-node");
        sweep::sweep(&folder)?;
        std::fs::create_dir_all(folder.join("images"))?;
        prepare_images(&folder.join("images"), images)?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/node");
        let bin = home.program("kubelet");
        let peers = bin.parent().and_then(Path::parent).context("programs are in a folder")?;
        let arguments = [
            format!("THANE_PEERS_HOME={}", peers.display()),
            script.display().to_string(),
            folder.display().to_string(),
        ];
        let mut process = Guarded::start("env".as_ref(), &arguments, &folder.join("node.log"), None)?;
        let started = async {
            appears(&mut process, &folder, "linked").await?;
            let api = KubeApiServer::start_at(home, HOST, true).await?;
            for name in ["kubeconfig", "ca.crt", "kubelet.crt", "kubelet.key"] {
                std::fs::copy(api.folder().join(name), folder.join(name))?;
            }
            File::create(folder.join("join"))?;
            appears(&mut process, &folder, "joined").await?;
            let ready = await_condition(Api::<NodeObject>::all(api.client().await?), "node", is_ready());
            tokio::time::timeout(START_LIMIT, ready).await.context("the node is not ready in time")??;
            anyhow::Ok(api)
        };
        match started.await {
            Ok(api) => Ok(Self { process: Some(process), api, folder, _turn: turn }),
            Err(error) => {
                let words = last_words(&folder);
                drop(process);
                sweep::sweep(&folder)?;
                Err(error.context(words))
            }
        }
    }

    /// Its API.
    pub fn api(&self) -> &KubeApiServer {
        &self.api
    }

    /// Where pods reach the machine.
    pub fn host(&self) -> Ipv4Addr {
        HOST
    }

    /// Has it go down with everything that runs on it, and come back.
    pub async fn restart(&self) -> Result<()> {
        let asked = self.folder.join("restart");
        File::create(&asked)?;
        let deadline = Instant::now() + START_LIMIT;
        while asked.exists() {
            ensure!(Instant::now() < deadline, "the node does not come back");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// The ends of its logs.
    pub fn last_words(&self) -> String {
        last_words(&self.folder)
    }

    /// Ends it; fails if something of it stays behind.
    pub fn stop(mut self) -> Result<()> {
        self.process = None;
        sweep::sweep(&self.folder)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.process = None;
        // A test that fails has more to say than that; the next start tries again.
        let _ = sweep::sweep(&self.folder);
    }
}

/// Waits until no other process on this machine has a node.
async fn turn() -> Result<File> {
    let path = std::env::temp_dir().join("thane-node.lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path)?;
    let deadline = Instant::now() + TURN_LIMIT;
    while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        ensure!(Instant::now() < deadline, "another process has had the one node of this machine for {TURN_LIMIT:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(file)
}

/// Puts the images where the node takes them from: those asked for, one for workloads, and one that holds a pod together.
fn prepare_images(folder: &Path, images: &[Image<'_>]) -> Result<()> {
    for (number, image) in images.iter().enumerate() {
        let target = folder.join(format!("{number}.tar"));
        match image {
            Image::Archive(path) => {
                std::fs::copy(path, target).with_context(|| format!("copying {}", path.display()))?;
            }
            Image::Program { name, tag, path } => {
                let program = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
                std::fs::write(target, image::archive(name, tag, &[], &program))?;
            }
            Image::Userland { tag } => std::fs::write(target, userland(tag)?)?,
        }
    }
    let program = std::fs::read(find("busybox").context("busybox is there")?)?;
    let forever = ["tail", "-f", "/dev/null"];
    std::fs::write(folder.join("pause.tar"), image::archive("busybox", "localhost/pause:1", &forever, &program))?;
    std::fs::write(folder.join("busybox.tar"), image::archive("busybox", Node::BUSYBOX, &[], &program))?;
    Ok(())
}

fn userland(tag: &str) -> Result<Vec<u8>> {
    let program = find("busybox").context("busybox is there")?;
    let listed = Command::new(&program).arg("--list").output()?;
    let listed = String::from_utf8(listed.stdout)?;
    let commands: Vec<&str> = listed.lines().collect();
    Ok(image::userland(tag, &std::fs::read(program)?, &commands))
}

/// Waits for a file by which the node says how far it is.
async fn appears(process: &mut Guarded, folder: &Path, name: &str) -> Result<()> {
    let deadline = Instant::now() + START_LIMIT;
    while !folder.join(name).exists() {
        if !process.running() {
            bail!("the node ended before it was {name}");
        }
        ensure!(Instant::now() < deadline, "the node is not {name} in time");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn is_ready() -> impl Condition<NodeObject> {
    |node: Option<&NodeObject>| {
        let conditions = node.and_then(|node| node.status.as_ref()?.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|it| it.type_ == "Ready" && it.status == "True"))
    }
}

/// A program on the path.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn last_words(folder: &Path) -> String {
    let mut logs = vec![folder.join("node.log")];
    logs.extend(["containerd", "kubelet", "kube-proxy", "kube-scheduler"].map(|name| folder.join("log").join(name)));
    logs.iter().map(|log| tail(log, LAST_LINES)).collect()
}

/// The end of a log under its name.
pub(crate) fn tail(log: &Path, count: usize) -> String {
    let content = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = content.lines().collect();
    let skipped = lines.len().saturating_sub(count);
    let name = log.file_name().unwrap_or_default().to_string_lossy();
    format!("--- {name}, {skipped} earlier lines left out\n{}\n", lines[skipped..].join("\n"))
}
