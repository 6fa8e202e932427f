//! Files, read and written for those outside. Paths mean what they mean to the container's own processes; one that begins
//! nowhere begins where those start.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Uid, chownat, mkdirat, openat, readlinkat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;
use thane_executor::message::{Failure as Sort, FileInfo, Reply};
use thane_executor::plan::User;

use super::{inside, written};

/// Content of one answer.
const READ_MAX: u64 = 4 * 1024 * 1024;
/// Names of one answer, and their bytes as they are written in JSON: it has to fit into a frame.
const ENTRIES_MAX: usize = 2000;
const NAMES_BYTES_MAX: usize = 256 * 1024;
/// Names of one directory that are looked at.
const SEEN_MAX: usize = 100_000;
/// Links that are followed one after the other, as the kernel has it.
const LINKS_MAX: usize = 40;

/// An error as an answer.
pub(super) fn failed(path: &str, error: &io::Error) -> Reply {
    let failure = match error.kind() {
        io::ErrorKind::NotFound => Sort::NotFound,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Sort::Denied,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Sort::Exhausted,
        io::ErrorKind::IsADirectory
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::DirectoryNotEmpty
        | io::ErrorKind::InvalidFilename
        | io::ErrorKind::InvalidInput => Sort::Invalid,
        _ => Sort::Other,
    };
    Reply::Failed { failure, message: format!("{path}: {error}") }
}

/// Where paths begin, and whose what is made is.
pub(super) struct Places<'a> {
    pub(super) directory: &'a str,
    pub(super) owner: Option<&'a User>,
}

impl Places<'_> {
    fn at(&self, path: &str) -> PathBuf {
        Path::new(if self.directory.is_empty() { "/" } else { self.directory }).join(path)
    }

    fn ids(&self) -> (Option<u32>, Option<u32>) {
        (self.owner.map(|user| user.uid), self.owner.map(|user| user.gid))
    }

    /// The directory that a path is in, and its name there.
    fn above(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "names nothing in a directory"));
        };
        Ok((inside::directory(parent)?, name))
    }

    /// Makes the directories above a path that are missing.
    fn make_above(&self, path: &Path) -> io::Result<()> {
        let mut missing = Vec::new();
        for one in path.ancestors().skip(1) {
            match inside::directory(one) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(one),
                Err(error) => return Err(error),
                Ok(_) => break,
            }
        }
        // One that ends in `..` is there once what is before that is.
        for one in missing.into_iter().rev().filter(|one| one.file_name().is_some()) {
            let (above, name) = Self::above(one)?;
            match mkdirat(&above, name, Mode::from_raw_mode(0o777)) {
                Err(Errno::EXIST) => {}
                made => {
                    made?;
                    let (user, group) = self.ids();
                    give(&above, name, user, group, AtFlags::SYMLINK_NOFOLLOW)?;
                }
            }
        }
        Ok(())
    }

    /// Writes a file, whole or at its end.
    pub(super) fn write(&self, path: &str, mode: Option<u32>, append: bool, content: &[u8]) -> io::Result<()> {
        let path = self.at(path);
        self.make_above(&path)?;
        let (above, name) = Self::above(&path)?;
        let is_new = statat(&above, name, AtFlags::SYMLINK_NOFOLLOW).is_err();
        // Neither a pipe nor a device is a file, and waiting for one would stop everything.
        let mut flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK;
        flags |= if append { OFlags::APPEND } else { OFlags::TRUNC };
        let mut file = File::from(inside::open(&above, Path::new(name), flags, mode.unwrap_or(0o644))?);
        if !file.metadata()?.is_file() {
            return Err(not_regular());
        }
        if is_new {
            let (user, group) = self.ids();
            fchown(&file, user, group)?;
        }
        if let Some(mode) = mode {
            file.set_permissions(PermissionsExt::from_mode(mode & 0o7777))?;
        }
        file.write_all(content)
    }

    /// Puts a file in the place of another, following links to it, with the other's permissions and owner.
    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, mut to) = (self.at(from), self.at(to));
        let mut links = 0;
        loop {
            let (above, name) = Self::above(&to)?;
            match statat(&above, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) if FileType::from_raw_mode(found.st_mode).is_symlink() && links < LINKS_MAX => {
                    // What it says is a path as any other: one of /proc says where it leads, and that is looked up inside.
                    let target = readlinkat(&above, name, Vec::<u8>::new())?;
                    to = to.parent().unwrap_or(&to).join(OsStr::from_bytes(target.to_bytes()));
                    links += 1;
                }
                Ok(found) if FileType::from_raw_mode(found.st_mode).is_file() => {
                    let old = place(&above, name)?;
                    let (from_above, from_name) = Self::above(&from)?;
                    take_over(&place(&from_above, from_name)?, &old.metadata()?)?;
                    return Ok(renameat(&from_above, from_name, &above, name)?);
                }
                Err(Errno::NOENT) if links == 0 => {
                    let (from_above, from_name) = Self::above(&from)?;
                    return Ok(renameat(&from_above, from_name, &above, name)?);
                }
                Ok(_) | Err(Errno::NOENT) => return Err(not_regular()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A piece of a file.
    pub(super) fn read(&self, path: &str, offset: u64, length: u64) -> io::Result<(FileInfo, Vec<u8>)> {
        let mut file = File::from(inside::open(CWD, &self.at(path), OFlags::RDONLY | OFlags::NONBLOCK, 0)?);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(not_regular());
        }
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        file.take(length.min(READ_MAX)).read_to_end(&mut bytes)?;
        Ok((info(path, &metadata), bytes))
    }

    /// What is at a path.
    pub(super) fn stat(&self, path: &str) -> io::Result<FileInfo> {
        let found = inside::open(CWD, &self.at(path), OFlags::PATH | OFlags::NOFOLLOW, 0)?;
        Ok(info(path, &File::from(found).metadata()?))
    }

    /// What a directory holds after a name, by name, and whether there is more.
    pub(super) fn list(&self, path: &str, after: &str) -> io::Result<(Vec<FileInfo>, bool)> {
        let directory = inside::open(CWD, &self.at(path), OFlags::RDONLY | OFlags::DIRECTORY, 0)?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&directory)?.take(SEEN_MAX) {
            let name = entry?.file_name().to_owned();
            let shown = name.to_string_lossy().into_owned();
            if !matches!(name.to_bytes(), b"." | b"..") && shown.as_str() > after {
                entries.push((shown, name));
            }
        }
        entries.sort();
        let (all, mut bytes) = (entries.len(), 0);
        let mut listed = Vec::new();
        for (shown, name) in entries.into_iter().take(ENTRIES_MAX) {
            bytes += shown.chars().map(written).sum::<usize>();
            if bytes > NAMES_BYTES_MAX {
                break;
            }
            listed.push(info(&shown, &place(&directory, OsStr::from_bytes(name.to_bytes()))?.metadata()?));
        }
        let more = listed.len() < all;
        Ok((listed, more))
    }

    /// Removes a file, or a directory with all it holds; what is not there is gone already.
    pub(super) fn remove(&self, path: &str) -> io::Result<()> {
        let path = self.at(path);
        let remove = || {
            let (above, name) = Self::above(&path)?;
            let found = statat(&above, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(found.st_mode).is_dir() {
                // By number: where the directory above is was found out, and stays so.
                return fs::remove_dir_all(by_number(&above).join(name));
            }
            Ok(unlinkat(&above, name, AtFlags::empty())?)
        };
        match remove() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}

/// What has a name in a directory, itself and not what it leads to.
fn place(above: &OwnedFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(above, name, flags, Mode::empty())?.into())
}

/// Gives a file the owner and the permissions of another.
fn take_over(file: &File, other: &fs::Metadata) -> io::Result<()> {
    if !file.metadata()?.is_file() {
        return Err(not_regular());
    }
    give(file, OsStr::new(""), Some(other.uid()), Some(other.gid()), AtFlags::EMPTY_PATH)?;
    fs::set_permissions(by_number(file), PermissionsExt::from_mode(other.mode() & 0o7777))
}

fn give(at: impl AsFd, name: &OsStr, user: Option<u32>, group: Option<u32>, how: AtFlags) -> rustix::io::Result<()> {
    chownat(at, name, user.map(Uid::from_raw), group.map(Gid::from_raw), how)
}

/// A path to what we ourselves have opened.
fn by_number(opened: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}

fn info(name: &str, found: &fs::Metadata) -> FileInfo {
    let seconds = u64::try_from(found.mtime()).unwrap_or_default();
    let rest = u64::try_from(found.mtime_nsec()).unwrap_or_default();
    FileInfo {
        name: name.to_owned(),
        directory: found.is_dir(),
        size: found.len(),
        mode: found.mode() & 0o7777,
        modified_ns: seconds.saturating_mul(1_000_000_000).saturating_add(rest),
    }
}
