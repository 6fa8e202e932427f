//! The task that appends events to the file and starts a new file when one is full.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Metrics;

/// Lines taken from the queue for one write.
const BATCH: usize = 256;
/// How long lines wait for others, so that a busy server does not pay for a write of the file with each of its own.
const GATHER: Duration = Duration::from_millis(10);

/// Where the log is and how much is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFile {
    /// The current file; older ones end in `.1`, `.2`, …
    pub path: PathBuf,
    /// A file is put aside before it grows beyond this.
    pub max_bytes: u64,
    /// How many older files are kept.
    pub keep: u32,
}

impl AuditFile {
    /// 100 MiB a file, and five older ones.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), max_bytes: 100 << 20, keep: 5 }
    }

    fn older(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

/// Appends what is queued.
#[derive(Debug)]
pub struct AuditWriter {
    file: AuditFile,
    events: mpsc::Receiver<Vec<u8>>,
    metrics: Metrics,
}

struct Open {
    file: File,
    length: u64,
}

impl AuditWriter {
    pub(super) fn new(file: AuditFile, events: mpsc::Receiver<Vec<u8>>, metrics: Metrics) -> Self {
        Self { file, events, metrics }
    }

    /// Writes until it is told to stop, or every [`super::AuditLog`] is gone, and what was queued is on disk. A failing
    /// disk does not end it: events that cannot be written are counted, and the file is opened again for the next.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut open = None;
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let count = tokio::select! {
                count = self.events.recv_many(&mut batch, BATCH) => count,
                () = stop.cancelled(), if !self.events.is_closed() => {
                    self.events.close();
                    continue;
                }
            };
            if count == 0 {
                break;
            }
            if count < BATCH && !self.events.is_closed() {
                tokio::select! {
                    () = tokio::time::sleep(GATHER) => {}
                    () = stop.cancelled() => {}
                }
                while batch.len() < 4 * BATCH
                    && let Ok(line) = self.events.try_recv()
                {
                    batch.push(line);
                }
            }
            let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
            let lines = std::mem::take(&mut batch).concat();
            match self.append(open.take(), &lines).await {
                Ok(file) => {
                    self.metrics.written.inc_by(count);
                    open = Some(file);
                }
                Err(error) => {
                    self.metrics.lost.inc_by(count);
                    tracing::error!(path = %self.file.path.display(), events = count, %error, "cannot write the audit log");
                }
            }
        }
        if let Some(open) = open
            && let Err(error) = open.file.sync_all().await
        {
            tracing::error!(path = %self.file.path.display(), %error, "cannot finish the audit log");
        }
    }

    async fn append(&self, open: Option<Open>, lines: &[u8]) -> io::Result<Open> {
        let length = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        let mut open = match open {
            Some(open) => open,
            None => Open::at(&self.file.path).await?,
        };
        if open.length > 0 && open.length.saturating_add(length) > self.file.max_bytes {
            open.file.sync_all().await?;
            drop(open);
            self.rotate().await?;
            open = Open::at(&self.file.path).await?;
        }
        open.file.write_all(lines).await?;
        open.file.flush().await?;
        open.length += length;
        Ok(open)
    }

    /// Moves every file one further; the oldest is overwritten.
    async fn rotate(&self) -> io::Result<()> {
        for number in (1..self.file.keep).rev() {
            moved(&self.file.older(number), &self.file.older(number + 1)).await?;
        }
        if self.file.keep == 0 {
            return tokio::fs::remove_file(&self.file.path).await;
        }
        moved(&self.file.path, &self.file.older(1)).await
    }
}

impl Open {
    async fn at(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        options.mode(0o600);
        let file = options.open(path).await?;
        let length = file.metadata().await?.len();
        Ok(Self { file, length })
    }
}

async fn moved(from: &Path, to: &Path) -> io::Result<()> {
    match tokio::fs::rename(from, to).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
