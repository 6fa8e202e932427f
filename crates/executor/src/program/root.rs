//! The file systems a container sees, built from outside in a mount namespace of their own.
//!
//! The namespace belongs to the host's users, not to the pod's, so nobody inside can change any of it.

mod devices;
mod needs;
mod place;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_fd, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount_change,
    move_mount, open_tree, unmount,
};
use thane_executor::plan::{ContainerPlan, MEMORY, Mount, ROOT, Root, Source, Started};

use self::needs::{DETACHED_LAYERS, SINGLE_LAYERS, needing};
use super::sys::{self, NO_DEVICES, NO_EXEC, NO_SUID, READ_ONLY};
use super::{Doing, Failure, Result};
pub(super) use place::Place;

/// Builds everything and makes it the root of this process.
pub(super) fn enter(plan: &ContainerPlan, users: BorrowedFd<'_>) -> Result<()> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).doing(|| "make mounts private".to_owned())?;
    let at = plan.directory.join(ROOT);
    let overlay = overlay(&plan.root, users)?;
    move_mount(&overlay, "", CWD, &at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .doing(|| format!("mount the root on {}", at.display()))?;
    let root = rustix::fs::openat(CWD, &at, OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::PATH, Mode::empty())
        .doing(|| at.display().to_string())?;
    let place = Place { root: root.as_fd(), owner: plan.ids.base };
    kernel(&place)?;
    devices::mount(&place)?;
    for mount in &plan.mounts {
        attach(&place, mount, &plan.holder)?;
    }
    if !plan.working_directory.is_empty() {
        // Where it cannot be made, starting the command says so.
        let _ = place.directory(&plan.working_directory);
    }
    if plan.root.read_only {
        sys::set_attributes(root_mount(&at)?.as_fd(), READ_ONLY, None)
            .doing(|| "make the root read-only".to_owned())?;
    }
    pivot(root.as_fd()).doing(|| "enter the new root".to_owned())
}

/// The mount at a path, as it is attached.
fn root_mount(at: &Path) -> Result<OwnedFd> {
    open_tree(CWD, at, OpenTreeFlags::OPEN_TREE_CLOEXEC).doing(|| at.display().to_string())
}

pub(super) fn pivot(root: BorrowedFd<'_>) -> rustix::io::Result<()> {
    rustix::process::fchdir(root)?;
    // The old root is put over the new one and taken away again.
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")
}

/// The layers and the directory that takes what is written.
pub(super) fn overlay(root: &Root, users: BorrowedFd<'_>) -> Result<OwnedFd> {
    let fs = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).doing(|| "open the overlay file system".to_owned())?;
    let mut opened = Vec::new();
    for lower in &root.lowers {
        let layer = format!("the layer {}", lower.path.display());
        let shown = || layer.clone();
        if lower.mapped {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
            let tree = open_tree(CWD, &lower.path, flags).doing(shown)?;
            sys::set_attributes(tree.as_fd(), 0, Some(users)).doing(shown)?;
            fsconfig_set_fd(&fs, "lowerdir+", &tree).doing(|| needing(&layer, DETACHED_LAYERS))?;
            opened.push(tree);
        } else {
            let directory = open_directory(&lower.path).doing(shown)?;
            fsconfig_set_string(&fs, "lowerdir+", by_number(&directory)).doing(|| needing(&layer, SINGLE_LAYERS))?;
            opened.push(directory);
        }
    }
    // By number: the kernel takes no long paths here.
    for (key, path) in [("upperdir", &root.upper), ("workdir", &root.work)] {
        let shown = || format!("the {key} {}", path.display());
        let directory = open_directory(path).doing(shown)?;
        fsconfig_set_string(&fs, key, by_number(&directory)).doing(shown)?;
        opened.push(directory);
    }
    // A directory of a layer below can then be renamed as any other.
    fsconfig_set_string(&fs, "redirect_dir", "on").doing(|| "let directories be renamed".to_owned())?;
    let mapped = root.lowers.iter().any(|lower| lower.mapped);
    let least = if mapped { DETACHED_LAYERS } else { SINGLE_LAYERS };
    fsconfig_create(&fs).doing(|| needing("put the layers together", least))?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, attributes).doing(|| "mount the layers".to_owned())
}

fn open_directory(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(CWD, path, OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::PATH, Mode::empty())
}

fn by_number(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// A mount of a file system with options; a flag has no value.
pub(super) fn new_mount(kind: &str, options: &[(&str, &str)], attributes: u64) -> Result<OwnedFd> {
    let made = || -> rustix::io::Result<OwnedFd> {
        let fs = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        for (key, value) in options {
            if value.is_empty() {
                fsconfig_set_flag(&fs, *key)?;
            } else {
                fsconfig_set_string(&fs, *key, *value)?;
            }
        }
        fsconfig_create(&fs)?;
        let attributes = MountAttrFlags::from_bits_retain(u32::try_from(attributes).unwrap_or_default());
        fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
    };
    made().doing(|| format!("mount {kind}"))
}

pub(super) fn put(mount: &OwnedFd, target: &OwnedFd, shown: &str) -> Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, "", target, "", flags).doing(|| format!("mount on {shown}"))
}

/// A copy of the mount of something on the host.
fn bound(path: &Path, attributes: u64) -> Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, path, flags).doing(|| path.display().to_string())?;
    sys::set_attributes(tree.as_fd(), attributes, None).doing(|| path.display().to_string())?;
    Ok(tree)
}

/// `/proc` and `/sys`, without what is nobody's business.
fn kernel(place: &Place<'_>) -> Result<()> {
    const HIDDEN_FILES: [&str; 6] = [
        "/proc/kcore",
        "/proc/keys",
        "/proc/latency_stats",
        "/proc/timer_list",
        "/proc/sched_debug",
        "/proc/sysrq-trigger",
    ];
    const HIDDEN_DIRECTORIES: [&str; 5] =
        ["/proc/acpi", "/proc/scsi", "/proc/asound", "/sys/firmware", "/sys/devices/virtual/powercap"];
    const READ_ONLY_DIRECTORIES: [&str; 4] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"];
    let common = NO_SUID | NO_DEVICES | NO_EXEC;
    put(&new_mount("proc", &[], common)?, &place.directory("/proc")?, "/proc")?;
    put(&new_mount("sysfs", &[], common | READ_ONLY)?, &place.directory("/sys")?, "/sys")?;
    for path in HIDDEN_FILES {
        if let Some(target) = place.existing(path) {
            put(&bound(Path::new("/dev/null"), READ_ONLY | NO_SUID | NO_EXEC)?, &target, path)?;
        }
    }
    for path in HIDDEN_DIRECTORIES {
        if let Some(target) = place.existing(path) {
            put(&new_mount("tmpfs", &[("size", "0")], common | READ_ONLY)?, &target, path)?;
        }
    }
    for path in READ_ONLY_DIRECTORIES {
        if let Some(target) = place.existing(path) {
            let flags =
                OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
            let tree = open_tree(&target, "", flags).doing(|| path.to_owned())?;
            sys::set_attributes(tree.as_fd(), common | READ_ONLY, None).doing(|| path.to_owned())?;
            put(&tree, &target, path)?;
        }
    }
    Ok(())
}

/// One of the mounts that were asked for.
fn attach(place: &Place<'_>, mount: &Mount, holder: &Started) -> Result<()> {
    let read_only = if mount.read_only { READ_ONLY } else { 0 };
    match &mount.source {
        Source::Bind(path) => {
            let is_directory = std::fs::metadata(path).doing(|| path.display().to_string())?.is_dir();
            let target = if is_directory { place.directory(&mount.target)? } else { place.file(&mount.target)? };
            put(&bound(path, NO_SUID | NO_DEVICES | read_only)?, &target, &mount.target)
        }
        Source::Below { root, path } => {
            let root = open_directory(root).doing(|| root.display().to_string())?;
            within(place, &root, path, mount)
        }
        Source::Memory { number, path } => {
            let at = format!("/proc/{}/fd/{}", holder.pid, MEMORY + number);
            let root = open_directory(Path::new(&at)).doing(|| format!("the pod's volume {number} in memory"))?;
            if super::started(holder.pid)?.ticks != holder.ticks {
                return Err(Failure("the process that held the pod's volumes is gone".to_owned()));
            }
            within(place, &root, path, mount)
        }
    }
}

/// Something below a directory whose content is anybody's work.
fn within(place: &Place<'_>, root: &OwnedFd, path: &str, mount: &Mount) -> Result<()> {
    let read_only = if mount.read_only { READ_ONLY } else { 0 };
    let within = Place { root: root.as_fd(), owner: place.owner };
    let found = match within.existing(path) {
        Some(found) => found,
        None => within.directory(path)?,
    };
    let kind = rustix::fs::fstat(&found).doing(|| path.to_owned())?.st_mode;
    let is_directory = rustix::fs::FileType::from_raw_mode(kind).is_dir();
    let target = if is_directory { place.directory(&mount.target)? } else { place.file(&mount.target)? };
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(&found, "", flags).doing(|| path.to_owned())?;
    sys::set_attributes(tree.as_fd(), NO_SUID | NO_DEVICES | read_only, None).doing(|| path.to_owned())?;
    put(&tree, &target, &mount.target)
}
