//! One layer from its archive to a directory, trusting nothing in it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Uid, XattrFlags, chmodat, chownat, linkat, mkdirat, mknodat,
    openat, openat2, symlinkat, unlinkat,
};
use rustix::io::Errno;
use tar::{Entry, EntryType};

use super::Error;

/// Files and directories in one layer.
const ENTRIES_MAX: usize = 1_000_000;
/// What one layer may unpack to.
const BYTES_MAX: u64 = 64 << 30;
const WHITEOUT: &str = ".wh.";
const OPAQUE: &str = ".wh..wh..opq";

/// Unpacks a layer and says what it occupies.
pub(super) fn layer(reader: impl Read, target: &Path) -> Result<u64, Error> {
    let bad = |error: &dyn std::fmt::Display| Error::Archive(format!("unpack a layer: {error}"));
    let root = openat(rustix::fs::CWD, target, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let root = root.map_err(|error| bad(&error))?;
    let mut archive = tar::Archive::new(reader);
    let (mut count, mut bytes) = (0_usize, 0_u64);
    for entry in archive.entries().map_err(|error| bad(&error))? {
        let mut entry = entry.map_err(|error| bad(&error))?;
        count += 1;
        bytes = bytes.saturating_add(entry.size());
        if count > ENTRIES_MAX || bytes > BYTES_MAX {
            return Err(Error::Archive(format!("a layer has more than {ENTRIES_MAX} files or {BYTES_MAX} bytes")));
        }
        let path = entry.path().map_err(|error| bad(&error))?.into_owned();
        one(&root, &path, &mut entry).map_err(|error| Error::Archive(format!("{}: {error}", path.display())))?;
    }
    Ok(bytes)
}

fn refuse(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

/// The names of a path; those that lead upwards or to the root of this machine are refused.
fn names(path: &Path) -> io::Result<Vec<&str>> {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => names.push(name.to_str().ok_or_else(|| refuse("a name that is no text"))?),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(refuse("a path that leads out of the image")),
        }
    }
    Ok(names)
}

fn one(root: &OwnedFd, path: &Path, entry: &mut Entry<'_, impl Read>) -> io::Result<()> {
    let names = names(path)?;
    let Some((name, parents)) = names.split_last() else { return owned(root, ".", entry) };
    let parent = directory(root, parents)?;
    if *name == OPAQUE {
        let by_number = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&parent));
        return Ok(rustix::fs::setxattr(by_number, "trusted.overlay.opaque", b"y", XattrFlags::empty())?);
    }
    if let Some(gone) = name.strip_prefix(WHITEOUT) {
        if gone.is_empty() || gone == "." || gone == ".." {
            return Err(refuse("a whiteout of nothing"));
        }
        clear(&parent, gone)?;
        return Ok(mknodat(&parent, gone, FileType::CharacterDevice, Mode::empty(), 0)?);
    }
    let kind = entry.header().entry_type();
    if kind != EntryType::Directory {
        clear(&parent, name)?;
    }
    match kind {
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let mut file = File::from(openat(&parent, *name, flags, Mode::from_raw_mode(0o600))?);
            io::copy(entry, &mut file)?;
        }
        EntryType::Directory => match mkdirat(&parent, *name, Mode::from_raw_mode(0o755)) {
            Ok(()) => {}
            Err(Errno::EXIST) => {
                // What is there may be a link, which a directory replaces.
                if openat(&parent, *name, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::PATH, Mode::empty()).is_err() {
                    clear(&parent, name)?;
                    mkdirat(&parent, *name, Mode::from_raw_mode(0o755))?;
                }
            }
            Err(error) => return Err(error.into()),
        },
        EntryType::Symlink => {
            // Where it leads is found out inside, where the image's root is the root.
            let to = entry.link_name()?.ok_or_else(|| refuse("a link to nothing"))?;
            symlinkat(to.as_ref(), &parent, *name)?;
            return own(&parent, name, entry);
        }
        EntryType::Link => return hard_link(root, &parent, name, entry),
        EntryType::Fifo => mknodat(&parent, *name, FileType::Fifo, Mode::from_raw_mode(0o644), 0)?,
        EntryType::XGlobalHeader | EntryType::XHeader => return Ok(()),
        EntryType::Block | EntryType::Char => return Err(refuse("an image may hold no devices")),
        other => return Err(refuse(&format!("a file of unknown kind {other:?}"))),
    }
    owned(&parent, name, entry)
}

fn hard_link(root: &OwnedFd, parent: &OwnedFd, name: &str, entry: &mut Entry<'_, impl Read>) -> io::Result<()> {
    let to = entry.link_name()?.ok_or_else(|| refuse("a link to nothing"))?.into_owned();
    let to = names(&to)?;
    let (target, parents) = to.split_last().ok_or_else(|| refuse("a link to nothing"))?;
    let from = directory(root, parents)?;
    linkat(&from, *target, parent, name, AtFlags::empty())?;
    Ok(())
}

/// The directory of that name in the layer, made where it is missing; links are not followed.
fn directory(root: &OwnedFd, names: &[&str]) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let open = |at: &OwnedFd, name: &str| {
        openat2(at, name, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty(), resolve)
    };
    let mut at = open(root, ".")?;
    for name in names {
        at = match open(&at, name) {
            Ok(next) => next,
            Err(Errno::NOENT) => {
                mkdirat(&at, *name, Mode::from_raw_mode(0o755))?;
                open(&at, name)?
            }
            Err(Errno::LOOP | Errno::NOTDIR) => return Err(refuse("a path through a link or a file")),
            Err(error) => return Err(error.into()),
        };
    }
    Ok(at)
}

/// Makes room for what a later entry of the same name puts there.
fn clear(parent: &OwnedFd, name: &str) -> io::Result<()> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR) => {
            let by_number = format!("/proc/self/fd/{}/{name}", std::os::fd::AsRawFd::as_raw_fd(parent));
            fs::remove_dir_all(by_number)
        }
        Err(error) => Err(error.into()),
    }
}

fn own(parent: &OwnedFd, name: &str, entry: &Entry<'_, impl Read>) -> io::Result<()> {
    let id = |read: io::Result<u64>| -> io::Result<u32> {
        u32::try_from(read?).ok().filter(|id| *id < crate::ids::COUNT).ok_or_else(|| refuse("an owner out of range"))
    };
    let (uid, gid) = (id(entry.header().uid())?, id(entry.header().gid())?);
    let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    Ok(chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn owned(parent: &OwnedFd, name: &str, entry: &Entry<'_, impl Read>) -> io::Result<()> {
    own(parent, name, entry)?;
    let mode = Mode::from_raw_mode(entry.header().mode()? & 0o7777);
    Ok(chmodat(parent, name, mode, AtFlags::empty())?)
}
