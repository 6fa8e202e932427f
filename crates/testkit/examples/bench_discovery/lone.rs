//! An agent in a process of its own, and what passes between it and the hub.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use thane_runtime::pki::store::{self, Paths};
use thane_runtime::pki::{Authority, Request};
use thane_runtime::{Clock, SystemClock, Tasks};
use thane_testkit::peer::{Guarded, Thane, free_ports};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::load::{Line, request};

const DAY: Duration = Duration::from_hours(24);
/// The ticks of a second, in which Linux tells the time of a process.
const TICKS: f64 = 100.0;

/// Where agents call, and who says who they are.
pub(crate) struct Hub {
    pub(crate) port: u16,
    pub(crate) authority: Authority,
    folder: PathBuf,
}

impl Hub {
    /// The hub of `thane up`.
    pub(crate) fn of(thane: &Thane) -> Result<Self> {
        let folder = thane.kubeconfig().with_file_name("fleet");
        let authority = store::load_authority(&Paths::new(&folder, "ca"))?;
        let address = thane.published("hub")?;
        let port = address.rsplit(':').next().context("an address has a port")?.parse()?;
        Ok(Self { port, authority, folder })
    }
}

/// An agent in a process of its own.
pub(crate) struct LoneAgent {
    pub(crate) address: String,
    /// Bytes between it and the hub, both ways.
    pub(crate) bytes: Arc<AtomicU64>,
    process: Guarded,
    relay: Tasks,
    _folder: TempDir,
}

impl LoneAgent {
    pub(crate) async fn start(program: &Path, hub: &Hub, name: &str) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("thane-bench-").tempdir()?;
        let root = folder.path();
        let identity = hub.authority.issue(&Request::agent(name), SystemClock::new().now(), DAY)?;
        store::save(&Paths::new(root, "agent"), &identity)?;
        let bytes = Arc::new(AtomicU64::new(0));
        let (tasks, _) = Tasks::root("relay");
        let relay = relay(hub.port, Arc::clone(&bytes), tasks.clone()).await?;
        let [api, dns] = free_ports()?;
        let text = |path: PathBuf| path.display().to_string();
        let options = [
            ("discovery-data", text(root.join("data"))),
            ("node-name", name.to_owned()),
            ("server-address", "127.0.0.1".to_owned()),
            ("server-port", relay.to_string()),
            ("root-ca-path", text(hub.folder.join("ca.crt"))),
            ("tls-client-cert", text(root.join("agent.crt"))),
            ("tls-client-key", text(root.join("agent.key"))),
            ("metrics-port", "0".to_owned()),
            ("discovery-address", format!("127.0.0.1:{api}")),
            ("dns-address", format!("127.0.0.1:{dns}")),
        ];
        let mut arguments = vec!["agent".to_owned(), "--fleet=false".to_owned()];
        arguments.extend(options.into_iter().flat_map(|(name, value)| [format!("--{name}"), value]));
        let log = root.join("log");
        let process = Guarded::start(&program.canonicalize()?, &arguments, &log, Some(root))?;
        let address = format!("127.0.0.1:{api}");
        let deadline = Instant::now() + Duration::from_secs(30);
        while !answers(&address).await {
            ensure!(Instant::now() < deadline, "{}", std::fs::read_to_string(&log).unwrap_or_default());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(Self { address, bytes, process, relay: tasks, _folder: folder })
    }

    /// Ends it.
    pub(crate) async fn stop(self) {
        drop(self.process);
        self.relay.shutdown(Duration::from_secs(5)).await;
    }

    pub(crate) fn processes(&self) -> Vec<u32> {
        self.process.members()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Memory that is its own: what of the program is in memory, others of the same program share.
    pub(crate) fn own_bytes(&self) -> u64 {
        self.processes().into_iter().filter_map(anonymous).sum()
    }

    /// Processor time since it started, in seconds.
    pub(crate) fn processor(&self) -> f64 {
        self.processes().into_iter().filter_map(seconds).sum()
    }
}

/// Whether it knows a hub.
async fn answers(address: &str) -> bool {
    let Ok(mut line) = Line::open(address).await else { return false };
    line.exchange(&request("GET", "/v1/kv/nothing?keys&consistent", "")).await.is_ok()
        || line.exchange(&request("GET", "/v1/catalog/nodes?consistent", "")).await.is_ok()
}

fn anonymous(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

fn seconds(process: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(f64::from(user + system) / TICKS)
}

/// Passes connections on to a port and counts their bytes; where.
async fn relay(to: u16, bytes: Arc<AtomicU64>, tasks: Tasks) -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let group = tasks.clone();
    tasks.spawn("accept", async move {
        loop {
            let accepted = tokio::select! {
                () = group.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let Ok((near, _)) = accepted else { return };
            let Ok(far) = TcpStream::connect(("127.0.0.1", to)).await else { continue };
            let _ = (near.set_nodelay(true), far.set_nodelay(true));
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            group.spawn("out", pass(near_in, far_out, Arc::clone(&bytes)));
            group.spawn("in", pass(far_in, near_out, Arc::clone(&bytes)));
        }
    });
    Ok(port)
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, bytes: Arc<AtomicU64>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read) = from.read(&mut buffer).await
        && read > 0
        && to.write_all(&buffer[..read]).await.is_ok()
    {
        bytes.fetch_add(read as u64, Ordering::Relaxed);
    }
}
