//! Artifacts in a directory, under their keys.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Error, Result};

/// Directories below one another.
const DEPTH_MAX: usize = 256;

/// Where a key is; it may not lead out.
fn place(root: &Path, key: &str) -> Result<PathBuf> {
    let names: Vec<&str> = key.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    if names.is_empty() || names.contains(&"..") || key.contains('\0') {
        return Err(Error::Failed(format!("{key:?} is no key")));
    }
    Ok(names.into_iter().fold(root.to_owned(), |path, name| path.join(name)))
}

pub(super) fn load(root: &Path, key: &str, to: &Path) -> Result<()> {
    let from = place(root, key)?;
    copy(&from, to, 0).map_err(|error| Error::file(&from, &error))
}

/// What is kept appears at once and whole.
pub(super) fn save(root: &Path, key: &str, from: &Path) -> Result<()> {
    let to = place(root, key)?;
    let failed = |error: io::Error| Error::Failed(format!("{}: {error}", to.display()));
    let parent = to.parent().unwrap_or(root);
    fs::create_dir_all(parent).map_err(failed)?;
    let new = parent.join(format!(".new-{}", uuid::Uuid::new_v4()));
    copy(from, &new, 0).map_err(|error| Error::file(from, &error))?;
    if fs::symlink_metadata(&to).is_ok_and(|found| found.is_dir()) {
        fs::remove_dir_all(&to).map_err(failed)?;
    }
    fs::rename(&new, &to).map_err(failed)
}

/// Copies a file or a tree; links stay links.
pub(super) fn copy(from: &Path, to: &Path, depth: usize) -> io::Result<()> {
    if depth > DEPTH_MAX {
        return Err(io::Error::other(format!("more than {DEPTH_MAX} directories deep")));
    }
    let found = if depth == 0 { fs::metadata(from)? } else { fs::symlink_metadata(from)? };
    if found.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()), depth + 1)?;
        }
        fs::set_permissions(to, found.permissions())
    } else if found.is_symlink() {
        std::os::unix::fs::symlink(fs::read_link(from)?, to)
    } else if found.is_file() {
        fs::copy(from, to).map(drop)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_trees_are_kept_and_brought() {
        let folder = tempfile::tempdir().unwrap();
        let (root, from) = (folder.path().join("root"), folder.path().join("from"));
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::write(from.join("a/b/c"), "c").unwrap();
        std::os::unix::fs::symlink("b/c", from.join("a/l")).unwrap();
        save(&root, "w/p/x.tgz", &from).unwrap();
        save(&root, "w/p/x.tgz", &from).unwrap();
        let to = folder.path().join("to");
        load(&root, "w/p/x.tgz", &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("a/b/c")).unwrap(), "c");
        assert_eq!(fs::read_link(to.join("a/l")).unwrap(), Path::new("b/c"));
        assert!(matches!(load(&root, "w/none", &folder.path().join("n")), Err(Error::Absent(_))));
        assert!(matches!(save(&root, "k", &folder.path().join("none")), Err(Error::Absent(_))));
        for key in ["", "/", "../x", "a/../../x", "a\0"] {
            assert!(matches!(save(&root, key, &from), Err(Error::Failed(_))), "{key:?}");
        }
    }
}
