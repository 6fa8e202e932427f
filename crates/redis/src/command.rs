//! Commands: what a client asks, told apart without holding what nobody looks into.

#[cfg(test)]
mod tests;

use bytes::{Bytes, BytesMut};
use memchr::memchr;

use crate::{Malformed, number};

/// Words of one command, as Redis itself has it.
const WORDS_MAX: i64 = 1024 * 1024;
/// Bytes of one word, as Redis itself has it.
const WORD_BYTES_MAX: i64 = 512 * 1024 * 1024;
/// Bytes of a line, and of a command that is looked into.
const INLINE_MAX: usize = 64 * 1024;
const WHOLE_MAX: usize = 1024 * 1024;
/// No command of interest has a longer name.
const NAME_MAX: i64 = 32;
const HEADER_MAX: usize = 32;

/// A part of what a client sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A whole command of interest, and the bytes it came as.
    Whole(Vec<Bytes>, Bytes),
    /// The beginning of any other command; it may be all of it.
    Begins(Bytes),
    /// More of that command.
    More(Bytes),
    /// Bytes that are no command, such as an empty line.
    Nothing(Bytes),
}

/// Takes bytes as they come and gives commands.
#[derive(Debug)]
pub struct Commands {
    buffer: BytesMut,
    state: State,
    /// Whether a command is looked into, told by its name in lower case.
    of_interest: fn(&[u8]) -> bool,
    /// What waits is no piece yet.
    is_unfinished: bool,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Start,
    /// Within a command that nobody looks into.
    Within {
        words: i64,
        bytes: usize,
    },
}

impl Commands {
    /// Commands of interest come whole.
    pub fn new(of_interest: fn(&[u8]) -> bool) -> Self {
        Self { buffer: BytesMut::new(), state: State::Start, of_interest, is_unfinished: false }
    }

    /// Takes bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.is_unfinished = false;
        self.buffer.extend_from_slice(bytes);
    }

    /// Bytes that wait, of which no piece could be made or was asked for yet.
    pub fn waiting(&self) -> usize {
        self.buffer.len()
    }

    /// Whether nothing comes of what waits unless there is more of it; that is bounded, too.
    pub fn wants_more(&self) -> bool {
        self.is_unfinished
    }

    /// Everything that waits, as it is.
    pub fn rest(&mut self) -> Bytes {
        self.buffer.split().freeze()
    }

    /// The next piece; none until more bytes have come.
    pub fn next_piece(&mut self) -> Result<Option<Piece>, Malformed> {
        let piece = self.piece()?;
        self.is_unfinished = piece.is_none();
        Ok(piece)
    }

    fn piece(&mut self) -> Result<Option<Piece>, Malformed> {
        match self.state {
            State::Within { words, bytes } => self.within(words, bytes),
            State::Start => match self.buffer.first() {
                None => Ok(None),
                Some(b'*') => self.array(),
                Some(_) => self.inline(),
            },
        }
    }

    fn within(&mut self, mut words: i64, mut bytes: usize) -> Result<Option<Piece>, Malformed> {
        let mut at = 0;
        loop {
            let here = bytes.min(self.buffer.len() - at);
            at += here;
            bytes -= here;
            if bytes > 0 || words == 0 {
                break;
            }
            let Some((length, used)) = header(&self.buffer[at..], b'$')? else { break };
            at += used;
            words -= 1;
            bytes = content(length)?;
        }
        self.state = if words == 0 && bytes == 0 { State::Start } else { State::Within { words, bytes } };
        Ok((at > 0).then(|| Piece::More(self.buffer.split_to(at).freeze())))
    }

    fn array(&mut self) -> Result<Option<Piece>, Malformed> {
        let Some((words, mut at)) = header(&self.buffer, b'*')? else { return Ok(None) };
        if words > WORDS_MAX {
            return Err(Malformed::Count);
        }
        if words <= 0 {
            return Ok(Some(Piece::Nothing(self.buffer.split_to(at).freeze())));
        }
        let Some((length, used)) = header(&self.buffer[at..], b'$')? else { return Ok(None) };
        let bytes = content(length)?;
        at += used;
        if length <= NAME_MAX {
            if self.buffer.len() < at + bytes {
                return Ok(None);
            }
            let name = self.buffer[at..at + bytes - 2].to_ascii_lowercase();
            if (self.of_interest)(&name) {
                return self.whole(words);
            }
        }
        // A word that has not come whole is a part of what follows.
        let here = bytes.min(self.buffer.len() - at);
        let (words, bytes) = (words - 1, bytes - here);
        self.state = if words == 0 && bytes == 0 { State::Start } else { State::Within { words, bytes } };
        Ok(Some(Piece::Begins(self.buffer.split_to(at + here).freeze())))
    }

    fn whole(&mut self, words: i64) -> Result<Option<Piece>, Malformed> {
        let Some((_, mut at)) = header(&self.buffer, b'*')? else { return Ok(None) };
        let mut places = Vec::new();
        for _ in 0..words {
            let Some((length, used)) = header(&self.buffer[at..], b'$')? else { return self.unfinished() };
            let bytes = content(length)?;
            at += used;
            places.push(at..at + bytes - 2);
            at += bytes;
            if at > WHOLE_MAX {
                return Err(Malformed::Size);
            }
            if at > self.buffer.len() {
                return self.unfinished();
            }
        }
        let raw = self.buffer.split_to(at).freeze();
        let words = places.into_iter().map(|place| raw.slice(place)).collect();
        Ok(Some(Piece::Whole(words, raw)))
    }

    fn unfinished(&self) -> Result<Option<Piece>, Malformed> {
        if self.buffer.len() > WHOLE_MAX { Err(Malformed::Size) } else { Ok(None) }
    }

    /// A command as people type it: words in a line.
    fn inline(&mut self) -> Result<Option<Piece>, Malformed> {
        let end = memchr(b'\n', &self.buffer);
        if end.unwrap_or(self.buffer.len()) > INLINE_MAX {
            return Err(Malformed::Line);
        }
        let Some(end) = end else { return Ok(None) };
        // Where Redis sees other words than are seen here, replies would no longer be those of the commands.
        if !self.buffer[..end].iter().copied().all(is_plain) {
            return Err(Malformed::Inline);
        }
        let raw = self.buffer.split_to(end + 1).freeze();
        let mut words = raw.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).peekable();
        let Some(name) = words.peek() else { return Ok(Some(Piece::Nothing(raw))) };
        if !(self.of_interest)(&name.to_ascii_lowercase()) {
            return Ok(Some(Piece::Begins(raw)));
        }
        let words = words.map(|word| raw.slice_ref(word)).collect();
        Ok(Some(Piece::Whole(words, raw)))
    }
}

/// Whether a byte of a line is a blank, or a part of a word, for whoever reads it.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\r' | b' '..) && !matches!(byte, b'"' | b'\'' | 0x7f)
}

/// The number of a header, and its bytes; none until it has come.
fn header(bytes: &[u8], kind: u8) -> Result<Option<(i64, usize)>, Malformed> {
    let malformed = if kind == b'*' { Malformed::Count } else { Malformed::Length };
    match bytes.first() {
        None => return Ok(None),
        Some(first) if *first != kind => return Err(Malformed::Unexpected),
        Some(_) => {}
    }
    let Some(end) = memchr(b'\n', &bytes[..bytes.len().min(HEADER_MAX)]) else {
        return if bytes.len() >= HEADER_MAX { Err(malformed) } else { Ok(None) };
    };
    let count = bytes[1..end].strip_suffix(b"\r").and_then(number).ok_or(malformed)?;
    Ok(Some((count, end + 1)))
}

/// Bytes of a word and of the end of its line.
fn content(length: i64) -> Result<usize, Malformed> {
    if length > WORD_BYTES_MAX {
        return Err(Malformed::Length);
    }
    usize::try_from(length).map(|length| length + 2).map_err(|_| Malformed::Length)
}
