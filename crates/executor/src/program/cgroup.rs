//! Control groups: made and joined from outside, used from inside through what was opened before.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use thane_executor::plan::{CgroupDirectory, Cgroups};

use super::{Doing, Result};

const PROCESSES: &str = "cgroup.procs";
/// Files a group's owner needs to run it.
const DELEGATED: [&str; 3] = [PROCESSES, "cgroup.kill", "cgroup.subtree_control"];

/// Makes groups.
pub(super) fn make(directories: &[CgroupDirectory], owner: u32) -> Result<()> {
    for directory in directories {
        let path = &directory.path;
        match fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).doing(|| format!("make the control group {}", path.display()));
            }
            _ => {}
        }
        for (file, value) in &directory.settings {
            let file = path.join(file);
            match fs::write(&file, value) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                written => written.doing(|| format!("write {value:?} to {}", file.display()))?,
            }
        }
        if directory.delegated {
            give(path, owner)?;
        }
    }
    Ok(())
}

fn give(path: &Path, owner: u32) -> Result<()> {
    let change = |path: &Path| std::os::unix::fs::chown(path, Some(owner), Some(owner));
    change(path).doing(|| path.display().to_string())?;
    for file in DELEGATED.map(|name| path.join(name)).iter().filter(|file| file.exists()) {
        change(file).doing(|| file.display().to_string())?;
    }
    Ok(())
}

/// Moves this process.
pub(super) fn join(groups: &[PathBuf]) -> Result<()> {
    for path in groups.iter().map(|group| group.join(PROCESSES)) {
        fs::write(&path, "0").doing(|| format!("join {}", path.display()))?;
    }
    Ok(())
}

/// Passes the controllers of groups on to those below, as far as they are there.
pub(super) fn pass_on(groups: &[PathBuf]) -> Result<()> {
    for path in groups {
        let text = fs::read_to_string(path.join("cgroup.controllers")).unwrap_or_default();
        for controller in text.split_whitespace() {
            let file = path.join("cgroup.subtree_control");
            fs::write(&file, format!("+{controller}"))
                .doing(|| format!("pass on {controller} in {}", file.display()))?;
        }
    }
    Ok(())
}

/// What is needed of the groups when they can no longer be seen.
pub(super) struct Groups {
    /// Where started processes go.
    pub(super) work: Vec<OwnedFd>,
    /// Where each gets a group of its own.
    track: Option<OwnedFd>,
    oom: Vec<File>,
}

impl Groups {
    /// Opens everything.
    pub(super) fn open(cgroups: &Cgroups) -> Result<Self> {
        let mut work = Vec::new();
        for path in cgroups.work.iter().map(|group| group.join(PROCESSES)) {
            let file = OpenOptions::new().write(true).open(&path).doing(|| path.display().to_string())?;
            work.push(file.into());
        }
        let track = match &cgroups.track {
            Some(path) => {
                let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::PATH;
                Some(rustix::fs::openat(CWD, path, flags, Mode::empty()).doing(|| path.display().to_string())?)
            }
            None => None,
        };
        let mut oom = Vec::new();
        for path in &cgroups.oom {
            oom.push(File::open(path).doing(|| path.display().to_string())?);
        }
        Ok(Self { work, track, oom })
    }

    /// Directories of the machine that stay open.
    pub(super) fn hidden(&self) -> impl Iterator<Item = RawFd> {
        self.track.iter().map(AsRawFd::as_raw_fd)
    }

    /// How many processes the kernel has ended here for want of memory.
    pub(super) fn oom_kills(&mut self) -> u64 {
        self.oom.iter_mut().map(kills).sum()
    }

    /// A group for one process, and the file it joins by.
    pub(super) fn track(&self, process: u64) -> Option<OwnedFd> {
        let track = self.track.as_ref()?;
        let name = name(process);
        match rustix::fs::mkdirat(track, &name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(_) => return None,
        }
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(track, format!("{name}/{PROCESSES}"), flags, Mode::empty()).ok()
    }

    /// Ends everything a process started, wherever it went; whether it could.
    pub(super) fn kill(&self, process: u64) -> bool {
        let Some(track) = &self.track else { return false };
        let path = format!("{}/cgroup.kill", name(process));
        let file = rustix::fs::openat(track, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
        file.is_ok_and(|file| rustix::io::write(&file, b"1").is_ok())
    }

    /// Removes the group of a process; one that still has members stays until the container goes.
    pub(super) fn untrack(&self, process: u64) {
        if let Some(track) = &self.track {
            let _ = rustix::fs::unlinkat(track, name(process), AtFlags::REMOVEDIR);
        }
    }
}

fn name(process: u64) -> String {
    format!("process-{process}")
}

/// The line `oom_kill N` of either version's file.
fn kills(file: &mut File) -> u64 {
    let mut text = String::new();
    if file.rewind().and_then(|()| file.read_to_string(&mut text)).is_err() {
        return 0;
    }
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
}
