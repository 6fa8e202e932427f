//! Our own program, run as its users run it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use http::{Request, StatusCode};
use http_body_util::Full;
use tempfile::TempDir;

use super::Guarded;
use crate::client::HttpsClient;
use crate::endpoint::Endpoint;

/// The longest a start may take on a busy machine.
const START_LIMIT: Duration = Duration::from_mins(1);

/// The longest its end may take.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// A hub started by `thane up` in a folder of its own; dropping it ends it and removes its files.
#[derive(Debug)]
pub struct Thane {
    endpoint: Endpoint,
    kubeconfig: PathBuf,
    ready_after: Duration,
    process: Guarded,
    _folder: TempDir,
}

impl Thane {
    /// Runs `program up ARGUMENTS…` and waits until the hub's API is ready.
    pub async fn start(program: &Path, arguments: &[&str]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("thane-hub-").tempdir()?;
        let root = folder.path();
        let kubeconfig = root.join(".thane/kubeconfig");
        let log = root.join("log");
        // The program keeps its files in the folder it is started in.
        let script = r#"cd "$1" && shift && exec "$@""#;
        let mut shell: Vec<String> = ["-c", script, "start"].map(str::to_owned).into();
        shell.extend([root.display().to_string(), program.canonicalize()?.display().to_string(), "up".to_owned()]);
        shell.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        let started = Instant::now();
        let mut process = Guarded::start(Path::new("sh"), &shell, &log, Some(root))?;
        loop {
            if let Some(endpoint) = ready(&kubeconfig).await {
                let ready_after = started.elapsed();
                return Ok(Self { endpoint, kubeconfig, ready_after, process, _folder: folder });
            }
            if !process.running() || started.elapsed() > START_LIMIT {
                bail!("thane up did not become ready\n{}", std::fs::read_to_string(&log).unwrap_or_default());
            }
            // Another program's readiness can only be asked for, not awaited.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Address, authority and administrator's certificate of the hub.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The kubeconfig that `up` wrote.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// An address that `up` published, such as `discovery` or `dns`, without its scheme.
    pub fn published(&self, name: &str) -> Result<String> {
        let file = self.kubeconfig.with_file_name("endpoints.json");
        let endpoints: serde_json::Value = serde_json::from_slice(&std::fs::read(&file)?)?;
        let url = endpoints[name].as_str().with_context(|| format!("{} has no {name}", file.display()))?;
        Ok(url.split_once("://").map_or(url, |(_, address)| address).to_owned())
    }

    /// From the start of the program to a ready API.
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// The program's process ids.
    pub fn processes(&self) -> Vec<u32> {
        self.process.members()
    }
}

impl Drop for Thane {
    fn drop(&mut self) {
        // Killed outright it would leave its pods running, as it should.
        self.process.ask_to_end();
        let asked = Instant::now();
        while self.process.running() && asked.elapsed() < STOP_LIMIT {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

async fn ready(kubeconfig: &Path) -> Option<Endpoint> {
    let endpoint = Endpoint::from_kubeconfig(kubeconfig, Some("hub")).ok()?;
    let client = HttpsClient::new(&endpoint).ok()?;
    let request = Request::get("/readyz").header("host", client.address()).body(Full::default()).ok()?;
    let answer = client.exchange(request).await.ok()?;
    (answer.status == StatusCode::OK).then_some(endpoint)
}
