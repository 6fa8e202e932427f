//! A directory of this machine as a layer.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;

use super::{Error, at};

/// How deep directories may be nested.
const DEPTH_MAX: usize = 256;

/// Copies everything below `source` into `target`, which is there, and says what it occupies.
pub(super) fn tree(source: &Path, target: &Path) -> Result<u64, Error> {
    let found = at(source, fs::metadata(source))?;
    let bytes = directory(source, target, 0)?;
    at(target, attributes(target, &found))?;
    Ok(bytes)
}

fn directory(source: &Path, target: &Path, depth: usize) -> Result<u64, Error> {
    if depth > DEPTH_MAX {
        return Err(Error::Archive(format!("{} is nested too deeply", source.display())));
    }
    let mut bytes = 0;
    for entry in at(source, fs::read_dir(source))? {
        let from = at(source, entry)?.path();
        let Some(name) = from.file_name() else { continue };
        let to = target.join(name);
        let found = at(&from, fs::symlink_metadata(&from))?;
        let kind = found.file_type();
        if kind.is_symlink() {
            let link = at(&from, fs::read_link(&from))?;
            at(&to, symlink(link, &to))?;
            at(&to, lchown(&to, Some(found.uid()), Some(found.gid())))?;
            continue;
        }
        if kind.is_dir() {
            at(&to, fs::create_dir(&to))?;
            bytes += directory(&from, &to, depth + 1)?;
        } else if kind.is_file() {
            bytes += at(&from, fs::copy(&from, &to))?;
        } else {
            return Err(Error::Archive(format!("{} is neither file, link nor directory", from.display())));
        }
        at(&to, attributes(&to, &found))?;
    }
    Ok(bytes)
}

fn attributes(path: &Path, found: &fs::Metadata) -> io::Result<()> {
    let out_of_range = found.uid() >= crate::ids::COUNT || found.gid() >= crate::ids::COUNT;
    let (uid, gid) = if out_of_range { (0, 0) } else { (found.uid(), found.gid()) };
    chown(path, Some(uid), Some(gid))?;
    fs::set_permissions(path, PermissionsExt::from_mode(found.mode() & 0o7777))
}
