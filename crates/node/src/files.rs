//! Directories and files that containers see.

use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use crate::ids::BASE;

/// A directory only we can read.
pub(crate) fn private_directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o711))
}

/// A directory that belongs to the root of the pods.
pub(crate) fn mapped_directory(path: &Path, mode: u32) -> io::Result<()> {
    std::fs::create_dir_all(path)?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode))?;
    chown(path, Some(BASE), Some(BASE))
}

/// A file that belongs to the root of the pods, or to one of their groups.
pub(crate) fn mapped_file(path: &Path, content: &[u8], mode: u32, group: Option<u32>) -> io::Result<()> {
    std::fs::write(path, content)?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode))?;
    chown(path, Some(BASE), Some(BASE.saturating_add(group.unwrap_or_default())))
}

/// Removes a tree; what is not there is gone already.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
