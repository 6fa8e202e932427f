//! Paths that mean what they mean to the container's own processes, and lead nowhere else.
//!
//! The first process has directories of the machine open, and by `/proc/self/fd` a path could go through them: links
//! that only the kernel can follow are refused wherever they are on the way.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

/// Opens what is at a path; one that does not begin at the root begins at the directory.
pub(super) fn open(from: impl AsFd, path: &Path, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
    let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(mode & 0o7777) } else { Mode::empty() };
    openat2(from, path, flags | OFlags::CLOEXEC, mode, ResolveFlags::NO_MAGICLINKS).map_err(|error| match error {
        Errno::LOOP => {
            let why = "it leads through too many links, or through one of /proc that only the kernel can follow";
            io::Error::new(io::ErrorKind::InvalidInput, why)
        }
        Errno::NOSYS => {
            let why = "the kernel has no openat2, without which a path could lead out of the container; \
                       Linux has it since 5.6";
            io::Error::new(io::ErrorKind::Unsupported, why)
        }
        error => error.into(),
    })
}

/// The directory at a path, as a place and not to be read.
pub(super) fn directory(path: &Path) -> io::Result<OwnedFd> {
    open(CWD, path, OFlags::PATH | OFlags::DIRECTORY, 0)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn links_of_the_kernel_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let held = directory(folder.path()).unwrap();
        let by_number = format!("/proc/self/fd/{}", held.as_raw_fd());
        std::os::unix::fs::symlink(&by_number, folder.path().join("planted")).unwrap();
        std::os::unix::fs::symlink("..", folder.path().join("up")).unwrap();
        let planted = folder.path().join("planted/..").display().to_string();
        for path in [by_number.clone(), format!("{by_number}/.."), planted, "/proc/self/root".to_owned()] {
            assert_eq!(directory(Path::new(&path)).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{path}");
        }
        assert!(directory(&folder.path().join("up")).is_ok(), "other links are");
    }
}
