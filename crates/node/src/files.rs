//! Directories and files that containers see.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, openat, renameat_with};
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

/// Opens a file that a container has written: it and nothing a link in its place leads to, and nothing one waits for.
pub(crate) fn open_given(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}

/// The end of such a file: at most so many bytes, however long it says it is.
pub(crate) fn end_of_given(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut file = open_given(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes_max)))?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
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
    fn what_was_given_is_read_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("secret"), "treasure").unwrap();
        std::os::unix::fs::symlink(at("secret"), at("link")).unwrap();
        rustix::fs::mknodat(CWD, at("pipe"), rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        for name in ["link", "pipe", "nowhere", "."] {
            assert!(open_given(&at(name)).is_err(), "{name}");
        }
        assert_eq!(end_of_given(&at("secret"), 4).unwrap(), b"sure");
        assert_eq!(end_of_given(&at("secret"), 100).unwrap(), b"treasure");
        File::create(at("long")).unwrap().set_len(1 << 50).unwrap_or_default();
        assert!(end_of_given(&at("long"), 4096).unwrap().len() <= 4096, "it holds no more than it was asked for");
    }

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
