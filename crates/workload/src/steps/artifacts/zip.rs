//! Zip archives: files stored or deflated, with their permissions, up to 4 GiB.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

use super::archive::ENTRIES_MAX;

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
/// The end, and the longest comment behind it.
const END_MAX: u64 = 22 + 65_535;
/// Names are UTF-8.
const UTF8: u16 = 1 << 11;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// 1 January 1980, so that the same files make the same archive.
const DATE: u16 = 0x21;
const LINK: u32 = 0o120_000;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const KIND: u32 = 0o170_000;
/// The longest target of a link.
const TARGET_MAX: u64 = 4096;

/// One file, as the directory at the end lists it.
#[derive(Debug, Clone)]
struct Entry {
    name: String,
    method: u16,
    crc: u32,
    packed: u32,
    size: u32,
    offset: u32,
    mode: u32,
}

/// Writes what is at a path, under its own name.
pub(super) fn write(from: &Path, to: &Path) -> io::Result<()> {
    let mut writer = Writer { out: BufWriter::new(File::create(to)?), entries: Vec::new() };
    let name = from.file_name().unwrap_or_default().to_string_lossy().into_owned();
    writer.add(from, &name, true)?;
    writer.finish()
}

struct Writer {
    out: BufWriter<File>,
    entries: Vec<Entry>,
}

impl Writer {
    fn add(&mut self, from: &Path, name: &str, follows: bool) -> io::Result<()> {
        if self.entries.len() >= usize::from(u16::MAX) {
            return Err(too_large());
        }
        let found = if follows { fs::metadata(from)? } else { fs::symlink_metadata(from)? };
        let mode = found.permissions().mode() & 0o7777;
        if found.is_dir() {
            self.entry(&format!("{name}/"), DIRECTORY | mode, &mut io::empty(), STORED)?;
            let mut paths = fs::read_dir(from)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
            paths.sort();
            for path in paths {
                let below = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                self.add(&path, &format!("{name}/{below}"), false)?;
            }
            Ok(())
        } else if found.is_symlink() {
            let target = fs::read_link(from)?;
            self.entry(name, LINK | 0o777, &mut target.as_os_str().as_bytes(), STORED)
        } else if found.is_file() {
            self.entry(name, REGULAR | mode, &mut File::open(from)?, DEFLATED)
        } else {
            Ok(())
        }
    }

    fn entry(&mut self, name: &str, mode: u32, content: &mut dyn Read, method: u16) -> io::Result<()> {
        let offset = u32::try_from(self.out.stream_position()?).map_err(|_| too_large())?;
        let mut entry = Entry { name: name.to_owned(), method, crc: 0, packed: 0, size: 0, offset, mode };
        self.local(&entry)?;
        let begin = self.out.stream_position()?;
        let mut crc = Crc::new();
        let mut summed = Summed { from: content, crc: &mut crc };
        if method == DEFLATED {
            let mut packed = DeflateEncoder::new(&mut self.out, Compression::default());
            io::copy(&mut summed, &mut packed)?;
            packed.finish()?;
        } else {
            io::copy(&mut summed, &mut self.out)?;
        }
        let end = self.out.stream_position()?;
        entry.crc = crc.sum();
        entry.packed = u32::try_from(end - begin).map_err(|_| too_large())?;
        entry.size = crc.amount();
        // What was only known afterwards.
        self.out.seek(SeekFrom::Start(u64::from(offset)))?;
        self.local(&entry)?;
        self.out.seek(SeekFrom::Start(end))?;
        self.entries.push(entry);
        Ok(())
    }

    fn local(&mut self, entry: &Entry) -> io::Result<()> {
        self.numbers(&[LOCAL])?;
        self.shorts(&[20, UTF8, entry.method, 0, DATE])?;
        self.numbers(&[entry.crc, entry.packed, entry.size])?;
        self.shorts(&[length(&entry.name)?, 0])?;
        self.out.write_all(entry.name.as_bytes())
    }

    fn finish(mut self) -> io::Result<()> {
        let begin = u32::try_from(self.out.stream_position()?).map_err(|_| too_large())?;
        let entries = std::mem::take(&mut self.entries);
        for entry in &entries {
            self.numbers(&[CENTRAL])?;
            // Made on Unix, whose permissions it has.
            self.shorts(&[0x0314, 20, UTF8, entry.method, 0, DATE])?;
            self.numbers(&[entry.crc, entry.packed, entry.size])?;
            self.shorts(&[length(&entry.name)?, 0, 0, 0, 0])?;
            self.numbers(&[entry.mode << 16, entry.offset])?;
            self.out.write_all(entry.name.as_bytes())?;
        }
        let end = u32::try_from(self.out.stream_position()?).map_err(|_| too_large())?;
        let count = u16::try_from(entries.len()).map_err(|_| too_large())?;
        self.numbers(&[END])?;
        self.shorts(&[0, 0, count, count])?;
        self.numbers(&[end - begin, begin])?;
        self.shorts(&[0])?;
        self.out.flush()
    }

    fn numbers(&mut self, numbers: &[u32]) -> io::Result<()> {
        numbers.iter().try_for_each(|number| self.out.write_all(&number.to_le_bytes()))
    }

    fn shorts(&mut self, numbers: &[u16]) -> io::Result<()> {
        numbers.iter().try_for_each(|number| self.out.write_all(&number.to_le_bytes()))
    }
}

struct Summed<'a> {
    from: &'a mut dyn Read,
    crc: &'a mut Crc,
}

impl Read for Summed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.crc.update(&buffer[..count]);
        Ok(count)
    }
}

fn length(name: &str) -> io::Result<u16> {
    u16::try_from(name.len()).map_err(|_| too_large())
}

fn too_large() -> io::Error {
    io::Error::other("it is too large for a zip archive")
}

fn broken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("no zip archive that is understood: {why}"))
}

/// Unpacks an archive into a directory; what would land outside is refused.
pub(super) fn read(from: &Path, into: &Path) -> io::Result<()> {
    let mut file = BufReader::new(File::open(from)?);
    let entries = directory(&mut file)?;
    let mut links: Vec<(PathBuf, PathBuf)> = Vec::new();
    for entry in entries {
        let path = place(into, &entry.name)?;
        if entry.name.ends_with('/') {
            fs::create_dir_all(&path)?;
            continue;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let content = content(&mut file, &entry)?;
        if entry.mode & KIND == LINK {
            let mut target = Vec::new();
            content.take(TARGET_MAX).read_to_end(&mut target)?;
            links.push((path, PathBuf::from(std::ffi::OsStr::from_bytes(&target))));
            continue;
        }
        let mut crc = Crc::new();
        let mut content = content;
        let mut to = File::create(&path)?;
        io::copy(&mut Summed { from: &mut content, crc: &mut crc }, &mut to)?;
        if crc.sum() != entry.crc || crc.amount() != entry.size {
            return Err(broken("a file is not what it should be"));
        }
        let mode = if entry.mode == 0 { 0o644 } else { entry.mode & 0o777 };
        fs::set_permissions(&path, PermissionsExt::from_mode(mode))?;
    }
    // Last, so that no file is written through one.
    for (path, target) in links {
        std::os::unix::fs::symlink(target, path)?;
    }
    Ok(())
}

fn place(into: &Path, name: &str) -> io::Result<PathBuf> {
    if name.starts_with('/') || name.contains('\0') || name.split('/').any(|part| part == "..") {
        return Err(broken(&format!("{name:?} leads elsewhere")));
    }
    Ok(into.join(name))
}

fn content<'a>(file: &'a mut BufReader<File>, entry: &Entry) -> io::Result<Box<dyn Read + 'a>> {
    file.seek(SeekFrom::Start(u64::from(entry.offset)))?;
    let mut header = [0; 30];
    file.read_exact(&mut header)?;
    if number(&header, 0) != LOCAL {
        return Err(broken("a file is not where it should be"));
    }
    let skipped = i64::from(short(&header, 26)) + i64::from(short(&header, 28));
    file.seek_relative(skipped)?;
    let packed = file.take(u64::from(entry.packed));
    Ok(match entry.method {
        STORED => Box::new(packed),
        // One byte more than it should have shows that it has more.
        DEFLATED => Box::new(DeflateDecoder::new(packed).take(u64::from(entry.size) + 1)),
        other => return Err(broken(&format!("compression {other} is unknown"))),
    })
}

fn directory(file: &mut BufReader<File>) -> io::Result<Vec<Entry>> {
    let length = file.seek(SeekFrom::End(0))?;
    let tail = length.min(END_MAX);
    file.seek(SeekFrom::Start(length - tail))?;
    let mut bytes = Vec::new();
    file.take(tail).read_to_end(&mut bytes)?;
    let at = (0..bytes.len().saturating_sub(21)).rev().find(|at| number(&bytes, *at) == END);
    let at = at.ok_or_else(|| broken("it has no end"))?;
    let (count, size, begin) = (short(&bytes, at + 10), number(&bytes, at + 12), number(&bytes, at + 16));
    if count == u16::MAX || begin == u32::MAX || usize::from(count) > ENTRIES_MAX {
        return Err(broken("it has too many files"));
    }
    file.seek(SeekFrom::Start(u64::from(begin)))?;
    let mut list = Vec::new();
    file.take(u64::from(size)).read_to_end(&mut list)?;
    let mut entries = Vec::new();
    let mut rest = list.as_slice();
    for _ in 0..count {
        let (names, extra, comment) = (short(rest, 28), short(rest, 30), short(rest, 32));
        let end = 46 + usize::from(names);
        let name = rest.get(46..end).filter(|_| number(rest, 0) == CENTRAL).ok_or_else(|| broken("its list is cut"))?;
        let is_unix = short(rest, 4) >> 8 == 3;
        entries.push(Entry {
            name: String::from_utf8_lossy(name).into_owned(),
            method: short(rest, 10),
            crc: number(rest, 16),
            packed: number(rest, 20),
            size: number(rest, 24),
            offset: number(rest, 42),
            mode: if is_unix { number(rest, 38) >> 16 } else { 0 },
        });
        rest = rest.get(end + usize::from(extra) + usize::from(comment)..).ok_or_else(|| broken("its list is cut"))?;
    }
    Ok(entries)
}

fn short(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |two| u16::from_le_bytes([two[0], two[1]]))
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from(short(bytes, at)) | u32::from(short(bytes, at + 2)) << 16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_programs_read_what_we_write_and_the_other_way_round() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("d");
        fs::create_dir(&from).unwrap();
        fs::write(from.join("a.txt"), "hello ".repeat(1000)).unwrap();
        let ours = folder.path().join("ours.zip");
        write(&from, &ours).unwrap();
        let script = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1])\nassert z.testzip() is None\n\
                      assert z.read('d/a.txt') == b'hello ' * 1000\n\
                      w = zipfile.ZipFile(sys.argv[2], 'w', zipfile.ZIP_DEFLATED)\nw.writestr('x/b.txt', 'b' * 5000)\nw.close()\n";
        let theirs = folder.path().join("theirs.zip");
        let ran = std::process::Command::new("python3").args(["-c", script]).arg(&ours).arg(&theirs).status();
        assert!(ran.unwrap().success());
        let to = folder.path().join("to");
        fs::create_dir(&to).unwrap();
        read(&theirs, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("x/b.txt")).unwrap(), "b".repeat(5000));
    }

    #[test]
    fn ways_out_are_refused() {
        for name in ["../x", "/x", "a/../../x", "a\0"] {
            assert!(place(Path::new("/r"), name).is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn damaged_archives_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0usize..400, with: u8) {
            let folder = tempfile::tempdir().unwrap();
            let (from, zip, to) = (folder.path().join("f"), folder.path().join("z"), folder.path().join("to"));
            fs::write(&from, &bytes).unwrap();
            write(&from, &zip).unwrap();
            let mut damaged = fs::read(&zip).unwrap();
            let at = at % damaged.len();
            damaged[at] = with;
            fs::write(&zip, damaged).unwrap();
            fs::create_dir(&to).unwrap();
            let _ = read(&zip, &to);
        }
    }
}
