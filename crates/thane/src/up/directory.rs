//! The data directory: one process at a time, and files others may rely on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use thane_api::code;
use thane_runtime::{files, pki};

use crate::failure::Failure;

/// Files that say where everything is; stale ones are removed at start.
const PUBLISHED: [&str; 2] = ["kubeconfig", "endpoints.json"];

/// A data directory this process has for itself.
#[derive(Debug, Clone)]
pub(super) struct Directory {
    path: PathBuf,
    /// The kernel lets go of the lock with the process, however that ends.
    _lock: Arc<File>,
}

impl Directory {
    /// Creates and locks the directory, and removes what an earlier run published.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        pki::store::create_directory(path)?;
        let lock = lock(path)?;
        for name in PUBLISHED {
            let file = path.join(name);
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&file, &error)),
                _ => {}
            }
        }
        Ok(Self { path: path.to_owned(), _lock: Arc::new(lock) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Publishes a file, whole.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let file = self.join(name);
        files::write_private(&file, text.as_bytes()).map_err(|error| failed(&file, &error))
    }
}

fn lock(directory: &Path) -> Result<File, Failure> {
    let path = directory.join("lock");
    let opened =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(files::PRIVATE).open(&path);
    let mut file = opened.map_err(|error| failed(&path, &error))?;
    if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if error != rustix::io::Errno::WOULDBLOCK {
            return Err(failed(&path, &error.into()));
        }
        let mut owner = String::new();
        // Only a help for the reader; the lock itself is what counts.
        let _ = (&mut file).take(32).read_to_string(&mut owner);
        let owner = owner.trim();
        let by = if owner.is_empty() { "another process".to_owned() } else { format!("process {owner}") };
        return Err(Failure::new(code::DATA_IN_USE, format!("{} is in use by {by}", directory.display())));
    }
    let noted = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    noted.map_err(|error| failed(&path, &error))?;
    Ok(file)
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::new(code::FILE_FAILED, format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_owner_at_a_time() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("data");
        let first = Directory::open(&path).unwrap();
        first.write("kubeconfig", "x").unwrap();
        let refused = Directory::open(&path).unwrap_err();
        assert_eq!(refused.code(), code::DATA_IN_USE);
        assert!(format!("{refused:?}").contains(&format!("process {}", std::process::id())), "{refused:?}");
        assert!(path.join("kubeconfig").exists(), "the second must not touch the first one's files");
        drop(first);
        Directory::open(&path).unwrap();
        assert!(!path.join("kubeconfig").exists(), "stale files are removed at start");
    }
}
