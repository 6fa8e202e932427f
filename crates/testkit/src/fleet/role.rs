//! One of the two programs of a pair: started, stopped in either way, started again.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::peer::Guarded;

/// The longest a start or a connection may take on a busy machine.
const START_LIMIT: Duration = Duration::from_mins(1);
/// The longest a program may take to end when asked.
const STOP_LIMIT: Duration = Duration::from_secs(15);
/// Logs of a role that are shown.
const LAST_LOGS: usize = 2;
/// Lines of a log that are shown.
const LAST_LINES: usize = 150;

/// Bytes of an answer that are read.
const ANSWER_MAX: u64 = 4 * 1024 * 1024;

/// How a program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// By SIGTERM, as on a rollout.
    Asked,
    /// By SIGKILL, as when the machine dies.
    Killed,
}

/// A program with its arguments; its logs, one for each start, are kept as long as the folder is.
#[derive(Debug)]
pub(super) struct Role {
    name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
    /// What it is told besides from its next start on.
    pub(super) more: Vec<String>,
    /// Where it answers `/healthz`.
    health: u16,
    folder: PathBuf,
    logs: Vec<PathBuf>,
    pub(super) process: Option<Guarded>,
}

impl Role {
    pub(super) fn new(name: &'static str, program: &Path, arguments: Vec<String>, health: u16, folder: &Path) -> Self {
        Self {
            name,
            program: program.to_owned(),
            arguments,
            more: Vec::new(),
            health,
            folder: folder.to_owned(),
            logs: Vec::new(),
            process: None,
        }
    }

    /// Starts the program and does not wait for anything.
    pub(super) fn start(&mut self) -> Result<()> {
        anyhow::ensure!(self.process.is_none(), "{} runs already", self.name);
        let log = self.folder.join(format!("{}-{}.log", self.name, self.logs.len() + 1));
        // Nothing of the user's own configuration may play a part.
        let mut arguments = vec![format!("HOME={}", self.folder.display()), self.program.display().to_string()];
        arguments.extend(self.arguments.iter().chain(&self.more).cloned());
        self.process = Some(Guarded::start("env".as_ref(), &arguments, &log, None)?);
        self.logs.push(log);
        Ok(())
    }

    /// Waits until it says that it is well: a hub when it listens, an agent when it is connected.
    pub(super) async fn healthy(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            if health(self.health).await.is_ok_and(|ok| ok) {
                return Ok(());
            }
            let running = self.process.as_mut().is_some_and(Guarded::running);
            if !running || Instant::now() > deadline {
                bail!("the {} {}", self.name, if running { "is not healthy in time" } else { "has ended" });
            }
            // Another program's health can only be asked for, not awaited.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Ends it; a program that does not end when asked is an error.
    pub(super) async fn stop(&mut self, how: Stop) -> Result<()> {
        let Some(mut process) = self.process.take() else { bail!("the {} does not run", self.name) };
        if how == Stop::Killed {
            return Ok(());
        }
        process.ask_to_end();
        let deadline = Instant::now() + STOP_LIMIT;
        while process.running() {
            anyhow::ensure!(Instant::now() < deadline, "the {} did not end when asked", self.name);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// The ids of its processes, for measurements.
    pub(super) fn processes(&self) -> Vec<u32> {
        self.process.iter().flat_map(Guarded::members).collect()
    }

    /// The ends of its latest logs.
    pub(super) fn last_words(&self) -> String {
        let mut text = String::new();
        for log in self.logs.iter().rev().take(LAST_LOGS).rev() {
            let content = std::fs::read_to_string(log).unwrap_or_default();
            let lines: Vec<&str> = content.lines().collect();
            let skipped = lines.len().saturating_sub(LAST_LINES);
            let name = log.file_name().unwrap_or_default().to_string_lossy();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "--- {name}, {skipped} earlier lines left out\n{}", lines[skipped..].join("\n"));
        }
        text
    }
}

/// Asks for `/healthz` on a connection of its own.
async fn health(port: u16) -> Result<bool> {
    let asked = tokio::time::timeout(Duration::from_secs(2), ask(port, "/healthz"));
    Ok(asked.await??.starts_with("HTTP/1.1 200"))
}

/// What a program's administrative port says, on a connection of its own.
pub(super) async fn ask(port: u16, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
