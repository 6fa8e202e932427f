//! What a node may leave on the machine: nothing.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

/// Fails if a process, a mount, a control group or a file of pods of the node in that folder is there.
pub(crate) fn nothing(node: &Path) -> Result<()> {
    let node = node.canonicalize().context("the node's folder")?;
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    let mounts: Vec<&str> = mounts.lines().filter(|line| line.contains(&*node.to_string_lossy())).collect();
    ensure!(mounts.is_empty(), "mounts are left: {mounts:?}");
    let processes = processes(&node);
    ensure!(processes.is_empty(), "processes are left: {processes:?}");
    let name = group(&node);
    let groups: Vec<PathBuf> =
        below(Path::new("/sys/fs/cgroup"), 2).into_iter().filter(|at| at.ends_with(&name)).collect();
    ensure!(groups.is_empty(), "control groups are left: {groups:?}");
    for folder in ["pods", "layers"] {
        let files: Vec<PathBuf> = below(&node.join(folder), 1);
        ensure!(files.is_empty(), "files are left: {files:?}");
    }
    Ok(())
}

/// Network devices of the machine that are not another test's.
pub(crate) fn devices() -> Vec<String> {
    let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with("thane-node")).collect();
    names.sort();
    names
}

/// Executors run from the node's folder, so that their program tells; what they start stays in the node's groups. What has
/// ended and only is not collected yet has no program any more.
fn processes(node: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let group = format!("/{}/", group(node));
    let is_inside = |at: &Path| std::fs::read_to_string(at.join("cgroup")).is_ok_and(|groups| groups.contains(&group));
    let is_left =
        |at: &Path| std::fs::read_link(at.join("exe")).is_ok_and(|program| program.starts_with(node) || is_inside(at));
    entries.filter(|at| is_left(at)).collect()
}

/// What a node calls its control groups.
fn group(node: &Path) -> String {
    let digest = Sha256::digest(node.as_os_str().as_encoded_bytes());
    let hex = digest.iter().take(6).fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    format!("thane-{hex}")
}

fn below(path: &Path, depth: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if depth > 1 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(below(&entry.path(), depth - 1));
        }
        found.push(entry.path());
    }
    found
}
