//! The image `host`: this machine's own programs, read-only, on a fresh root.

use std::fs;
use std::io;
use std::os::unix::fs::{lchown, symlink};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use thane_executor::plan::{Mount, Source};

use super::ImageConfig;
use crate::files;
use crate::ids::BASE;

/// Its name.
pub(crate) const HOST: &str = "host";

/// Directories with programs and what they need.
const SHARED: [&str; 9] =
    ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc/alternatives", "etc/ssl/certs"];
/// Files that programs look at first, copied so that nothing else of `/etc` shows.
const COPIED: [&str; 5] = ["etc/ld.so.cache", "etc/ld.so.conf", "etc/passwd", "etc/group", "etc/nsswitch.conf"];
/// Fresh and writable.
const FRESH: [&str; 10] = ["etc", "tmp", "var", "var/tmp", "var/log", "run", "root", "home", "workspace", "opt"];
const STICKY: [&str; 2] = ["tmp", "var/tmp"];

/// The machine's userland, ready to be used.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    /// The lowest layer: what is not shared.
    pub(crate) skeleton: PathBuf,
    /// What is shared.
    pub(crate) mounts: Vec<Mount>,
    /// Processes get this.
    pub(crate) config: ImageConfig,
}

impl Host {
    /// Prepares it in a directory of its own. One that is there already stays: containers that run may stand on it.
    pub(crate) fn prepare(directory: &Path) -> io::Result<Self> {
        files::private_directory(directory)?;
        let new = directory.join(format!(".new-{}", std::process::id()));
        let mut host = Self::from_root(Path::new("/"), &new)?;
        let mut sha = Sha256::new();
        digest(&new, &mut sha)?;
        host.skeleton = directory.join(super::hex(&sha.finalize()[..8]));
        if host.skeleton.exists() {
            files::remove_tree(&new)?;
        } else {
            fs::rename(&new, &host.skeleton)?;
        }
        Ok(host)
    }

    fn from_root(root: &Path, skeleton: &Path) -> io::Result<Self> {
        files::remove_tree(skeleton)?;
        files::mapped_directory(skeleton, 0o755)?;
        for name in FRESH {
            let mode = if STICKY.contains(&name) { 0o1777 } else { 0o755 };
            files::mapped_directory(&skeleton.join(name), mode)?;
        }
        let mut mounts = Vec::new();
        for name in SHARED {
            let (from, to) = (root.join(name), skeleton.join(name));
            let Ok(found) = fs::symlink_metadata(&from) else { continue };
            if found.is_symlink() {
                symlink(fs::read_link(&from)?, &to)?;
                lchown(&to, Some(BASE), Some(BASE))?;
            } else if found.is_dir() {
                files::mapped_directory(&to, 0o755)?;
                mounts.push(Mount { target: format!("/{name}"), source: Source::Bind(from), read_only: true });
            }
        }
        for name in COPIED {
            if let Ok(content) = fs::read(root.join(name)) {
                files::mapped_file(&skeleton.join(name), &content, 0o644, None)?;
            }
        }
        let library_paths = root.join("etc/ld.so.conf.d");
        if library_paths.is_dir() {
            let target = "/etc/ld.so.conf.d".to_owned();
            mounts.push(Mount { target, source: Source::Bind(library_paths), read_only: true });
        }
        Ok(Self { skeleton: skeleton.to_owned(), mounts, config: ImageConfig::of_directory() })
    }
}

/// Names, links and content of a tree.
fn digest(directory: &Path, sha: &mut Sha256) -> io::Result<()> {
    let mut paths = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        let found = fs::symlink_metadata(&path)?;
        sha.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        if found.is_dir() {
            sha.update(b"/");
            digest(&path, sha)?;
            sha.update(b"..");
        } else if found.is_symlink() {
            sha.update(b"@");
            sha.update(fs::read_link(&path)?.as_os_str().as_encoded_bytes());
        } else {
            let content = fs::read(&path)?;
            sha.update((content.len() as u64).to_be_bytes());
            sha.update(content);
        }
    }
    Ok(())
}
