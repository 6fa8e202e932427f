//! Many layers as one: what is above hides what is below, and what they hide together stays hidden.

mod redirect;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, SeekFrom, Timespec, Timestamps, XattrFlags};

/// The kernel's own notes about a layer.
const OVERLAY: &str = "trusted.overlay.";
const OPAQUE: &str = "trusted.overlay.opaque";
/// Where a directory that was renamed is in the layers below.
const REDIRECT: &str = "trusted.overlay.redirect";
const NOTES_MAX: usize = 64 * 1024;

/// Files with more than one name, by their number and device below.
type Links = BTreeMap<(u64, u64), PathBuf>;

/// What a directory is made of.
struct Shown {
    /// Where it is in layers, topmost first, by their numbers.
    parts: Vec<(usize, PathBuf)>,
    /// Where it is in the image, if nothing hides that.
    image: Option<PathBuf>,
}

/// Merges layers, topmost first, into a new directory that is to lie on those of an image.
pub(super) fn merge(layers: &[PathBuf], image: &[PathBuf], into: &Path) -> io::Result<()> {
    let roots = (0..layers.len()).map(|layer| (layer, PathBuf::new())).collect();
    let mut merging = Merging { layers, image, links: Links::new() };
    merging.directory(&Shown { parts: roots, image: Some(PathBuf::new()) }, Some(Path::new("")), into)
}

struct Merging<'a> {
    layers: &'a [PathBuf],
    image: &'a [PathBuf],
    links: Links,
}

impl Merging<'_> {
    /// Writes what shows of a directory; where the image would show by itself is what needs no note.
    fn directory(&mut self, shown: &Shown, itself: Option<&Path>, into: &Path) -> io::Result<()> {
        let Some((layer, top)) = shown.parts.first() else { return Ok(()) };
        let top = self.layers[*layer].join(top);
        fs::create_dir(into)?;
        let mut decided = BTreeSet::new();
        for (at, (layer, path)) in shown.parts.iter().enumerate() {
            for entry in fs::read_dir(self.layers[*layer].join(path))? {
                let entry = entry?;
                let name = entry.file_name();
                if !decided.insert(name.clone()) {
                    continue;
                }
                let (found, target) = (fs::symlink_metadata(entry.path())?, into.join(&name));
                let beneath = shown.image.as_ref().map(|image| image.join(&name));
                if found.is_dir() {
                    let below = redirect::look(self.layers, &shown.parts[at..], shown.image.as_deref(), &name)?;
                    self.directory(&below, beneath.as_deref(), &target)?;
                // Where nothing is hidden, the kernel would show what hides it.
                } else if !is_whiteout(&found) || beneath.is_some_and(|path| self.is_in_image(&path)) {
                    leaf(&entry.path(), &found, &target, &mut self.links)?;
                }
            }
        }
        like(&top, &fs::symlink_metadata(&top)?, into)?;
        match &shown.image {
            None => rustix::fs::lsetxattr(into, OPAQUE, b"y", XattrFlags::empty())?,
            Some(image) if Some(image.as_path()) != itself => {
                let from = Path::new("/").join(image);
                rustix::fs::lsetxattr(into, REDIRECT, from.as_os_str().as_bytes(), XattrFlags::empty())?;
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn is_in_image(&self, path: &Path) -> bool {
        self.image.iter().any(|layer| fs::symlink_metadata(layer.join(path)).is_ok())
    }
}

/// A device without a number says that a name is gone.
fn is_whiteout(found: &Metadata) -> bool {
    found.file_type().is_char_device() && found.rdev() == 0
}

/// Anything but a directory.
fn leaf(from: &Path, found: &Metadata, to: &Path, links: &mut Links) -> io::Result<()> {
    let key = (found.dev(), found.ino());
    let kind = found.file_type();
    if found.nlink() > 1 && !kind.is_char_device() {
        if let Some(first) = links.get(&key) {
            return fs::hard_link(first, to);
        }
        links.insert(key, to.to_owned());
    }
    if kind.is_symlink() {
        symlink(fs::read_link(from)?, to)?;
    } else if kind.is_file() {
        copy(from, to)?;
    } else {
        let sort = FileType::from_raw_mode(found.mode());
        rustix::fs::mknodat(CWD, to, sort, Mode::from_raw_mode(found.mode() & 0o7777), found.rdev())?;
    }
    like(from, found, to)
}

/// Content with its holes.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (File::open(from)?, File::create_new(to)?);
    let length = from.metadata()?.len();
    to.set_len(length)?;
    let mut at = 0;
    while at < length {
        let Ok(start) = rustix::fs::seek(&from, SeekFrom::Data(at)) else { break };
        let end = rustix::fs::seek(&from, SeekFrom::Hole(start)).unwrap_or(length);
        rustix::fs::seek(&from, SeekFrom::Start(start))?;
        rustix::fs::seek(&to, SeekFrom::Start(start))?;
        io::copy(&mut io::Read::take(&from, end - start), &mut &to)?;
        at = end;
    }
    Ok(())
}

/// Owner, permissions, notes and times of something.
fn like(from: &Path, found: &Metadata, to: &Path) -> io::Result<()> {
    lchown(to, Some(found.uid()), Some(found.gid()))?;
    if !found.is_symlink() {
        fs::set_permissions(to, PermissionsExt::from_mode(found.mode() & 0o7777))?;
        for name in notes(from).iter().filter(|name| !name.starts_with(OVERLAY)) {
            if let Some(value) = note(from, name) {
                rustix::fs::lsetxattr(to, name.as_str(), &value, XattrFlags::empty())?;
            }
        }
    }
    let time = |seconds: i64, nanoseconds: i64| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps {
        last_access: time(found.atime(), found.atime_nsec()),
        last_modification: time(found.mtime(), found.mtime_nsec()),
    };
    Ok(rustix::fs::utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn note(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; NOTES_MAX];
    let length = rustix::fs::lgetxattr(path, name, value.as_mut_slice()).ok()?;
    value.truncate(length);
    Some(value)
}

fn notes(path: &Path) -> Vec<String> {
    let mut names = vec![0_u8; NOTES_MAX];
    let Ok(length) = rustix::fs::llistxattr(path, names.as_mut_slice()) else { return Vec::new() };
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.filter_map(|name| std::ffi::OsStr::from_bytes(name).to_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs the right to make devices, which whoever runs pods has.
    fn layer(folder: &Path, name: &str, make: impl Fn(&Path)) -> PathBuf {
        let path = folder.join(name);
        fs::create_dir(&path).unwrap();
        make(&path);
        path
    }

    fn whiteout(path: &Path) {
        rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    }

    #[test]
    fn what_is_above_hides_what_is_below_and_stays_so() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let bottom = layer(folder.path(), "bottom", |at| {
            fs::create_dir_all(at.join("kept/deep")).unwrap();
            fs::create_dir(at.join("replaced")).unwrap();
            fs::write(at.join("replaced/old"), "old").unwrap();
            fs::write(at.join("kept/deep/one"), "one").unwrap();
            fs::hard_link(at.join("kept/deep/one"), at.join("kept/two")).unwrap();
            fs::write(at.join("gone"), "gone").unwrap();
        });
        let middle = layer(folder.path(), "middle", |at| {
            fs::create_dir(at.join("replaced")).unwrap();
            rustix::fs::lsetxattr(at.join("replaced"), OPAQUE, b"y", XattrFlags::empty()).unwrap();
            fs::write(at.join("replaced/new"), "new").unwrap();
            whiteout(&at.join("gone"));
            whiteout(&at.join("never"));
        });
        let top = layer(folder.path(), "top", |at| {
            fs::create_dir(at.join("kept")).unwrap();
            fs::set_permissions(at.join("kept"), PermissionsExt::from_mode(0o700)).unwrap();
            fs::write(at.join("kept/three"), "three").unwrap();
            symlink("three", at.join("kept/link")).unwrap();
        });
        let image = layer(folder.path(), "image", |at| fs::write(at.join("gone"), "gone").unwrap());
        let into = folder.path().join("into");
        merge(&[top, middle, bottom], &[image], &into).unwrap();
        assert_eq!(fs::read_to_string(into.join("kept/deep/one")).unwrap(), "one");
        let [one, two] = ["kept/deep/one", "kept/two"].map(|name| fs::metadata(into.join(name)).unwrap().ino());
        assert_eq!(one, two, "two names of one file are two names of one file");
        assert_eq!(fs::read_link(into.join("kept/link")).unwrap(), Path::new("three"));
        assert_eq!(fs::metadata(into.join("kept")).unwrap().mode() & 0o777, 0o700);
        assert!(fs::symlink_metadata(into.join("gone")).unwrap().file_type().is_char_device(), "the image has it");
        assert!(fs::symlink_metadata(into.join("never")).is_err(), "the image does not");
        assert_eq!(note(&into.join("replaced"), OPAQUE).as_deref(), Some(&b"y"[..]));
        assert!(!into.join("replaced/old").exists() && into.join("replaced/new").exists());
    }

    #[test]
    fn renamed_directories_are_found_where_they_were() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let leads = |path: PathBuf, to: &str| {
            fs::create_dir_all(&path).unwrap();
            rustix::fs::lsetxattr(path, REDIRECT, to.as_bytes(), XattrFlags::empty()).unwrap();
        };
        let bottom = layer(folder.path(), "bottom", |at| {
            fs::create_dir_all(at.join("first/deep")).unwrap();
            fs::write(at.join("first/one"), "one").unwrap();
            fs::write(at.join("first/deep/two"), "two").unwrap();
            fs::write(at.join("first/gone"), "gone").unwrap();
        });
        let middle = layer(folder.path(), "middle", |at| {
            leads(at.join("second"), "first");
            whiteout(&at.join("first"));
            whiteout(&at.join("second/gone"));
            // A directory of the image, below one that is new.
            leads(at.join("new/moved"), "/etc/old");
            rustix::fs::lsetxattr(at.join("new"), OPAQUE, b"y", XattrFlags::empty()).unwrap();
            fs::create_dir(at.join("etc")).unwrap();
            whiteout(&at.join("etc/old"));
        });
        let top = layer(folder.path(), "top", |at| {
            leads(at.join("third"), "second");
            whiteout(&at.join("second"));
            // Its way leads through one that was renamed itself.
            leads(at.join("fourth"), "/second/deep");
            whiteout(&at.join("third/deep"));
        });
        let image = layer(folder.path(), "image", |at| fs::create_dir_all(at.join("etc/old")).unwrap());
        let into = folder.path().join("into");
        merge(&[top, middle, bottom], &[image], &into).unwrap();
        assert_eq!(fs::read_to_string(into.join("third/one")).unwrap(), "one");
        assert_eq!(fs::read_to_string(into.join("fourth/two")).unwrap(), "two");
        for gone in ["third/gone", "third/deep", "first", "second"] {
            assert!(fs::symlink_metadata(into.join(gone)).is_err(), "{gone}: the image has none of it either");
        }
        assert_eq!(note(&into.join("new/moved"), REDIRECT).as_deref(), Some(&b"/etc/old"[..]));
        assert_eq!(note(&into.join("new"), OPAQUE).as_deref(), Some(&b"y"[..]));
        assert!(fs::symlink_metadata(into.join("etc/old")).unwrap().file_type().is_char_device());
        assert_eq!(note(&into.join("etc"), REDIRECT), None);
    }
}
