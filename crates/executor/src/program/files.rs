//! Files, read and written for those outside. Paths mean what they mean to the container's own processes; one that begins
//! nowhere begins where those start.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown, lchown};
use std::path::{Path, PathBuf};

use thane_executor::message::{Failure as Sort, FileInfo, Reply};
use thane_executor::plan::User;

/// Content of one answer.
const READ_MAX: u64 = 4 * 1024 * 1024;
/// Names of one answer, and their bytes: it has to fit into a frame.
const ENTRIES_MAX: usize = 2000;
const NAMES_BYTES_MAX: usize = 256 * 1024;
/// Names of one directory that are looked at.
const SEEN_MAX: usize = 100_000;

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

    /// Makes the directories above a path that are missing.
    fn make_above(&self, path: &Path) -> io::Result<()> {
        let Some(parent) = path.parent() else { return Ok(()) };
        let missing: Vec<&Path> = parent.ancestors().take_while(|one| fs::metadata(one).is_err()).collect();
        for one in missing.into_iter().rev() {
            match fs::create_dir(one) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => {
                    made?;
                    let (user, group) = self.ids();
                    lchown(one, user, group)?;
                }
            }
        }
        Ok(())
    }

    /// Writes a file, whole or at its end.
    pub(super) fn write(&self, path: &str, mode: Option<u32>, append: bool, content: &[u8]) -> io::Result<()> {
        let path = self.at(path);
        self.make_above(&path)?;
        let is_new = fs::symlink_metadata(&path).is_err();
        let mut options = OpenOptions::new();
        // Neither a pipe nor a device is a file, and waiting for one would stop everything.
        options.write(true).create(true).append(append).truncate(!append).mode(mode.unwrap_or(0o644));
        options.custom_flags(libc::O_NONBLOCK);
        let mut file = options.open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
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
        let (from, to) = (self.at(from), self.at(to));
        let to = fs::canonicalize(&to).unwrap_or(to);
        match fs::symlink_metadata(&to) {
            Ok(found) if found.is_file() => {
                lchown(&from, Some(found.uid()), Some(found.gid()))?;
                fs::set_permissions(&from, PermissionsExt::from_mode(found.mode() & 0o7777))?;
            }
            Ok(_) => return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
            Err(_) => {}
        }
        fs::rename(from, to)
    }

    /// A piece of a file.
    pub(super) fn read(&self, path: &str, offset: u64, length: u64) -> io::Result<(FileInfo, Vec<u8>)> {
        let mut file: File = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(self.at(path))?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        file.take(length.min(READ_MAX)).read_to_end(&mut bytes)?;
        Ok((info(path, &metadata), bytes))
    }

    /// What is at a path.
    pub(super) fn stat(&self, path: &str) -> io::Result<FileInfo> {
        Ok(info(path, &fs::symlink_metadata(self.at(path))?))
    }

    /// What a directory holds after a name, by name, and whether there is more.
    pub(super) fn list(&self, path: &str, after: &str) -> io::Result<(Vec<FileInfo>, bool)> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(self.at(path))?.take(SEEN_MAX) {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.as_str() > after {
                entries.push((name, entry));
            }
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        let (all, mut bytes) = (entries.len(), 0);
        let mut listed = Vec::new();
        for (name, entry) in entries.into_iter().take(ENTRIES_MAX) {
            bytes += name.len();
            if bytes > NAMES_BYTES_MAX {
                break;
            }
            listed.push(info(&name, &entry.metadata()?));
        }
        let more = listed.len() < all;
        Ok((listed, more))
    }

    /// Removes a file, or a directory with all it holds; what is not there is gone already.
    pub(super) fn remove(&self, path: &str) -> io::Result<()> {
        let path = self.at(path);
        let removed = match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(path),
            Ok(_) => fs::remove_file(path),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
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
