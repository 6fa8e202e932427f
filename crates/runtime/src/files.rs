//! Files that appear whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Readable and writable by the owner alone.
pub const PRIVATE: u32 = 0o600;

/// Replaces `path` with `contents` by rename, so that a reader sees the old or the new file and never a part.
pub fn write_atomic(path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    let temporary = temporary_beside(path)?;
    let written = write_new(&temporary, contents, mode).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The first error is the one worth reporting; the leftover carries a name nobody reads.
        let _ = fs::remove_file(&temporary);
        return written;
    }
    sync_directory(path)
}

/// [`write_atomic`] with mode 0600.
pub fn write_private(path: &Path, contents: &[u8]) -> io::Result<()> {
    write_atomic(path, contents, PRIVATE)
}

fn temporary_beside(path: &Path) -> io::Result<PathBuf> {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a file name"))?;
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}-{serial}.tmp", std::process::id()));
    Ok(path.with_file_name(hidden))
}

fn write_new(path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    // A crashed process with our id may have left one behind.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(contents)?;
    file.sync_all()
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn replaces_the_file_and_leaves_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.pem");
        write_private(&path, b"old").unwrap();
        write_private(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, PRIVATE);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_rename_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let taken = dir.path().join("taken");
        fs::create_dir(&taken).unwrap();
        assert!(write_private(&taken, b"x").is_err());
        assert!(write_private(&dir.path().join("absent/key.pem"), b"x").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
