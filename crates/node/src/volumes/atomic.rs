//! Files that change together, as kubelets do it: what can be seen are links through `..data`, which is itself a link
//! to the directory that holds them, and is changed at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{lchown, symlink};
use std::path::Path;

use super::Entry;
use crate::files;
use crate::ids::BASE;

const DATA: &str = "..data";
const NEW_DATA: &str = "..data_tmp";
/// How names begin that are not for users.
const HIDDEN: &str = "..";

/// Writes the files of a volume: readers see all of the old ones or all of the new ones. Whether anything has changed.
pub(crate) fn write(directory: &Path, entries: &[Entry], group: Option<u32>) -> io::Result<bool> {
    let wanted = wanted(entries)?;
    files::mapped_directory(directory, 0o755)?;
    let data = directory.join(DATA);
    let present = fs::read_link(&data).ok().map(|to| directory.join(to));
    if let Some(present) = &present
        && same(present, &wanted)?
    {
        return Ok(false);
    }
    let name = format!("{HIDDEN}{}", uuid::Uuid::new_v4());
    let fresh = directory.join(&name);
    fill(&fresh, &wanted, group)?;
    link(&name, &directory.join(NEW_DATA))?;
    fs::rename(directory.join(NEW_DATA), &data)?;
    show(directory, &wanted)?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let other = entry.file_name().into_string().is_ok_and(|one| one.starts_with(HIDDEN) && one != name);
        if other && entry.file_type()?.is_dir() {
            files::remove_tree(&entry.path())?;
        }
    }
    Ok(true)
}

/// The files by path; of two for one path the last counts.
fn wanted(entries: &[Entry]) -> io::Result<BTreeMap<String, &Entry>> {
    let mut wanted = BTreeMap::new();
    for entry in entries {
        let names: Vec<&str> = entry.path.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
        let leads_out = names.contains(&"..") || names.first().is_none_or(|first| first.starts_with(HIDDEN));
        if leads_out {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{:?} is no path", entry.path)));
        }
        wanted.insert(names.join("/"), entry);
    }
    Ok(wanted)
}

/// Whether a directory holds just these files.
fn same(directory: &Path, wanted: &BTreeMap<String, &Entry>) -> io::Result<bool> {
    let mut present = BTreeSet::new();
    if let Err(error) = list(directory, "", &mut present) {
        return if error.kind() == io::ErrorKind::NotFound { Ok(false) } else { Err(error) };
    }
    if !present.iter().eq(wanted.keys()) {
        return Ok(false);
    }
    for (path, entry) in wanted {
        if fs::read(directory.join(path))? != entry.content {
            return Ok(false);
        }
    }
    Ok(true)
}

fn list(directory: &Path, below: &str, present: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if entry.file_type()?.is_dir() {
            list(&entry.path(), &path, present)?;
        } else {
            present.insert(path);
        }
    }
    Ok(())
}

fn fill(directory: &Path, wanted: &BTreeMap<String, &Entry>, group: Option<u32>) -> io::Result<()> {
    files::mapped_directory(directory, 0o755)?;
    for (path, entry) in wanted {
        let mut parent = directory.to_owned();
        let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
        for name in parents.split('/').filter(|name| !name.is_empty()) {
            parent.push(name);
            files::mapped_directory(&parent, 0o755)?;
        }
        // A group that is given files can read them.
        let mode = if group.is_some() { entry.mode | 0o040 } else { entry.mode };
        files::mapped_file(&parent.join(name), &entry.content, mode, group)?;
    }
    Ok(())
}

/// Makes links to what there is, and removes others.
fn show(directory: &Path, wanted: &BTreeMap<String, &Entry>) -> io::Result<()> {
    let names: BTreeSet<&str> = wanted.keys().filter_map(|path| path.split('/').next()).collect();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_link = entry.file_type()?.is_symlink();
        if name.starts_with(HIDDEN) || (is_link && names.contains(&*name)) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            files::remove_tree(&entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    for name in names {
        let path = directory.join(name);
        if path.symlink_metadata().is_err() {
            link(&format!("{DATA}/{name}"), &path)?;
        }
    }
    Ok(())
}

/// A link that belongs to the root of the pods, in place of what an interrupted write left.
fn link(to: &str, path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    symlink(to, path)?;
    lchown(path, Some(BASE), Some(BASE))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn entry(path: &str, content: &str) -> Entry {
        Entry { path: path.to_owned(), content: content.as_bytes().to_vec(), mode: 0o644 }
    }

    #[test]
    fn files_change_together_and_leave_nothing() {
        if !rustix::process::geteuid().is_root() {
            let _ = writeln!(io::stderr(), "SKIPPED: files of pods have owners, which takes root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        // As an earlier version left it.
        fs::write(folder.path().join("a"), "plain").unwrap();
        let first = [entry("a", "1"), entry("deep/er/b", "2"), entry("gone", "3"), entry("a", "0")];
        assert!(write(folder.path(), &first, None).unwrap());
        assert_eq!([read("a"), read("deep/er/b"), read("gone")], ["0", "2", "3"]);
        let kept = fs::File::open(folder.path().join("a")).unwrap();
        assert!(!write(folder.path(), &first, None).unwrap(), "the same again is no change");
        assert!(write(folder.path(), &[entry("a", "4"), entry("new", "5")], None).unwrap());
        assert_eq!([read("a"), read("new"), read("gone")], ["4", "5", ""]);
        assert_eq!(io::read_to_string(kept).unwrap(), "0", "what was open stays as it was");
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        assert_eq!(names.len(), 4, "{names:?}");
        assert!(names[0] == DATA || names[1] == DATA, "{names:?}");
        assert_eq!(names[2..], ["a", "new"]);
        assert!(write(folder.path(), &[], None).unwrap());
        assert_eq!(read("a"), "");
    }

    #[test]
    fn paths_that_lead_out_are_refused() {
        for path in ["../a", "a/../../b", "", "/", "..data", "..x/y"] {
            assert!(wanted(&[entry(path, "")]).is_err(), "{path}");
        }
        assert!(wanted(&[entry("a/..b", "")]).is_ok());
    }
}
