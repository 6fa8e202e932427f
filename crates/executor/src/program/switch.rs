//! Another root for a container that runs, entered from outside.
//!
//! Everything mounted in the old root moves to the new one, and then the new one takes its place: the kernel moves every
//! process whose root and directory that was, which is the container's first.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat};
use rustix::mount::{MoveMountFlags, move_mount};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use thane_executor::plan::{Started, SwitchPlan, root_mount};

use super::root::{self, Place};
use super::{Doing, Failure, Result, plan, started};

/// Does it and says which process has the new root.
pub(super) fn switch() -> Result<Started> {
    let plan: SwitchPlan = plan()?;
    let lock = File::create(&plan.lock).doing(|| plan.lock.display().to_string())?;
    flock(&lock, FlockOperation::LockExclusive).doing(|| "wait for another that does the same".to_owned())?;
    let users = namespace(&plan.holder, "user")?;
    let mounts = namespace(&plan.init, "mnt")?;
    let table = format!("/proc/{}/mountinfo", plan.init.pid);
    let table = std::fs::read_to_string(&table).doing(|| table)?;
    let present = root_mount(&table).ok_or_else(|| Failure("the container has no root".to_owned()))?;
    if present != plan.leaves {
        return Ok(plan.init);
    }
    rustix::process::umask(Mode::empty());
    let new = root::overlay(&plan.root, users.as_fd())?;
    move_into_link_name_space(mounts.as_fd(), Some(LinkNameSpaceType::Mount))
        .doing(|| "enter the container's mounts".to_owned())?;
    let moves = targets(&new, &children(&table, present), plan.ids.base)?;
    // Over the old root: whose root that is does not see it.
    move_mount(&new, "", CWD, "/", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .doing(|| "put the new root over the old".to_owned())?;
    for (from, to, shown) in &moves {
        root::put(from, to, shown)?;
    }
    root::pivot(new.as_fd()).doing(|| "enter the new root".to_owned())?;
    Ok(plan.init)
}

/// What has to be moved, and where to.
fn targets(new: &OwnedFd, paths: &[String], owner: u32) -> Result<Vec<(OwnedFd, OwnedFd, String)>> {
    let place = Place { root: new.as_fd(), owner };
    let mut moves = Vec::new();
    for path in paths {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let from = openat(CWD, Path::new(path), flags, Mode::empty()).doing(|| path.clone())?;
        let kind = FileType::from_raw_mode(fstat(&from).doing(|| path.clone())?.st_mode);
        let to = if kind.is_dir() { place.directory(path)? } else { place.file(path)? };
        moves.push((from, to, path.clone()));
    }
    Ok(moves)
}

/// Where something is mounted right in the root, by the kernel's table of mounts.
fn children(table: &str, root: u64) -> Vec<String> {
    let lines = table.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (_, parent, point) = (fields.next()?, fields.next()?, fields.nth(2)?);
        (parent.parse() == Ok(root)).then(|| unescaped(point))
    });
    lines.collect()
}

/// Blanks and the like are written as three octal digits.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let code = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A namespace of a process, if that is still the one it was.
pub(super) fn namespace(of: &Started, name: &str) -> Result<OwnedFd> {
    let opened = File::open(format!("/proc/{}/ns/{name}", of.pid)).doing(|| format!("the {name} namespace"))?;
    if started(of.pid)?.ticks != of.ticks {
        return Err(Failure("the process whose namespace it was is gone".to_owned()));
    }
    Ok(opened.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_the_root_are_read() {
        let table = "30 2 0:31 / / rw - overlay overlay rw\n31 30 0:32 / /proc rw - proc proc rw\n\
                     32 31 0:32 /sys /proc/sys ro - proc proc rw\n33 30 8:1 /a\\040b /mnt/a\\040b\\134 rw - ext4 /dev/a rw\n";
        assert_eq!(root_mount(table), Some(30));
        assert_eq!(children(table, 30), ["/proc", "/mnt/a b\\"]);
        assert_eq!(children("nonsense\n\n", 30), Vec::<String>::new());
        assert_eq!(unescaped("\\9x\\04"), "\\9x\\04");
    }
}
