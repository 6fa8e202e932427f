//! Replies: where one ends, and what it says.

#[cfg(test)]
mod tests;

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;

use crate::{Malformed, number};

/// Digits of a length, and what stands beside them.
const HEADER_MAX: usize = 24;
/// Values within values.
const DEPTH_MAX: usize = 16;

/// Finds the end of a reply in bytes that come in pieces, and holds none of them.
#[derive(Debug, Clone, Default)]
pub struct Scanner {
    state: State,
    /// Values that are due before the reply is whole; none between replies.
    open: u64,
}

#[derive(Debug, Clone, Default)]
enum State {
    #[default]
    Type,
    /// A line whose content does not matter.
    Line,
    Header(Holds, Vec<u8>),
    Skip(u64),
}

#[derive(Debug, Clone, Copy)]
enum Holds {
    Bytes,
    Values,
    Pairs,
    /// Pairs that stand before the value they are about.
    Attributes,
}

/// What a scan found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scanned {
    /// So many bytes belong to the reply.
    pub used: usize,
    /// Whether it ends with them.
    pub is_whole: bool,
}

impl Scanner {
    /// Whether a reply has begun and not ended.
    pub fn is_within(&self) -> bool {
        self.open > 0
    }

    /// Goes on with the reply that is under way, or begins one, up to its end or that of the bytes.
    pub fn scan(&mut self, bytes: &[u8]) -> Result<Scanned, Malformed> {
        let mut at = 0;
        while at < bytes.len() {
            if self.open == 0 {
                self.open = 1;
            }
            at += self.step(&bytes[at..])?;
            if self.open == 0 {
                return Ok(Scanned { used: at, is_whole: true });
            }
        }
        Ok(Scanned { used: at, is_whole: false })
    }

    /// Takes at least one byte.
    fn step(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        match &mut self.state {
            State::Type => {
                self.state = match bytes[0] {
                    b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => State::Line,
                    b'$' | b'!' | b'=' => State::Header(Holds::Bytes, Vec::new()),
                    b'*' | b'~' | b'>' => State::Header(Holds::Values, Vec::new()),
                    b'%' => State::Header(Holds::Pairs, Vec::new()),
                    b'|' => State::Header(Holds::Attributes, Vec::new()),
                    _ => return Err(Malformed::Kind),
                };
                Ok(1)
            }
            State::Line => Ok(match memchr(b'\n', bytes) {
                Some(end) => {
                    self.value_ended();
                    end + 1
                }
                None => bytes.len(),
            }),
            State::Header(holds, text) => {
                let end = memchr(b'\n', bytes);
                let part = &bytes[..end.unwrap_or(bytes.len())];
                if text.len() + part.len() > HEADER_MAX {
                    return Err(Malformed::Length);
                }
                text.extend_from_slice(part);
                let Some(end) = end else { return Ok(bytes.len()) };
                let (holds, count) = (*holds, number(text.trim_ascii_end()).ok_or(Malformed::Length)?);
                self.header(holds, count)?;
                Ok(end + 1)
            }
            State::Skip(left) => {
                let here = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= here as u64;
                if *left == 0 {
                    self.value_ended();
                }
                Ok(here)
            }
        }
    }

    fn header(&mut self, holds: Holds, count: i64) -> Result<(), Malformed> {
        if count < -1 {
            return Err(Malformed::Length);
        }
        // Minus one stands for null, which has nothing behind it.
        let count = u64::try_from(count).ok();
        match (holds, count) {
            (Holds::Bytes, Some(length)) => {
                self.state = State::Skip(length.checked_add(2).ok_or(Malformed::Length)?);
                return Ok(());
            }
            (Holds::Values, Some(values)) => self.more(values)?,
            (Holds::Pairs, Some(pairs)) => self.more(pairs.saturating_mul(2))?,
            // What they are about is still due.
            (Holds::Attributes, Some(pairs)) => self.more(pairs.saturating_mul(2).saturating_add(1))?,
            (_, None) => {}
        }
        self.value_ended();
        Ok(())
    }

    fn more(&mut self, values: u64) -> Result<(), Malformed> {
        self.open = self.open.checked_add(values).ok_or(Malformed::Count)?;
        Ok(())
    }

    fn value_ended(&mut self) {
        self.state = State::Type;
        self.open -= 1;
    }
}

/// What a reply is, told by its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// An answer like any other.
    Plain,
    /// The command was refused.
    Error,
    /// One of `subscribe`, `unsubscribe` and their kin was done.
    Confirmation,
    /// Something nobody asked for: a message of a channel, and the like.
    Unasked,
}

/// Longer than the header and first word of anything a server says about channels.
const WORD_MAX: usize = 64;

/// Tells what a reply is by its first bytes; none if there are too few of them.
///
/// `subscribed` says that arrays, too, may be about channels, as they are in the first form for whoever has subscribed.
pub fn beginning(bytes: &[u8], subscribed: bool) -> Option<Beginning> {
    match bytes.first()? {
        b'-' | b'!' => Some(Beginning::Error),
        b'>' => word(bytes).map(|word| match word {
            Some(word) if is_confirmation(&word) => Beginning::Confirmation,
            _ => Beginning::Unasked,
        }),
        b'*' if subscribed => word(bytes).map(|word| match word.as_deref() {
            Some(b"message" | b"pmessage" | b"smessage") => Beginning::Unasked,
            Some(word) if is_confirmation(word) => Beginning::Confirmation,
            _ => Beginning::Plain,
        }),
        _ => Some(Beginning::Plain),
    }
}

fn is_confirmation(word: &[u8]) -> bool {
    word.strip_suffix(b"subscribe").is_some_and(|kind| [&b""[..], b"un", b"p", b"pun", b"s", b"sun"].contains(&kind))
}

/// The first word of an array; the outer none if it has not come yet, the inner if there is none.
#[expect(clippy::option_option, reason = "not yet and not at all are two things")]
fn word(bytes: &[u8]) -> Option<Option<Vec<u8>>> {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let whole = |line: &[u8]| line.ends_with(b"\n");
    let found = (|| {
        lines.next().filter(|line| whole(line))?;
        let head = lines.next().filter(|line| whole(line))?;
        match head.first() {
            Some(b'+') => Some(Some(head[1..].trim_ascii_end().to_vec())),
            Some(b'$') => Some(Some(lines.next().filter(|line| whole(line))?.trim_ascii_end().to_vec())),
            _ => Some(None),
        }
    })();
    if found.is_none() && bytes.len() > WORD_MAX { Some(None) } else { found }
}

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Text or bytes.
    Bytes(Bytes),
    /// The command was refused.
    Error(String),
    /// A number.
    Integer(i64),
    /// Nothing is there.
    Null,
    /// Several values; also what nobody asked for.
    List(Vec<Value>),
}

impl Value {
    /// Reads one whole reply.
    pub fn read(bytes: &mut Bytes) -> Result<Self, Malformed> {
        read(bytes, 0)
    }
}

fn read(bytes: &mut Bytes, depth: usize) -> Result<Value, Malformed> {
    if depth > DEPTH_MAX {
        return Err(Malformed::Size);
    }
    let end = memchr(b'\n', bytes).ok_or(Malformed::Line)?;
    let line = bytes.split_to(end + 1);
    let kind = *line.first().ok_or(Malformed::Kind)?;
    let text = line.slice(1..).slice_ref(line[1..].trim_ascii_end());
    let count = || number(&text).ok_or(Malformed::Length);
    match kind {
        b'+' | b'#' | b',' | b'(' => Ok(Value::Bytes(text)),
        b'-' => Ok(Value::Error(String::from_utf8_lossy(&text).into_owned())),
        b':' => Ok(Value::Integer(count()?)),
        b'_' => Ok(Value::Null),
        b'$' | b'=' | b'!' => {
            let Ok(length) = usize::try_from(count()?) else { return Ok(Value::Null) };
            if bytes.len() < length.saturating_add(2) {
                return Err(Malformed::Length);
            }
            let content = bytes.split_to(length);
            bytes.advance(2);
            Ok(if kind == b'!' {
                Value::Error(String::from_utf8_lossy(&content).into_owned())
            } else {
                Value::Bytes(content)
            })
        }
        b'*' | b'~' | b'>' => match usize::try_from(count()?) {
            Ok(values) => list(bytes, values, depth),
            Err(_) => Ok(Value::Null),
        },
        b'%' => list(bytes, usize::try_from(count()?).unwrap_or_default().saturating_mul(2), depth),
        b'|' => {
            list(bytes, usize::try_from(count()?).unwrap_or_default().saturating_mul(2), depth)?;
            read(bytes, depth + 1)
        }
        _ => Err(Malformed::Kind),
    }
}

fn list(bytes: &mut Bytes, values: usize, depth: usize) -> Result<Value, Malformed> {
    // Each value has at least three bytes.
    if values > bytes.len() {
        return Err(Malformed::Count);
    }
    (0..values).map(|_| read(bytes, depth + 1)).collect::<Result<_, _>>().map(Value::List)
}

/// Takes bytes as they come and gives whole replies.
#[derive(Debug)]
pub struct Replies {
    buffer: BytesMut,
    scanner: Scanner,
    scanned: usize,
    bytes_max: usize,
    /// The reply under way is too large to be held.
    is_dropped: bool,
}

impl Replies {
    /// Replies of at most so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { buffer: BytesMut::new(), scanner: Scanner::default(), scanned: 0, bytes_max, is_dropped: false }
    }

    /// Where bytes are to be put.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next reply, if it is whole. One that is too large is dropped as it comes, and an error at its end; what comes
    /// after it can be read.
    pub fn next_reply(&mut self) -> Result<Option<Value>, Malformed> {
        let scanned = self.scanner.scan(&self.buffer[self.scanned..])?;
        self.scanned += scanned.used;
        if self.is_dropped || self.scanned > self.bytes_max {
            self.buffer.advance(std::mem::take(&mut self.scanned));
            self.is_dropped = !scanned.is_whole;
            return if scanned.is_whole { Err(Malformed::Size) } else { Ok(None) };
        }
        if !scanned.is_whole {
            return Ok(None);
        }
        let mut whole = self.buffer.split_to(self.scanned).freeze();
        self.scanned = 0;
        Value::read(&mut whole).map(Some)
    }
}
