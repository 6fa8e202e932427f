//! Where a directory is in the layers below, when it or one that it was in has been renamed: as the kernel looks for it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use super::{OPAQUE, REDIRECT, Shown, note};

/// What one layer says about a way.
struct Found {
    /// The directory.
    is_there: bool,
    /// Nothing below is seen.
    stops: bool,
    /// The way in the layers below.
    way: Vec<OsString>,
    /// It begins at their roots.
    from_root: bool,
}

/// The directories that show under a name, where those it is in are.
pub(super) fn look(
    layers: &[PathBuf],
    above: &[(usize, PathBuf)],
    image: Option<&Path>,
    name: &OsStr,
) -> io::Result<Shown> {
    let (mut above, mut image) = (above.to_vec(), image.map(Path::to_owned));
    let (mut parts, mut way, mut at) = (Vec::new(), vec![name.to_owned()], 0);
    while let Some((layer, from)) = above.get(at).cloned() {
        let found = follow(&layers[layer], &from, &way)?;
        if found.is_there {
            parts.push((layer, way.iter().fold(from, |path, name| path.join(name))));
        }
        if found.stops {
            return Ok(Shown { parts, image: None });
        }
        way = found.way;
        at += 1;
        if found.from_root {
            // Whatever hides the directory it is in now does not hide where it was.
            above = (layer + 1..layers.len()).map(|layer| (layer, PathBuf::new())).collect();
            (image, at) = (Some(PathBuf::new()), 0);
        }
    }
    Ok(Shown { parts, image: image.map(|image| way.iter().fold(image, |path, name| path.join(name))) })
}

/// Follows a way in one layer.
fn follow(layer: &Path, from: &Path, way: &[OsString]) -> io::Result<Found> {
    let mut path = layer.join(from);
    let mut found = Found { is_there: false, stops: false, way: way.to_vec(), from_root: false };
    for (number, name) in way.iter().enumerate() {
        path.push(name);
        match std::fs::symlink_metadata(&path) {
            Ok(entry) if entry.is_dir() => {}
            // Gone, or something else: so it is in all layers below.
            Ok(_) => return Ok(Found { stops: true, ..found }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            Err(error) => return Err(error),
        }
        if note(&path, OPAQUE).as_deref() == Some(b"y") {
            found.stops = true;
        } else if let Some(to) = note(&path, REDIRECT) {
            let after = way.len() - number - 1;
            let rest = found.way.split_off(found.way.len() - after);
            let to = PathBuf::from(OsString::from_vec(to));
            if to.is_absolute() {
                found.way.clear();
                found.from_root = true;
            } else {
                found.way.pop();
            }
            let names = to.components().filter_map(|part| match part {
                Component::Normal(name) => Some(name.to_owned()),
                _ => None,
            });
            found.way.extend(names);
            found.way.extend(rest);
        }
    }
    found.is_there = true;
    Ok(found)
}
