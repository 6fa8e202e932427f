//! Paths inside a root that may be anybody's work: links in it lead nowhere else.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{Gid, Mode, OFlags, ResolveFlags, Uid, fchown, mkdirat, openat, openat2};
use rustix::io::Errno;

use super::super::{Doing, Failure, Result};

/// A root, and who owns what has to be made in it.
pub(in crate::program) struct Place<'a> {
    pub(in crate::program) root: BorrowedFd<'a>,
    pub(in crate::program) owner: u32,
}

impl Place<'_> {
    /// What is at a path, if anything.
    pub(super) fn existing(&self, path: &str) -> Option<OwnedFd> {
        self.open(path, OFlags::PATH).ok()
    }

    /// The directory at a path, made if it is missing.
    pub(in crate::program) fn directory(&self, path: &str) -> Result<OwnedFd> {
        let mut so_far = String::new();
        for name in names(path)? {
            let parent = so_far.clone();
            so_far.extend(["/", name]);
            match self.open(&so_far, OFlags::PATH | OFlags::DIRECTORY) {
                Ok(_) => {}
                Err(Errno::NOENT) => self.make(&parent, name).doing(|| format!("make {so_far}"))?,
                Err(error) => return Err(error).doing(|| so_far.clone()),
            }
        }
        self.open(path, OFlags::PATH | OFlags::DIRECTORY).doing(|| path.to_owned())
    }

    /// The file at a path, made empty if it is missing.
    pub(in crate::program) fn file(&self, path: &str) -> Result<OwnedFd> {
        if let Some(file) = self.existing(path) {
            return Ok(file);
        }
        let names = names(path)?;
        let (name, parents) = names.split_last().ok_or_else(|| Failure(format!("{path} is no file")))?;
        let parent = self.directory(&parents.join("/"))?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let parent = reopened(&parent).doing(|| path.to_owned())?;
        let made = openat(&parent, *name, flags, Mode::from_raw_mode(0o644)).doing(|| format!("make {path}"))?;
        self.give(&made).doing(|| path.to_owned())?;
        self.open(path, OFlags::PATH).doing(|| path.to_owned())
    }

    fn open(&self, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let path = if path.is_empty() { "/" } else { path };
        openat2(self.root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
    }

    fn make(&self, parent: &str, name: &str) -> rustix::io::Result<()> {
        let parent = reopened(&self.open(parent, OFlags::PATH | OFlags::DIRECTORY)?)?;
        mkdirat(&parent, name, Mode::from_raw_mode(0o755))?;
        let made = openat(&parent, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        self.give(&made)
    }

    fn give(&self, made: &OwnedFd) -> rustix::io::Result<()> {
        fchown(made, Some(Uid::from_raw(self.owner)), Some(Gid::from_raw(self.owner)))
    }
}

/// A descriptor that names can be made under.
fn reopened(directory: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    openat(directory, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn names(path: &str) -> Result<Vec<&str>> {
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    if names.contains(&"..") {
        return Err(Failure(format!("{path} leads upwards")));
    }
    Ok(names)
}
