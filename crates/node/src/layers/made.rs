//! What is in a container's uppermost directory before anybody writes there: the places of its mounts. A step that leaves it
//! like that has written nothing.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// More than mounts need; a directory with more counts as written to.
const ENTRIES_MAX: usize = 1000;

/// All entries below a directory, by their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Made(BTreeMap<String, Entry>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    inode: u64,
    mode: u32,
    user: u32,
    group: u32,
    size: u64,
    /// Seconds and nanoseconds of the last change of anything about it.
    changed: (i64, i64),
}

impl Entry {
    fn of(found: &Metadata) -> Self {
        Self {
            inode: found.ino(),
            mode: found.mode(),
            user: found.uid(),
            group: found.gid(),
            size: found.size(),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }
}

impl Made {
    /// As it is now.
    pub(crate) fn of(directory: &Path) -> io::Result<Self> {
        let mut made = Self::default();
        let whole = walk(directory, "", &mut |path, entry| {
            made.0.insert(path, entry);
            made.0.len() <= ENTRIES_MAX
        })?;
        if whole { Ok(made) } else { Err(io::Error::other("there is more in it than mounts need")) }
    }

    /// Whether it is still like that. It stops at the first difference, however much there is.
    pub(crate) fn is_still(&self, directory: &Path) -> io::Result<bool> {
        let mut count = 0;
        let same = walk(directory, "", &mut |path, entry| {
            count += 1;
            self.0.get(&path) == Some(&entry)
        })?;
        Ok(same && count == self.0.len())
    }
}

/// Tells all entries until one is enough; whether it came to the end.
fn walk(directory: &Path, below: &str, tell: &mut dyn FnMut(String, Entry) -> bool) -> io::Result<bool> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let found = entry.metadata()?;
        let path = format!("{below}/{}", entry.file_name().to_string_lossy());
        if !tell(path.clone(), Entry::of(&found)) || (found.is_dir() && !walk(&entry.path(), &path, tell)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn whatever_is_written_shows() {
        let changes: [fn(&Path); 6] = [
            |at| fs::write(at.join("etc/new"), "").unwrap(),
            |at| fs::write(at.join("etc/hosts"), "x").unwrap(),
            |at| fs::remove_file(at.join("etc/hosts")).unwrap(),
            |at| fs::set_permissions(at.join("etc"), fs::Permissions::from_mode(0o700)).unwrap(),
            |at| fs::rename(at.join("etc"), at.join("was")).unwrap(),
            |at| fs::create_dir(at.join("proc/1")).unwrap(),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let folder = tempfile::tempdir().unwrap();
            let at = folder.path();
            assert_eq!(Made::of(at).unwrap(), Made::default());
            fs::create_dir_all(at.join("etc")).unwrap();
            fs::create_dir_all(at.join("proc")).unwrap();
            fs::write(at.join("etc/hosts"), "").unwrap();
            let made = Made::of(at).unwrap();
            assert!(made.is_still(at).unwrap());
            change(at);
            assert!(!made.is_still(at).unwrap(), "change {number}");
        }
    }

    #[test]
    fn what_is_large_counts_as_written() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..=ENTRIES_MAX {
            fs::write(folder.path().join(number.to_string()), "").unwrap();
        }
        assert!(Made::of(folder.path()).is_err());
        assert!(!Made::default().is_still(folder.path()).unwrap());
    }
}
