//! Directories and files that containers see.

use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

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

/// The same, but one that is there stays as it is. So it must appear whole: whoever makes it may be killed on the way.
/// `maker` tells apart those who make the same one.
pub(crate) fn lasting_directory(path: &Path, mode: u32, maker: &str) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let new = path.with_file_name(format!(".{maker}.new"));
    remove_tree(&new)?;
    mapped_directory(&new, mode)?;
    match renameat_with(CWD, &new, CWD, path, RenameFlags::NOREPLACE) {
        // Somebody else was quicker.
        Err(Errno::EXIST) => remove_tree(&new),
        renamed => Ok(renamed?),
    }
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_directory_that_lasts_appears_whole() {
        if !rustix::process::geteuid().is_root() {
            let _ = writeln!(io::stderr(), "SKIPPED, nothing was tested: giving a directory away takes root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("volume");
        // What a maker that was killed has left is no directory of anybody's.
        std::fs::create_dir(folder.path().join(".one.new")).unwrap();
        lasting_directory(&path, 0o777, "one").unwrap();
        let made = std::fs::metadata(&path).unwrap();
        assert_eq!((made.mode() & 0o7777, made.uid()), (0o777, BASE));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        lasting_directory(&path, 0o777, "two").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o700, "its user changed it");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }
}
