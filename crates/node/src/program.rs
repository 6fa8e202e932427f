//! The executor as a program on this machine, and the processes it starts.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Serialize;
use sha2::{Digest, Sha256};
use thane_executor::plan::{ContainerPlan, Outcome, PodPlan, ProbePlan, Started, SwitchPlan};
use tokio::io::AsyncWriteExt;
use tokio::io::unix::AsyncFd;
use tokio::process::{Child, Command};

/// The program, as it was built with us.
const BYTES: &[u8] = include_bytes!(env!("THANE_EXECUTOR"));
/// A container takes milliseconds to make; this long means that it never will be.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often, and how long apart, a program that somebody still has open is tried again.
const BUSY_TRIES: u32 = 100;
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// The program on disk.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    path: PathBuf,
}

/// Writes the program to a file, for containers that somebody else makes.
pub fn write_executor(path: &Path) -> io::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, BYTES)?;
    std::fs::set_permissions(&new, PermissionsExt::from_mode(0o755))?;
    std::fs::rename(&new, path)
}

impl Program {
    /// Writes the program into a directory, unless it is there. Other versions stay for containers that run from them.
    pub(crate) fn install(directory: &Path) -> io::Result<Self> {
        crate::files::private_directory(directory)?;
        let digest = crate::images::hex(&Sha256::digest(BYTES)[..8]);
        let path = directory.join(format!("thane-executor-{digest}"));
        if !path.exists() {
            let new = directory.join(format!(".{digest}.{}", std::process::id()));
            std::fs::write(&new, BYTES)?;
            std::fs::set_permissions(&new, PermissionsExt::from_mode(0o755))?;
            std::fs::rename(&new, &path)?;
        }
        Ok(Self { path })
    }

    /// Makes a pod's namespaces and says which process holds them.
    pub(crate) async fn hold(&self, plan: &PodPlan) -> Result<Started, String> {
        self.run("hold", plan).await
    }

    /// Makes a container and says which process it is.
    pub(crate) async fn create(&self, plan: &ContainerPlan) -> Result<Started, String> {
        self.run("create", plan).await
    }

    /// Makes a container enter another root.
    pub(crate) async fn switch(&self, plan: &SwitchPlan) -> Result<Started, String> {
        self.run("switch", plan).await
    }

    /// Tries whether a root can be put together here.
    pub(crate) async fn probe(&self, plan: &ProbePlan) -> Result<Started, String> {
        self.run("probe", plan).await
    }

    /// Starts the program. A process that was forked while the program was being written has it open until it becomes
    /// another program, a moment later; what is open to be written cannot be run.
    async fn spawn(&self, verb: &str) -> io::Result<Child> {
        let mut command = Command::new(&self.path);
        command.arg(verb).env_clear().current_dir("/").kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        for _ in 0..BUSY_TRIES {
            match command.spawn() {
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => tokio::time::sleep(BUSY_PAUSE).await,
                done => return done,
            }
        }
        command.spawn()
    }

    async fn run(&self, verb: &str, plan: &impl Serialize) -> Result<Started, String> {
        let plan = serde_json::to_vec(plan).map_err(|error| format!("write the plan: {error}"))?;
        let run = async {
            let mut child = self.spawn(verb).await?;
            if let Some(mut stdin) = child.stdin.take() {
                stdin.write_all(&plan).await?;
            }
            child.wait_with_output().await
        };
        let output = match tokio::time::timeout(PATIENCE, run).await {
            Ok(output) => output.map_err(|error| format!("run the executor: {error}"))?,
            Err(_) => return Err("the executor took too long".to_owned()),
        };
        match serde_json::from_slice(&output.stdout) {
            Ok(Outcome::Started(started)) => Ok(started),
            Ok(Outcome::Failed(why)) => Err(why),
            Err(_) => Err(format!("the executor ended without a word: {}", output.status)),
        }
    }
}

/// A process that was started here or by our predecessor, for as long as it is that one.
#[derive(Debug)]
pub(crate) struct Living {
    fd: AsyncFd<OwnedFd>,
}

impl Living {
    /// The process, if it still runs.
    pub(crate) fn find(started: &Started) -> Option<Self> {
        let fd = pidfd_open(Pid::from_raw(started.pid)?, PidfdFlags::NONBLOCK).ok()?;
        // Having it, its number cannot be given to another; whether it was given before is what its start tells.
        if ticks(started.pid)? != started.ticks {
            return None;
        }
        Some(Self { fd: watched(fd)? })
    }

    /// Waits for its end.
    pub(crate) async fn ended(&self) {
        // An error means that nothing more will be heard of it.
        let _ = self.fd.readable().await;
    }

    /// Ends it, and with it all it holds.
    pub(crate) fn kill(&self) {
        // It may have ended already.
        let _ = pidfd_send_signal(self.fd.get_ref(), Signal::KILL);
    }
}

#[expect(
    deprecated,
    reason = "it is unsound for descriptors that are not owned; this one is, and the other way is unsafe"
)]
fn watched(fd: OwnedFd) -> Option<AsyncFd<OwnedFd>> {
    AsyncFd::new(fd).ok()
}

/// When a process started; none for one that has ended and only waits to be noticed.
fn ticks(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}
