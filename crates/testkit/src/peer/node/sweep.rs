//! What the namespaces of a node do not take along when they go.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// The name of the link and of the control groups.
const NAME: &str = "thane-node";
/// The longest the last processes may take to go.
const LIMIT: Duration = Duration::from_secs(20);

/// Removes the link, the control groups and the files of a node that has ended.
pub(super) fn sweep(folder: &Path) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    // The kernel takes the link away with the namespace, but in its own time.
    while Path::new("/sys/class/net").join(NAME).exists() {
        let _ = Command::new("ip").args(["link", "delete", NAME]).output();
        ensure!(Instant::now() < deadline, "the link {NAME} stays behind");
        std::thread::sleep(Duration::from_millis(50));
    }
    for group in groups() {
        // Busy as long as a process in it is dying.
        while let Err(error) = remove_groups(&group) {
            ensure!(Instant::now() < deadline, "the control group {} stays behind: {error}", group.display());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// The node's control group of every hierarchy.
fn groups() -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let places = std::iter::once(root.to_owned()).chain(hierarchies);
    places.map(|place| place.join(NAME)).filter(|group| group.is_dir()).collect()
}

/// The files in a control group go with its folder; only folders are removed, the deepest first.
fn remove_groups(group: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(group)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_groups(&entry.path())?;
        }
    }
    std::fs::remove_dir(group)
}
