//! Files, read and written for those outside. Paths mean what they mean to the container's own processes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use thane_executor::message::{Failure as Sort, FileInfo, Reply};

/// Content of one answer.
pub(super) const READ_MAX: u64 = 4 * 1024 * 1024;
/// Names of one directory that are listed.
const ENTRIES_MAX: usize = 10_000;

/// An error as an answer.
pub(super) fn failed(path: &str, error: &io::Error) -> Reply {
    let failure = match error.kind() {
        io::ErrorKind::NotFound => Sort::NotFound,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Sort::Denied,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Sort::Exhausted,
        io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput => Sort::Invalid,
        _ => Sort::Other,
    };
    Reply::Failed { failure, message: format!("{path}: {error}") }
}

/// Writes a file, whole or at its end.
pub(super) fn write(path: &str, mode: Option<u32>, append: bool, content: &[u8]) -> io::Result<()> {
    if let Some(parent) = Path::new(path).parent() {
        fs::create_dir_all(parent)?;
    }
    let mut options = OpenOptions::new();
    // Neither a pipe nor a device is a file, and waiting for one would stop everything.
    options.write(true).create(true).append(append).truncate(!append).mode(mode.unwrap_or(0o644));
    options.custom_flags(libc::O_NONBLOCK);
    let mut file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    if let Some(mode) = mode {
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode & 0o7777))?;
    }
    file.write_all(content)
}

/// A piece of a file.
pub(super) fn read(path: &str, offset: u64, length: u64) -> io::Result<(FileInfo, Vec<u8>)> {
    let mut file: File = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
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
pub(super) fn stat(path: &str) -> io::Result<FileInfo> {
    Ok(info(path, &fs::symlink_metadata(path)?))
}

/// What a directory holds, by name.
pub(super) fn list(path: &str) -> io::Result<Vec<FileInfo>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)?.take(ENTRIES_MAX) {
        let entry = entry?;
        entries.push(info(&entry.file_name().to_string_lossy(), &entry.metadata()?));
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// Removes a file, or a directory with all it holds; what is not there is gone already.
pub(super) fn remove(path: &str) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
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
