//! The container's log on disk, in files of bounded length.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use thane_executor::frame::Stream;
use thane_executor::log::{self, Lines};
use thane_executor::plan::LogLimits;

use super::{Doing, Result, now_ns};

/// The log of the container's own process.
pub(super) struct LogFile {
    directory: Arc<OwnedFd>,
    file: File,
    bytes: u64,
    limits: LogLimits,
    lines: [Lines; 2],
    scratch: Vec<u8>,
}

impl LogFile {
    pub(super) fn open(directory: Arc<OwnedFd>, limits: LogLimits) -> Result<Self> {
        let file = create(&directory).doing(|| "open the log".to_owned())?;
        let lines = [Lines::new(Stream::Stdout), Lines::new(Stream::Stderr)];
        Ok(Self { directory, file, bytes: 0, limits, lines, scratch: Vec::new() })
    }

    /// Writes what a stream said. A full disk loses lines, it does not stop the container.
    pub(super) fn write(&mut self, stream: usize, bytes: &[u8]) {
        self.lines[stream].push(bytes, now_ns(), &mut self.scratch);
        self.flush();
    }

    /// A stream has ended.
    pub(super) fn finish(&mut self, stream: usize) {
        self.lines[stream].finish(now_ns(), &mut self.scratch);
        self.flush();
    }

    fn flush(&mut self) {
        if self.scratch.is_empty() {
            return;
        }
        if self.file.write_all(&self.scratch).is_ok() {
            self.bytes += self.scratch.len() as u64;
        }
        self.scratch.clear();
        if self.bytes > self.limits.bytes_max {
            self.rotate();
        }
    }

    fn rotate(&mut self) {
        let last = self.limits.files_max.saturating_sub(1);
        let _ = unlinkat(&self.directory, log::rotated(last), AtFlags::empty());
        for number in (0..last).rev() {
            let _ = renameat(&self.directory, log::rotated(number), &self.directory, log::rotated(number + 1));
        }
        if let Ok(file) = create(&self.directory) {
            self.file = file;
            self.bytes = 0;
        }
    }
}

fn create(directory: &OwnedFd) -> rustix::io::Result<File> {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    openat(directory, log::FILE, flags, Mode::from_raw_mode(0o640)).map(File::from)
}

#[cfg(test)]
mod tests {
    use rustix::fs::CWD;

    use super::*;

    #[test]
    fn long_logs_are_put_aside_and_the_oldest_go() {
        let folder = tempfile::tempdir().unwrap();
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, folder.path(), flags, Mode::empty()).unwrap();
        let mut file = LogFile::open(Arc::new(directory), LogLimits { bytes_max: 200, files_max: 3 }).unwrap();
        for number in 0..40 {
            file.write(0, format!("line {number}\n").as_bytes());
        }
        let mut names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["log", "log.1", "log.2"]);
        let text = std::fs::read_to_string(folder.path().join("log.1")).unwrap();
        assert!(text.lines().count() > 1 && text.contains("stdout F line "), "{text}");
    }
}
