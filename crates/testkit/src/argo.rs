//! Real Argo CD: its application controller, repository server and Redis, as programs on this machine; the controller may be
//! a pod instead.

mod repository;
mod server;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::endpoint::Endpoint;
use crate::peer::{Guarded, PeerHome, free_ports, tail};

pub use repository::Repository;
pub use server::Server;

/// The namespace of its settings and Applications.
const NAMESPACE: &str = "argocd";
/// The longest a program may take to answer on a busy machine.
const START_LIMIT: Duration = Duration::from_mins(1);
/// What its programs say to Redis.
pub(crate) const REDIS_PASSWORD: &str = "testkit";
/// Lines of a log that are shown.
const LAST_LINES: usize = 40;

/// The programs that must be built.
pub const PROGRAMS: [&str; 2] = ["argocd", "redis-server"];

/// The repository server and the Redis that application controllers work with; dropping it ends both.
pub struct Stores {
    repository: SocketAddr,
    redis: SocketAddr,
    // Dropped in this order: nobody misses what it stands on.
    _repository_server: Guarded,
    _redis: Option<Guarded>,
    /// What is said to Redis; nothing where it wants nothing.
    password: &'static str,
    folder: TempDir,
}

impl Stores {
    /// Where the repository server is.
    pub(crate) fn repository(&self) -> SocketAddr {
        self.repository
    }

    /// Where Redis is.
    pub(crate) fn redis(&self) -> SocketAddr {
        self.redis
    }

    /// Starts both at an address of this machine and waits until they answer.
    pub async fn start(home: &PeerHome, host: Ipv4Addr) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("thane-argo-stores-").tempdir()?;
        let [redis] = free_ports()?;
        let redis = SocketAddr::from((host, redis));
        let mut process = start_redis(home, folder.path(), redis)?;
        answers(&mut process, redis, &folder.path().join("redis.log")).await?;
        Self::beside(home, folder, redis, Some(process), REDIS_PASSWORD).await
    }

    /// Starts the repository server beside a Redis that runs already and wants no password.
    pub async fn start_with(home: &PeerHome, redis: SocketAddr) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("thane-argo-stores-").tempdir()?;
        Self::beside(home, folder, redis, None, "").await
    }

    async fn beside(
        home: &PeerHome,
        folder: TempDir,
        redis: SocketAddr,
        redis_process: Option<Guarded>,
        password: &'static str,
    ) -> Result<Self> {
        let [repository, metrics] = free_ports()?;
        let host = redis.ip();
        let repository = SocketAddr::from((host, repository));
        let arguments = [
            ("--address", host.to_string()),
            ("--port", repository.port().to_string()),
            ("--metrics-address", "127.0.0.1".to_owned()),
            ("--metrics-port", metrics.to_string()),
            ("--redis", redis.to_string()),
        ];
        let mut arguments = flags(&arguments);
        arguments.push("--disable-tls".to_owned());
        let place = Place { folder: folder.path(), kubeconfig: None, password };
        let mut process = start(home, "argocd-repo-server", &place, &arguments)?;
        answers(&mut process, repository, &folder.path().join("argocd-repo-server.log")).await?;
        Ok(Self { repository, redis, _repository_server: process, _redis: redis_process, password, folder })
    }
}

/// The application controller of a cluster with its stores, which may be somebody else's; dropping it ends all of them.
pub struct Argo {
    // Dropped in this order: nobody misses what it stands on.
    controller: Option<(Guarded, TempDir)>,
    stores: Stores,
}

impl Argo {
    /// Starts the controller of a cluster; its stores run already.
    pub fn start(home: &PeerHome, cluster: &Endpoint, stores: Stores) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("thane-argo-controller-").tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, cluster.kubeconfig(NAMESPACE)?)?;
        let [metrics] = free_ports()?;
        let arguments = [
            ("--namespace", NAMESPACE.to_owned()),
            ("--repo-server", stores.repository.to_string()),
            ("--redis", stores.redis.to_string()),
            ("--metrics-port", metrics.to_string()),
            ("--status-processors", "4".to_owned()),
            ("--operation-processors", "2".to_owned()),
        ];
        let mut arguments = flags(&arguments);
        arguments.push("--repo-server-plaintext".to_owned());
        let place = Place { folder: folder.path(), kubeconfig: Some(&kubeconfig), password: stores.password };
        let controller = start(home, "argocd-application-controller", &place, &arguments)?;
        Ok(Self { controller: Some((controller, folder)), stores })
    }

    /// The controller is a pod, and somebody else's concern.
    pub fn deployed(stores: Stores) -> Self {
        Self { controller: None, stores }
    }

    /// What the controller works with.
    pub fn stores(&self) -> &Stores {
        &self.stores
    }

    /// The ends of the logs of the programs on this machine.
    pub fn last_words(&self) -> String {
        let mut text = tail(&self.stores.folder.path().join("argocd-repo-server.log"), LAST_LINES);
        if let Some((_, folder)) = &self.controller {
            text += &tail(&folder.path().join("argocd-application-controller.log"), LAST_LINES);
        }
        text
    }
}

/// Where a program of Argo CD keeps its files, and what it is to use.
struct Place<'a> {
    folder: &'a Path,
    kubeconfig: Option<&'a Path>,
    password: &'a str,
}

/// Argo CD is one program that acts by a variable.
fn start(home: &PeerHome, role: &str, place: &Place<'_>, arguments: &[String]) -> Result<Guarded> {
    let Place { folder, kubeconfig, password } = place;
    let root = folder.display();
    let mut all = vec![
        format!("ARGOCD_BINARY_NAME={role}"),
        // What a pod would find in its file system.
        "ARGOCD_FAKE_IN_CLUSTER=true".to_owned(),
        "ARGOCD_GPG_ENABLED=false".to_owned(),
        format!("ARGOCD_TLS_DATA_PATH={root}"),
        format!("ARGOCD_SSH_DATA_PATH={root}"),
        format!("REDIS_PASSWORD={password}"),
        format!("HOME={root}"),
        format!("TMPDIR={root}"),
    ];
    all.extend(kubeconfig.map(|path| format!("KUBECONFIG={}", path.display())));
    all.push(home.program("argocd").display().to_string());
    all.extend_from_slice(arguments);
    Guarded::start("env".as_ref(), &all, &folder.join(format!("{role}.log")), Some(folder))
}

fn start_redis(home: &PeerHome, folder: &Path, address: SocketAddr) -> Result<Guarded> {
    let arguments = [
        ("--bind", address.ip().to_string()),
        ("--port", address.port().to_string()),
        ("--save", String::new()),
        ("--appendonly", "no".to_owned()),
        ("--dir", folder.display().to_string()),
        ("--requirepass", REDIS_PASSWORD.to_owned()),
    ];
    Guarded::start(&home.program("redis-server"), &flags(&arguments), &folder.join("redis.log"), Some(folder))
}

fn flags(pairs: &[(&str, String)]) -> Vec<String> {
    pairs.iter().flat_map(|(name, value)| [(*name).to_owned(), value.clone()]).collect()
}

/// Waits until somebody listens.
async fn answers(process: &mut Guarded, address: SocketAddr, log: &Path) -> Result<()> {
    let deadline = Instant::now() + START_LIMIT;
    while TcpStream::connect(address).await.is_err() {
        if !process.running() || Instant::now() > deadline {
            bail!("nobody answers at {address}\n{}", tail(log, LAST_LINES));
        }
        // Another program's readiness can only be asked for, not awaited.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// The image of the controller, for pods.
pub const CONTROLLER_IMAGE: &str = "localhost/argocd:1";
/// Where the controller is in its image; the program knows by its name what it is to do.
pub const CONTROLLER: &str = "usr/local/bin/argocd-application-controller";

/// The settings that Argo CD's programs expect, for `kubectl apply -f`.
pub fn settings(home: &PeerHome) -> Result<PathBuf> {
    let folder = home.manifests("argo-cd");
    folder.is_dir().then_some(folder).context("Argo CD's settings are missing: run `make peers`")
}
