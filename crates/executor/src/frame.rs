//! Frames on the executor's socket: messages as JSON, output and input as bytes.
//!
//! A frame is its length (four bytes, big endian, of what follows), one byte for its kind, and its content.

use std::fmt;

/// The longest content of a frame.
pub const BYTES_MAX: usize = 1024 * 1024 + HEADER;
/// The longest piece of data in one frame.
pub const DATA_MAX: usize = 1024 * 1024;
/// Process, stream and offset in front of the data.
const HEADER: usize = 17;
const LENGTH: usize = 4;

/// What the bytes of a data frame are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    /// What a process reads.
    Stdin,
    /// What it writes.
    Stdout,
    /// What it complains.
    Stderr,
    /// A file's content; the process number is the request's.
    File,
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A message in JSON.
    Message(Vec<u8>),
    /// Bytes of a stream.
    Data(Data),
}

/// Bytes of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// Whose.
    pub process: u64,
    /// Which.
    pub stream: Stream,
    /// How many bytes of the stream came before these.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Why bytes are no frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A frame longer than any may be.
    TooLong(usize),
    /// A kind nobody knows.
    UnknownKind(u8),
    /// Data without its header, or of a stream nobody knows.
    BadData,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(length) => write!(f, "a frame of {length} bytes is too long; at most {BYTES_MAX}"),
            Self::UnknownKind(kind) => write!(f, "frame of unknown kind {kind}"),
            Self::BadData => write!(f, "data frame without a valid header"),
        }
    }
}

impl std::error::Error for Error {}

impl Frame {
    /// The frame as it is sent.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Message(json) => framed(0, &[json]),
            Self::Data(Data { process, stream, offset, bytes }) => {
                framed(1, &[&process.to_be_bytes(), &[stream.number()], &offset.to_be_bytes(), bytes])
            }
        }
    }
}

fn framed(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut all = Vec::with_capacity(LENGTH + length);
    all.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    all.push(kind);
    for part in parts {
        all.extend_from_slice(part);
    }
    all
}

impl Stream {
    fn number(self) -> u8 {
        match self {
            Self::Stdin => 0,
            Self::Stdout => 1,
            Self::Stderr => 2,
            Self::File => 3,
        }
    }

    fn from_number(number: u8) -> Option<Self> {
        [Self::Stdin, Self::Stdout, Self::Stderr, Self::File].get(usize::from(number)).copied()
    }
}

/// Puts frames together from bytes as they arrive.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    read: usize,
}

impl Decoder {
    /// Takes what has arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.read);
        self.read = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame. After an error nothing more can be understood.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, Error> {
        let rest = &self.buffer[self.read..];
        let Some((length, rest)) = rest.split_first_chunk::<LENGTH>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > BYTES_MAX + 1 {
            return Err(Error::TooLong(length));
        }
        let Some(content) = rest.get(..length) else { return Ok(None) };
        let frame = decode(content)?;
        self.read += LENGTH + length;
        Ok(Some(frame))
    }
}

fn decode(content: &[u8]) -> Result<Frame, Error> {
    match content.split_first() {
        Some((0, json)) => Ok(Frame::Message(json.to_vec())),
        Some((1, data)) => {
            let (process, rest) = data.split_first_chunk::<8>().ok_or(Error::BadData)?;
            let (stream, rest) = rest.split_first().ok_or(Error::BadData)?;
            let (offset, bytes) = rest.split_first_chunk::<8>().ok_or(Error::BadData)?;
            Ok(Frame::Data(Data {
                process: u64::from_be_bytes(*process),
                stream: Stream::from_number(*stream).ok_or(Error::BadData)?,
                offset: u64::from_be_bytes(*offset),
                bytes: bytes.to_vec(),
            }))
        }
        Some((kind, _)) => Err(Error::UnknownKind(*kind)),
        None => Err(Error::BadData),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames() -> impl Strategy<Value = Frame> {
        let bytes = proptest::collection::vec(any::<u8>(), 0..300);
        prop_oneof![
            bytes.clone().prop_map(Frame::Message),
            (any::<u64>(), 0..4u8, any::<u64>(), bytes).prop_map(|(process, stream, offset, bytes)| {
                let stream = Stream::from_number(stream).unwrap();
                Frame::Data(Data { process, stream, offset, bytes })
            }),
        ]
    }

    proptest! {
        #[test]
        fn frames_survive_any_cut(all in proptest::collection::vec(frames(), 0..8), cut in 1..64usize) {
            let bytes: Vec<u8> = all.iter().flat_map(Frame::encode).collect();
            let mut decoder = Decoder::default();
            let mut read = Vec::new();
            for piece in bytes.chunks(cut) {
                decoder.push(piece);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    read.push(frame);
                }
            }
            prop_assert_eq!(read, all);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.next_frame() {}
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        for (bytes, expected) in [
            (vec![0xff, 0xff, 0xff, 0xff], Error::TooLong(0xffff_ffff)),
            (vec![0, 0, 0, 1, 9], Error::UnknownKind(9)),
            (vec![0, 0, 0, 2, 1, 0], Error::BadData),
            (vec![0, 0, 0, 0], Error::BadData),
        ] {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            assert_eq!(decoder.next_frame(), Err(expected));
        }
    }
}
