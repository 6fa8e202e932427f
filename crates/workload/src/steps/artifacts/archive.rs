//! What artifacts are packed in: tar with gzip, zip, or nothing.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;
use thane_executor::tarball;

use super::zip;
use super::{Error, Result};

/// What all files of an unpacked artifact may hold.
const UNPACKED_MAX: u64 = 256 << 30;
/// Files an artifact may have.
pub(super) const ENTRIES_MAX: usize = 1_000_000;

/// How an artifact is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// A tar archive, compressed this much, or as much as is usual.
    Tar(Option<u32>),
    /// A zip archive.
    Zip,
    /// As it is.
    None,
}

impl Packing {
    /// What the artifact says; nothing where it says nothing.
    pub fn of(artifact: &Value) -> Option<Self> {
        let archive = &artifact["archive"];
        if archive["none"].is_object() {
            Some(Self::None)
        } else if archive["zip"].is_object() {
            Some(Self::Zip)
        } else if archive["tar"].is_object() {
            let level = archive["tar"]["compressionLevel"].as_i64();
            Some(Self::Tar(level.and_then(|level| u32::try_from(level).ok()).map(|level| level.min(9))))
        } else {
            None
        }
    }

    /// The name of a packed artifact's file.
    pub fn file(self, name: &str, path: &str) -> String {
        match self {
            Self::Tar(_) => format!("{name}.tgz"),
            Self::Zip => format!("{name}.zip"),
            Self::None => path.trim_end_matches('/').rsplit('/').next().unwrap_or(name).to_owned(),
        }
    }
}

/// What there is to be packed.
#[derive(Debug, Clone, Copy)]
pub enum Found<'a> {
    /// A file or directory that can be seen.
    Path(&'a Path),
    /// A tar archive of one.
    Tarred(&'a Path),
}

/// Packs into a directory; where the result is.
pub fn pack(found: Found<'_>, packing: Packing, directory: &Path, file: &str) -> Result<PathBuf> {
    fs::create_dir_all(directory).map_err(|error| Error::file(directory, &error))?;
    let to = directory.join(file);
    match (packing, found) {
        (Packing::None, Found::Path(path)) => {
            fs::metadata(path).map_err(|error| Error::file(path, &error))?;
            return Ok(path.to_owned());
        }
        (Packing::None, Found::Tarred(tar)) => unpack_into_place(tar, &to, plain_tar)?,
        (Packing::Tar(level), found) => tgz(found, level, &to)?,
        (Packing::Zip, Found::Path(path)) => zip::write(path, &to).map_err(|error| Error::file(path, &error))?,
        (Packing::Zip, Found::Tarred(tar)) => {
            let loose = directory.join(format!("{file}.loose"));
            unpack_into_place(tar, &loose, plain_tar)?;
            zip::write(&loose, &to).map_err(|error| Error::file(&loose, &error))?;
            let _ = fs::remove_dir_all(&loose).or_else(|_| fs::remove_file(&loose));
        }
    }
    Ok(to)
}

fn tgz(found: Found<'_>, level: Option<u32>, to: &Path) -> Result<()> {
    let level = level.map_or_else(Compression::default, Compression::new);
    let made = File::create(to).map_err(|error| Error::Failed(format!("{}: {error}", to.display())))?;
    let packed = GzEncoder::new(BufWriter::new(made), level);
    let (path, written) = match found {
        Found::Path(path) => (path, tarball::write(path, packed)),
        Found::Tarred(path) => {
            let copied = File::open(path).and_then(|mut from| {
                let mut packed = packed;
                io::copy(&mut from, &mut packed)?;
                Ok(packed)
            });
            (path, copied)
        }
    };
    let written =
        written.and_then(GzEncoder::finish).and_then(|out| out.into_inner().map_err(io::IntoInnerError::into_error));
    written.map(drop).map_err(|error| Error::file(path, &error))
}

/// Unpacks what was brought to `from`, or leaves it as it is, so that `to` is what the step asked for.
pub fn unpack(from: &Path, to: &Path, packing: Option<Packing>) -> Result<()> {
    let packing = match packing {
        Some(packing) => packing,
        // What was not said is seen; zip archives are never guessed, as Argo does not.
        None if is_tgz(from) => Packing::Tar(None),
        None => Packing::None,
    };
    match packing {
        Packing::None => fs::rename(from, to).map_err(|error| Error::file(from, &error)),
        Packing::Tar(_) => {
            let compressed = |path: &Path, into: &Path| tar(GzDecoder::new(BufReader::new(File::open(path)?)), into);
            unpack_into_place(from, to, compressed)?;
            fs::remove_file(from).map_err(|error| Error::file(from, &error))
        }
        Packing::Zip => {
            unpack_into_place(from, to, zip::read)?;
            fs::remove_file(from).map_err(|error| Error::file(from, &error))
        }
    }
}

fn is_tgz(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let mut archive = tar::Archive::new(GzDecoder::new(BufReader::new(file)));
    archive.entries().is_ok_and(|mut entries| matches!(entries.next(), Some(Ok(_))))
}

fn plain_tar(path: &Path, into: &Path) -> io::Result<()> {
    tar(BufReader::new(File::open(path)?), into)
}

/// Unpacks beside the place and moves there: the one thing that was in it, or all as a directory.
fn unpack_into_place(from: &Path, to: &Path, unpacked: impl Fn(&Path, &Path) -> io::Result<()>) -> Result<()> {
    let mut loose = to.as_os_str().to_owned();
    loose.push(".tmpdir");
    let loose = PathBuf::from(loose);
    let failed = |error: io::Error| Error::Failed(format!("unpack {}: {error}", from.display()));
    let _ = fs::remove_dir_all(&loose);
    fs::create_dir_all(&loose).map_err(failed)?;
    fs::set_permissions(&loose, PermissionsExt::from_mode(0o755)).map_err(failed)?;
    unpacked(from, &loose).map_err(failed)?;
    let mut entries = fs::read_dir(&loose).map_err(failed)?.collect::<io::Result<Vec<_>>>().map_err(failed)?;
    match (entries.pop(), entries.is_empty()) {
        (Some(only), true) => {
            fs::rename(only.path(), to).map_err(failed)?;
            fs::remove_dir(&loose).map_err(failed)
        }
        _ => fs::rename(&loose, to).map_err(failed),
    }
}

/// Unpacks a tar archive; what would land outside is refused.
fn tar(from: impl Read, into: &Path) -> io::Result<()> {
    let mut archive = tar::Archive::new(from);
    archive.set_preserve_permissions(true);
    archive.set_overwrite(true);
    let mut left = UNPACKED_MAX;
    for (count, entry) in archive.entries()?.enumerate() {
        let mut entry = entry?;
        let size = entry.header().size()?;
        left = left
            .checked_sub(size)
            .filter(|_| count < ENTRIES_MAX)
            .ok_or_else(|| io::Error::other("it is too large"))?;
        let kind = entry.header().entry_type();
        if kind.is_character_special() || kind.is_block_special() || kind.is_fifo() {
            continue;
        }
        if !entry.unpack_in(into)? {
            let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            return Err(io::Error::other(format!("{path:?} leads elsewhere")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tree(root: &Path) -> PathBuf {
        let from = root.join("d");
        fs::create_dir_all(from.join("sub/empty")).unwrap();
        fs::write(from.join("sub/file"), b"con\0tent").unwrap();
        fs::write(from.join("run"), "#!").unwrap();
        fs::set_permissions(from.join("run"), PermissionsExt::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("sub/file", from.join("link")).unwrap();
        from
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        let from = tree(folder.path());
        let tarred = folder.path().join("d.tar");
        tarball::write(&from, File::create(&tarred).unwrap()).unwrap();
        for packing in [Packing::Tar(None), Packing::Tar(Some(0)), Packing::Zip] {
            for (index, found) in [Found::Path(&from), Found::Tarred(&tarred)].into_iter().enumerate() {
                let out = folder.path().join(format!("out-{packing:?}-{index}"));
                let made = pack(found, packing, &out, &packing.file("d", "/x/d")).unwrap();
                let to = out.join("to");
                unpack(&made, &to, Some(packing)).unwrap();
                assert_eq!(fs::read(to.join("sub/file")).unwrap(), b"con\0tent", "{packing:?} {index}");
                assert!(to.join("sub/empty").is_dir());
                assert_eq!(fs::metadata(to.join("run")).unwrap().permissions().mode() & 0o777, 0o755);
                assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("sub/file"));
            }
        }
        let made = pack(Found::Tarred(&tarred), Packing::None, &folder.path().join("n"), "d").unwrap();
        assert!(made.join("sub/file").is_file());
    }

    #[test]
    fn single_files_take_the_name_that_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("hello.txt");
        fs::write(&from, "hi").unwrap();
        let made = pack(Found::Path(&from), Packing::Tar(None), folder.path(), "a.tgz").unwrap();
        let to = folder.path().join("renamed");
        unpack(&made, &to, None).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "hi");
        let plain = folder.path().join("plain");
        fs::write(&plain, "no archive").unwrap();
        unpack(&plain, &folder.path().join("p2"), None).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("p2")).unwrap(), "no archive");
        fs::write(&plain, "no archive").unwrap();
        assert!(unpack(&plain, &folder.path().join("p3"), Some(Packing::Tar(None))).is_err());
        assert!(matches!(
            pack(Found::Path(&folder.path().join("none")), Packing::None, folder.path(), "x"),
            Err(Error::Absent(_))
        ));
    }

    #[test]
    fn ways_out_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        header.set_mode(0o644);
        header.as_gnu_mut().unwrap().name[..8].copy_from_slice(b"../../ev");
        header.set_cksum();
        archive.append(&header, &b"x"[..]).unwrap();
        let bytes = archive.into_inner().unwrap().finish().unwrap();
        let from = folder.path().join("bad.tgz");
        fs::write(&from, bytes).unwrap();
        let failed = unpack(&from, &folder.path().join("a/b/to"), None).unwrap_err();
        assert!(failed.to_string().contains("leads elsewhere"), "{failed}");
    }

    #[test]
    fn strategies_are_read() {
        let cases = [
            (json!({}), None, "n.tgz"),
            (json!({"archive": {"none": {}}}), Some(Packing::None), "out"),
            (json!({"archive": {"tar": {"compressionLevel": 0}}}), Some(Packing::Tar(Some(0))), "n.tgz"),
            (json!({"archive": {"tar": {}}}), Some(Packing::Tar(None)), "n.tgz"),
            (json!({"archive": {"zip": {}}}), Some(Packing::Zip), "n.zip"),
        ];
        for (artifact, expected, file) in cases {
            assert_eq!(Packing::of(&artifact), expected);
            assert_eq!(expected.unwrap_or(Packing::Tar(None)).file("n", "/tmp/out/"), file);
        }
    }
}
