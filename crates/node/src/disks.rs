//! The space that pods take on this machine's disk: what each has, and who goes when there is nearly none left.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use thane_runtime::Tasks;
use tokio::sync::Notify;

use crate::shared::Shared;

/// How often free space is looked at; the kernel tells nobody, and a disk is full within seconds.
const EVERY: Duration = Duration::from_secs(1);
/// How long a pod that was ended may take to give its space back before another is.
const PAUSE: Duration = Duration::from_secs(10);
/// A pod with less than this gives nothing back that would help.
const WORTH: u64 = 16 << 20;
/// What has to be free unless it is said: so much, or this part of a small disk.
const FREE: u64 = 1 << 30;
const PART: u64 = 20;
/// Files of one pod that are counted; with more than this it has written too much anyway.
const FILES_MAX: usize = 2_000_000;

/// Pods whose space is known, and how they are told that they have to go.
#[derive(Debug, Default)]
pub(crate) struct Disks {
    pods: Mutex<BTreeMap<String, Arc<Notify>>>,
}

/// A pod that is known here as long as this lives.
pub(crate) struct Known {
    shared: Arc<Shared>,
    uid: String,
    /// Told when it has to go.
    pub(crate) crowded: Arc<Notify>,
}

impl Known {
    pub(crate) fn new(shared: &Arc<Shared>, uid: &str) -> Self {
        let crowded = Arc::new(Notify::new());
        shared.disks.pods.lock().insert(uid.to_owned(), Arc::clone(&crowded));
        Self { shared: Arc::clone(shared), uid: uid.to_owned(), crowded }
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        let mut pods = self.shared.disks.pods.lock();
        if pods.get(&self.uid).is_some_and(|told| Arc::ptr_eq(told, &self.crowded)) {
            pods.remove(&self.uid);
        }
    }
}

/// Ends the pod that has the most, one after the other, while there is too little space.
pub(crate) async fn guard(shared: Arc<Shared>, tasks: Tasks) {
    let mut pause = EVERY;
    loop {
        tokio::select! {
            () = tasks.cancelled() => return,
            () = tokio::time::sleep(pause) => pause = EVERY,
        }
        let Some((free, least)) = free(&shared) else { continue };
        if free >= least {
            continue;
        }
        let looking = Arc::clone(&shared);
        let found = tokio::task::spawn_blocking(move || largest(&looking)).await;
        let Some((uid, bytes)) = found.ok().flatten().filter(|(_, bytes)| *bytes >= WORTH) else { continue };
        tracing::warn!(
            free,
            least,
            pod = uid,
            bytes,
            "the disk is nearly full: the pod that has the most of it is ended"
        );
        if let Some(told) = shared.disks.pods.lock().get(&uid) {
            told.notify_one();
        }
        pause = PAUSE;
    }
}

/// What is free where pods write, and what has to be.
fn free(shared: &Shared) -> Option<(u64, u64)> {
    let found = rustix::fs::statvfs(&shared.config.directory).ok()?;
    let least = shared.config.disk_free_min.unwrap_or_else(|| FREE.min(found.f_blocks * found.f_frsize / PART));
    Some((found.f_bavail * found.f_frsize, least))
}

fn largest(shared: &Shared) -> Option<(String, u64)> {
    let pods: Vec<String> = shared.disks.pods.lock().keys().cloned().collect();
    let sized = pods.into_iter().map(|uid| {
        let bytes = of_pod(shared, &uid);
        (uid, bytes)
    });
    sized.max_by_key(|(_, bytes)| *bytes)
}

/// All that a pod has: its directory, what it keeps, and files that have no name any more.
pub(crate) fn of_pod(shared: &Shared, uid: &str) -> u64 {
    let named = occupied(&shared.pod(uid).path).saturating_add(shared.layers.occupied(uid, occupied));
    named.saturating_add(nameless(&shared.layout.directories(&[&shared.group, uid])))
}

/// Bytes a directory occupies. What vanishes while it is counted does not count.
fn occupied(directory: &Path) -> u64 {
    let mut left = vec![directory.to_owned()];
    let (mut bytes, mut files) = (0, 0);
    while let Some(path) = left.pop() {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            files += 1;
            if files > FILES_MAX {
                return u64::MAX;
            }
            let Ok(found) = entry.metadata() else { continue };
            bytes += found.blocks() * 512;
            if found.is_dir() {
                left.push(entry.path());
            }
        }
    }
    bytes
}

/// Bytes of files that processes of a group have open and that no directory has.
fn nameless(groups: &[PathBuf]) -> u64 {
    let Some(group) = groups.iter().find(|group| group.exists()) else { return 0 };
    let (mut seen, mut bytes) = (BTreeSet::new(), 0);
    for pid in processes(group) {
        for open in std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            let Ok(found) = std::fs::metadata(open.path()) else { continue };
            if found.is_file() && found.nlink() == 0 && seen.insert((found.dev(), found.ino())) {
                bytes += found.blocks() * 512;
            }
        }
    }
    bytes
}

/// The processes of a group and those below it.
fn processes(group: &Path) -> Vec<String> {
    let mut left = vec![group.to_owned()];
    let mut pids = Vec::new();
    while let Some(path) = left.pop() {
        let text = std::fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
        pids.extend(text.lines().map(str::to_owned));
        let below = std::fs::read_dir(path).into_iter().flatten().flatten();
        left.extend(below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()));
    }
    pids
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn files_without_a_name_count() {
        let folder = tempfile::tempdir().unwrap();
        let group = folder.path().join("group/below");
        std::fs::create_dir_all(&group).unwrap();
        std::fs::write(group.join("cgroup.procs"), format!("{}\n", std::process::id())).unwrap();
        let path = folder.path().join("file");
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(&vec![1; 3 << 20]).unwrap();
        file.sync_all().unwrap();
        let named = occupied(folder.path());
        assert!(named >= 3 << 20, "{named}");
        std::fs::remove_file(&path).unwrap();
        assert!(occupied(folder.path()) < 3 << 20);
        assert!(nameless(&[folder.path().join("none"), folder.path().join("group")]) >= 3 << 20);
        assert_eq!(nameless(&[]), 0);
    }
}
