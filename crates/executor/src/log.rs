//! A container's log: lines as container runtimes write them for a kubelet.
//!
//! `2026-01-02T03:04:05.000000006Z stdout F a whole line`, or `P` for a part that the next line of the same stream goes
//! on with.

mod time;

pub use time::{parse_time, render_time};

use crate::frame::Stream;

/// The file in a container's run directory.
pub const FILE: &str = "log";
/// A line longer than this is written in parts.
pub const LINE_MAX: usize = 16 * 1024;

/// One line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line<'a> {
    /// When it was read, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The time as it was written.
    pub time: &'a str,
    /// From which stream.
    pub stream: Stream,
    /// Whether the line ends here.
    pub whole: bool,
    /// What was said.
    pub text: &'a [u8],
}

/// The line, if it is one (without its end).
pub fn parse(line: &[u8]) -> Option<Line<'_>> {
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let time = std::str::from_utf8(parts.next()?).ok()?;
    let stream = match parts.next()? {
        b"stdout" => Stream::Stdout,
        b"stderr" => Stream::Stderr,
        _ => return None,
    };
    let whole = match parts.next()? {
        b"F" => true,
        b"P" => false,
        _ => return None,
    };
    Some(Line { time_ns: parse_time(time)?, time, stream, whole, text: parts.next()? })
}

/// The name of the file that was put aside `number` times.
pub fn rotated(number: u32) -> String {
    if number == 0 { FILE.to_owned() } else { format!("{FILE}.{number}") }
}

/// Turns the bytes of one stream into lines.
#[derive(Debug)]
pub struct Lines {
    stream: Stream,
    rest: Vec<u8>,
}

impl Lines {
    /// Nothing yet.
    pub fn new(stream: Stream) -> Self {
        Self { stream, rest: Vec::new() }
    }

    /// Adds bytes; whole lines and full parts are appended to `out`.
    pub fn push(&mut self, mut bytes: &[u8], time_ns: u64, out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            let room = LINE_MAX - self.rest.len();
            let (head, _) = bytes.split_at(bytes.len().min(room));
            match head.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    self.rest.extend_from_slice(&head[..end]);
                    self.write(true, time_ns, out);
                    bytes = &bytes[end + 1..];
                }
                None => {
                    self.rest.extend_from_slice(head);
                    bytes = &bytes[head.len()..];
                    if self.rest.len() == LINE_MAX {
                        self.write(false, time_ns, out);
                    }
                }
            }
        }
    }

    /// The stream has ended: what is left is written without an end of line.
    pub fn finish(&mut self, time_ns: u64, out: &mut Vec<u8>) {
        if !self.rest.is_empty() {
            self.write(false, time_ns, out);
        }
    }

    fn write(&mut self, whole: bool, time_ns: u64, out: &mut Vec<u8>) {
        let stream = if self.stream == Stream::Stderr { "stderr" } else { "stdout" };
        let tag = if whole { 'F' } else { 'P' };
        out.extend_from_slice(format!("{} {stream} {tag} ", render_time(time_ns)).as_bytes());
        out.append(&mut self.rest);
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(text: &[u8]) -> Vec<u8> {
        let mut all = Vec::new();
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line = parse(line).unwrap();
            all.extend_from_slice(line.text);
            if line.whole {
                all.push(b'\n');
            }
        }
        all
    }

    proptest! {
        #[test]
        fn what_was_written_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..2000), cut in 1..99usize) {
            let mut lines = Lines::new(Stream::Stdout);
            let mut out = Vec::new();
            for piece in bytes.chunks(cut) {
                lines.push(piece, 1_700_000_000_000_000_001, &mut out);
            }
            lines.finish(2, &mut out);
            prop_assert_eq!(told(&out), bytes);
        }
    }

    #[test]
    fn long_lines_come_in_parts() {
        let mut lines = Lines::new(Stream::Stderr);
        let mut out = Vec::new();
        let long = vec![b'x'; LINE_MAX * 2 + 5];
        lines.push(&long, 0, &mut out);
        lines.push(b"\n", 0, &mut out);
        let tags: Vec<bool> = out.split(|byte| *byte == b'\n').filter_map(parse).map(|line| line.whole).collect();
        assert_eq!(tags, [false, false, true]);
        assert!(out.starts_with(b"1970-01-01T00:00:00.000000000Z stderr P xxx"));
    }
}
