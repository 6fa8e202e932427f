//! Follows files: a change is loaded whole, and only a good one replaces what is in use.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, watch};

use super::Error;
use crate::tasks::Tasks;

/// A certificate and its key arrive one after the other; waiting this long makes one reload of both.
const SETTLE: Duration = Duration::from_millis(100);

pub(super) type Fingerprint = [u8; 32];

/// A value in use and what it was loaded from.
pub(super) struct Swapped<C> {
    pub(super) current: Arc<ArcSwap<C>>,
    fingerprint: Fingerprint,
}

/// Tells how often files were loaded again since the start.
#[derive(Debug, Clone)]
pub struct Reloads {
    attempts: watch::Receiver<Attempts>,
}

/// Loads since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attempts {
    /// New contents taken into use.
    pub taken: u64,
    /// New contents that were no good.
    pub refused: u64,
}

impl Reloads {
    /// The counts so far.
    pub fn so_far(&self) -> Attempts {
        *self.attempts.borrow()
    }

    /// Waits until the counts satisfy a condition; false when nobody counts any more.
    pub async fn wait_until(&mut self, condition: impl FnMut(&Attempts) -> bool) -> bool {
        self.attempts.wait_for(condition).await.is_ok()
    }
}

/// Contents of files, as they are and as they become.
#[derive(Debug)]
pub struct Contents {
    current: Arc<ArcSwap<Vec<Vec<u8>>>>,
    reloads: Reloads,
}

impl Contents {
    /// Reads files, and reads them again whenever they change, until `tasks` stops.
    pub fn follow(paths: Vec<PathBuf>, tasks: &Tasks) -> Result<Self, Error> {
        let load = |paths: &[PathBuf]| {
            let contents = paths.iter().map(|path| super::read(path)).collect::<Result<Vec<_>, _>>()?;
            let fingerprint = digest(&contents);
            Ok((contents, fingerprint))
        };
        let (Swapped { current, .. }, reloads) = watch(paths, load, tasks)?;
        Ok(Self { current, reloads })
    }

    /// What is in the files, in their order.
    pub fn now(&self) -> Arc<Vec<Vec<u8>>> {
        self.current.load_full()
    }

    /// Waits for other contents; false when nobody looks any more.
    pub async fn changed(&mut self) -> bool {
        self.reloads.attempts.changed().await.is_ok()
    }
}

pub(super) fn digest(contents: &[Vec<u8>]) -> Fingerprint {
    let mut hash = Sha256::new();
    for content in contents {
        hash.update(content.len().to_be_bytes());
        hash.update(content);
    }
    hash.finalize().into()
}

/// Loads once, then again whenever a file changes, until `tasks` stops.
pub(super) fn watch<C, L>(paths: Vec<PathBuf>, load: L, tasks: &Tasks) -> Result<(Swapped<C>, Reloads), Error>
where
    C: Send + Sync + 'static,
    L: Fn(&[PathBuf]) -> Result<(C, Fingerprint), Error> + Send + 'static,
{
    let (wake, changes) = mpsc::channel(1);
    // Watch before the first load, so that no change falls between them.
    let watcher = watch_directories(&paths, wake)?;
    let (config, fingerprint) = load(&paths)?;
    let current = Arc::new(ArcSwap::from_pointee(config));
    let (attempts, receiver) = watch::channel(Attempts::default());
    let follower = Follower {
        paths,
        load,
        swapped: Swapped { current: Arc::clone(&current), fingerprint },
        refused: None,
        attempts,
    };
    tasks.spawn("reload certificates", follower.run(watcher, changes, tasks.clone()));
    Ok((Swapped { current, fingerprint }, Reloads { attempts: receiver }))
}

// The directory and not the file: files are replaced by rename, and a mounted Secret swaps a link beside them.
fn watch_directories(paths: &[PathBuf], wake: mpsc::Sender<()>) -> Result<RecommendedWatcher, Error> {
    let directories: BTreeSet<&Path> = paths.iter().map(|path| directory(path)).collect();
    let problem = |path: &Path, source| Error::Watch { path: path.to_owned(), source };
    let handler = move |event: notify::Result<notify::Event>| {
        // Reading a file is an event too; only what may have changed one counts.
        if event.is_ok_and(|event| event.kind.is_access()) {
            return;
        }
        // Full means that a reload is due anyway.
        let _ = wake.try_send(());
    };
    let mut watcher = notify::recommended_watcher(handler).map_err(|source| problem(directory(&paths[0]), source))?;
    for directory in directories {
        watcher.watch(directory, RecursiveMode::NonRecursive).map_err(|source| problem(directory, source))?;
    }
    Ok(watcher)
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

struct Follower<C, L> {
    paths: Vec<PathBuf>,
    load: L,
    swapped: Swapped<C>,
    /// The last complaint, so that it is logged once and not for every event.
    refused: Option<String>,
    attempts: watch::Sender<Attempts>,
}

impl<C, L> Follower<C, L>
where
    C: Send + Sync + 'static,
    L: Fn(&[PathBuf]) -> Result<(C, Fingerprint), Error> + Send + 'static,
{
    async fn run(mut self, watcher: RecommendedWatcher, mut changes: mpsc::Receiver<()>, tasks: Tasks) {
        loop {
            tokio::select! {
                () = tasks.cancelled() => break,
                change = changes.recv() => if change.is_none() { break },
            }
            tokio::select! {
                () = tasks.cancelled() => break,
                () = tokio::time::sleep(SETTLE) => {}
            }
            let _ = changes.try_recv();
            self.reload();
        }
        drop(watcher);
    }

    fn reload(&mut self) {
        match (self.load)(&self.paths) {
            Ok((_, fingerprint)) if fingerprint == self.swapped.fingerprint => self.refused = None,
            Ok((config, fingerprint)) => {
                self.swapped.current.store(Arc::new(config));
                self.swapped.fingerprint = fingerprint;
                self.refused = None;
                tracing::info!(files = ?self.paths, "certificates reloaded");
                self.attempts.send_modify(|attempts| attempts.taken += 1);
            }
            Err(error) => {
                let reason = error.to_string();
                if self.refused.as_ref() != Some(&reason) {
                    tracing::warn!(files = ?self.paths, reason, "changed certificates are no good; the old ones stay");
                    self.attempts.send_modify(|attempts| attempts.refused += 1);
                    self.refused = Some(reason);
                }
            }
        }
    }
}
