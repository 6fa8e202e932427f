//! Processes of pods and containers that nobody has recorded: their node was killed before it could.

use std::collections::BTreeSet;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::record::PodDirectory;

/// How often they are looked for: one that is just being made may have made another.
const LOOKS: usize = 3;

/// Ends those of a node's directory.
pub(super) fn end(directory: &Path) {
    let (pods, programs) = (directory.join("pods"), directory.join("bin"));
    let recorded: BTreeSet<i32> = names(&pods).flat_map(|uid| processes(&PodDirectory::new(&pods, &uid))).collect();
    for _ in 0..LOOKS {
        let all = names(Path::new("/proc")).filter_map(|name| name.parse::<i32>().ok());
        let ended = all.filter(|pid| !recorded.contains(pid)).filter(|pid| end_stray(*pid, &programs)).count();
        if ended == 0 {
            return;
        }
    }
}

/// The processes a pod's records name.
fn processes(pod: &PodDirectory) -> Vec<i32> {
    let holder = pod.read().map(|record| record.holder.pid);
    let containers: Vec<String> = names(&pod.path.join("containers")).collect();
    let firsts = containers.into_iter().filter_map(|container| {
        let attempt = pod.attempt(&container, pod.last_attempt(&container)?);
        Some(attempt.read()?.started.pid)
    });
    holder.into_iter().chain(firsts).collect()
}

/// Ends a process if it is a stray; whether it was.
fn end_stray(pid: i32, programs: &Path) -> bool {
    let Some(Ok(process)) = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { return false };
    // Having it, what is read is of that process and no other.
    let is_stray = is_stray(pid, programs);
    if is_stray {
        tracing::info!(pid, "a process that belongs to nothing is ended");
        let _ = pidfd_send_signal(&process, Signal::KILL);
    }
    is_stray
}

/// Whether it is one of ours that holds a pod or a container, or that was making one for our predecessor.
fn is_stray(pid: i32, programs: &Path) -> bool {
    let at = Path::new("/proc").join(pid.to_string());
    if !std::fs::read_link(at.join("exe")).is_ok_and(|program| program.starts_with(programs)) {
        return false;
    }
    let words = std::fs::read(at.join("cmdline")).unwrap_or_default();
    match words.split(|byte| *byte == 0).nth(1) {
        Some(b"holder" | b"hold" | b"create" | b"switch") => true,
        // A child of a recorded container's first process looks the same until it becomes another program.
        Some(b"init") => is_first(&at),
        _ => false,
    }
}

/// Whether it is the first process of its process ids.
fn is_first(process: &Path) -> bool {
    let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    ids.and_then(|ids| ids.split_whitespace().next_back()) == Some("1")
}

fn names(directory: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}
