//! Our own program, run as its users run it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use http::{Request, StatusCode};
use http_body_util::Full;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::Guarded;
use crate::client::HttpsClient;
use crate::endpoint::Endpoint;

/// The longest a start may take on a busy machine.
const START_LIMIT: Duration = Duration::from_mins(1);

/// Where it says how it is reached, in the folder it is started in.
const KUBECONFIG: &str = ".thane/kubeconfig";

/// The longest its end may take.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// A hub started by `thane up` in a folder of its own; dropping it ends it and removes its files.
#[derive(Debug)]
pub struct Thane {
    endpoint: Endpoint,
    kubeconfig: PathBuf,
    ready_after: Duration,
    process: Guarded,
    command: Vec<String>,
    folder: TempDir,
}

impl Thane {
    /// Runs `program up ARGUMENTS…` and waits until the hub's API is ready.
    pub async fn start(program: &Path, arguments: &[&str]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("thane-hub-").tempdir()?;
        let root = folder.path();
        // The program keeps its files in the folder it is started in.
        let script = r#"cd "$1" && shift && exec "$@""#;
        let mut shell: Vec<String> = ["-c", script, "start"].map(str::to_owned).into();
        shell.extend([root.display().to_string(), program.canonicalize()?.display().to_string(), "up".to_owned()]);
        shell.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        let (process, endpoint, ready_after) = launch(root, &shell).await?;
        let kubeconfig = root.join(KUBECONFIG);
        Ok(Self { endpoint, kubeconfig, ready_after, process, command: shell, folder })
    }

    /// Kills it outright, so that it can tidy nothing up, and runs it again on what it has left.
    pub async fn kill_and_start(&mut self) -> Result<()> {
        self.kill_and_start_after(Duration::ZERO).await
    }

    /// The same, with nobody there for a while in between.
    pub async fn kill_and_start_after(&mut self, pause: Duration) -> Result<()> {
        for member in self.process.members() {
            if let Some(pid) = i32::try_from(member).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        let killed = Instant::now();
        while self.process.running() && killed.elapsed() < STOP_LIMIT {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(pause).await;
        // They say where the next one is.
        for file in [self.kubeconfig.clone(), self.kubeconfig.with_file_name("endpoints.json")] {
            std::fs::remove_file(file)?;
        }
        (self.process, self.endpoint, self.ready_after) = launch(self.folder.path(), &self.command).await?;
        Ok(())
    }

    /// Where it keeps everything.
    pub fn directory(&self) -> PathBuf {
        self.folder.path().join(".thane")
    }

    /// What it has said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Asks it to end and waits until it has; whether it did in time.
    pub fn end(&mut self) -> bool {
        self.process.ask_to_end();
        let asked = Instant::now();
        while self.process.running() && asked.elapsed() < STOP_LIMIT {
            std::thread::sleep(Duration::from_millis(10));
        }
        !self.process.running()
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
        self.end();
    }
}

/// Runs it and waits until its API is ready.
async fn launch(root: &Path, shell: &[String]) -> Result<(Guarded, Endpoint, Duration)> {
    let (kubeconfig, log) = (root.join(KUBECONFIG), root.join("log"));
    let started = Instant::now();
    let mut process = Guarded::start(Path::new("sh"), shell, &log, Some(root))?;
    loop {
        if let Some(endpoint) = ready(&kubeconfig).await {
            return Ok((process, endpoint, started.elapsed()));
        }
        if !process.running() || started.elapsed() > START_LIMIT {
            bail!("thane up did not become ready\n{}", std::fs::read_to_string(&log).unwrap_or_default());
        }
        // Another program's readiness can only be asked for, not awaited.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn ready(kubeconfig: &Path) -> Option<Endpoint> {
    let endpoint = Endpoint::from_kubeconfig(kubeconfig, Some("hub")).ok()?;
    let client = HttpsClient::new(&endpoint).ok()?;
    let request = Request::get("/readyz").header("host", client.address()).body(Full::default()).ok()?;
    let answer = client.exchange(request).await.ok()?;
    (answer.status == StatusCode::OK).then_some(endpoint)
}
