//! Files and directories as tar archives, without anything that means something on one machine only.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use tar::{Builder, EntryType, Header};

/// Directories below one another.
const DEPTH_MAX: usize = 256;

/// Writes an archive whose one entry at the top is what the path leads to, under its own name.
pub fn write<W: Write>(from: &Path, to: W) -> io::Result<W> {
    // Where the path itself is a link, what it leads to is meant.
    let found = fs::metadata(from)?;
    let mut archive = Builder::new(to);
    let name = from.file_name().map_or_else(|| PathBuf::from("root"), PathBuf::from);
    if found.is_dir() {
        directory(&mut archive, from, &name, 0)?;
    } else {
        file(&mut archive, from, &name)?;
    }
    archive.into_inner()
}

fn directory<W: Write>(archive: &mut Builder<W>, from: &Path, name: &Path, depth: usize) -> io::Result<()> {
    if depth > DEPTH_MAX {
        return Err(io::Error::other(format!("{} is more than {DEPTH_MAX} directories deep", from.display())));
    }
    let mut header = header(&fs::metadata(from)?, EntryType::Directory, 0);
    archive.append_data(&mut header, name, io::empty())?;
    let mut paths = fs::read_dir(from)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        let name = name.join(path.file_name().unwrap_or_default());
        let found = fs::symlink_metadata(&path)?;
        if found.is_dir() {
            directory(archive, &path, &name, depth + 1)?;
        } else if found.is_symlink() {
            let mut header = self::header(&found, EntryType::Symlink, 0);
            archive.append_link(&mut header, name, fs::read_link(&path)?)?;
        } else if found.is_file() {
            file(archive, &path, &name)?;
        }
        // Sockets, pipes and devices mean nothing elsewhere.
    }
    Ok(())
}

fn file<W: Write>(archive: &mut Builder<W>, from: &Path, name: &Path) -> io::Result<()> {
    let source = File::open(from)?;
    let found = source.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("is neither a file nor a directory"));
    }
    let mut header = header(&found, EntryType::Regular, found.len());
    // Somebody may still write to it: exactly as much as was announced goes in.
    archive.append_data(&mut header, name, source.take(found.len()).chain(io::repeat(0)).take(found.len()))
}

fn header(found: &fs::Metadata, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_metadata_in_mode(found, tar::HeaderMode::Complete);
    header.set_uid(0);
    header.set_gid(0);
    header.set_entry_type(kind);
    header.set_size(size);
    header
}
