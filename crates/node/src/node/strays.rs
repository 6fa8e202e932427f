//! Processes that hold the namespaces of pods nobody has recorded: their node was killed before it could.

use std::collections::BTreeSet;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::record::PodDirectory;

/// Ends those of a node's directory.
pub(super) fn end(directory: &Path) {
    let (pods, programs) = (directory.join("pods"), directory.join("bin"));
    let recorded: BTreeSet<i32> =
        names(&pods).filter_map(|uid| Some(PodDirectory::new(&pods, &uid).read()?.holder.pid)).collect();
    let all = names(Path::new("/proc")).filter_map(|name| name.parse::<i32>().ok());
    for pid in all.filter(|pid| !recorded.contains(pid)) {
        let Some(Ok(process)) = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { continue };
        // Having it, what is read is of that process and no other.
        if is_holder(pid, &programs) {
            tracing::info!(pid, "a process that holds nothing is ended");
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
    }
}

fn is_holder(pid: i32, programs: &Path) -> bool {
    let at = Path::new("/proc").join(pid.to_string());
    let is_ours = std::fs::read_link(at.join("exe")).is_ok_and(|program| program.starts_with(programs));
    let words = std::fs::read(at.join("cmdline")).unwrap_or_default();
    is_ours && words.split(|byte| *byte == 0).nth(1) == Some(b"holder")
}

fn names(directory: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}
