//! gRPC in WebSocket messages (`grpc-ws`): each binary message is one frame, headers and trailers are frames too.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue};

/// The WebSocket protocol both sides agree on.
pub const PROTOCOL: &str = "grpc-ws";
/// Bytes before the body of a frame: a flag and a length.
pub const PREFIX: usize = 5;
/// The flag of a frame that holds headers or trailers; alone and empty it is the end of what a client sends.
const METADATA: u8 = 0x80;
/// The flag of a frame whose body is compressed.
const COMPRESSED: u8 = 0x01;
/// Bytes of headers or trailers.
const METADATA_MAX: usize = 64 * 1024;

/// One frame.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// A message of gRPC, with its prefix.
    Data(Bytes),
    /// Headers or trailers.
    Metadata(HeaderMap),
    /// The end of what a client sends.
    End,
}

/// What is wrong with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length it gives is not the length it has.
    #[error("the frame's length is wrong")]
    Length,
    /// Its flag means nothing.
    #[error("the frame's flag {0:#04x} is unknown")]
    Flag(u8),
    /// It is longer than allowed.
    #[error("the frame has {0} bytes, which is too long")]
    TooLong(usize),
    /// Its headers cannot be read.
    #[error("the frame's headers are not readable")]
    Headers,
}

impl Frame {
    /// Reads one WebSocket message.
    pub fn read(message: Bytes, max: usize) -> Result<Self, FrameError> {
        let Some((prefix, body)) = message.split_first_chunk::<PREFIX>() else { return Err(FrameError::Length) };
        let (flag, length) = read_prefix(*prefix);
        if length != body.len() {
            return Err(FrameError::Length);
        }
        match flag {
            METADATA if length == 0 => Ok(Self::End),
            METADATA if length > METADATA_MAX => Err(FrameError::TooLong(length)),
            METADATA => read_headers(body).map(Self::Metadata).ok_or(FrameError::Headers),
            0 | COMPRESSED if length > max => Err(FrameError::TooLong(length)),
            0 | COMPRESSED => Ok(Self::Data(message)),
            unknown => Err(FrameError::Flag(unknown)),
        }
    }

    /// The WebSocket message.
    pub fn write(&self) -> Bytes {
        match self {
            Self::Data(message) => message.clone(),
            Self::End => Bytes::from_static(&[METADATA, 0, 0, 0, 0]),
            Self::Metadata(headers) => {
                let body = write_headers(headers);
                let mut frame = BytesMut::with_capacity(PREFIX + body.len());
                frame.put_u8(METADATA);
                // Headers are bounded by whoever parsed them, far below four gigabytes.
                frame.put_u32(u32::try_from(body.len()).unwrap_or(u32::MAX));
                frame.extend_from_slice(&body);
                frame.freeze()
            }
        }
    }
}

fn read_prefix(prefix: [u8; PREFIX]) -> (u8, usize) {
    let [flag, length @ ..] = prefix;
    (flag, usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX))
}

fn write_headers(headers: &HeaderMap) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, value) in headers {
        text.extend(canonical(name.as_str()).bytes());
        text.extend(b": ");
        text.extend(value.as_bytes());
        text.extend(b"\r\n");
    }
    text
}

/// A header's name as HTTP/1.1 usually writes it: `Grpc-Status`.
fn canonical(name: &str) -> String {
    let mut upper = true;
    let letters = name.chars().map(|letter| {
        let written = if upper { letter.to_ascii_uppercase() } else { letter };
        upper = letter == '-';
        written
    });
    letters.collect()
}

fn read_headers(body: &[u8]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for line in body.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?;
        headers.try_append(name, value).ok()?;
    }
    Some(headers)
}

/// Cuts a body into the frames it consists of, wherever its pieces begin and end.
#[derive(Debug)]
pub struct Cutter {
    buffer: BytesMut,
    max: usize,
}

impl Cutter {
    /// Frames have at most `max` bytes after their prefix.
    pub fn new(max: usize) -> Self {
        Self { buffer: BytesMut::new(), max }
    }

    /// Takes a piece of the body.
    pub fn push(&mut self, piece: impl Buf) {
        self.buffer.put(piece);
    }

    /// The next whole frame, if it is there.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(prefix) = self.buffer.first_chunk::<PREFIX>() else { return Ok(None) };
        let (_, length) = read_prefix(*prefix);
        if length > self.max {
            return Err(FrameError::TooLong(length));
        }
        if self.buffer.len() < PREFIX + length {
            return Ok(None);
        }
        Frame::read(self.buffer.split_to(PREFIX + length).freeze(), self.max).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let header = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(header).collect()
    }

    #[test]
    fn frames_byte_by_byte() {
        let status = headers(&[("grpc-status", "0"), ("grpc-message", "fine")]);
        let cases: [(&[u8], Frame); 4] = [
            (b"\x80\0\0\0\0", Frame::End),
            (b"\0\0\0\0\x02hi", Frame::Data(Bytes::from_static(b"\0\0\0\0\x02hi"))),
            (b"\x01\0\0\0\0", Frame::Data(Bytes::from_static(b"\x01\0\0\0\0"))),
            (b"\x80\0\0\0\x24Grpc-Status: 0\r\nGrpc-Message: fine\r\n", Frame::Metadata(status)),
        ];
        for (bytes, frame) in cases {
            assert_eq!(frame.write(), bytes);
            assert_eq!(Frame::read(Bytes::copy_from_slice(bytes), 10), Ok(frame));
        }
    }

    #[test]
    fn other_programs_headers_are_read() {
        let read = |text: &str| {
            let length = u32::try_from(text.len()).unwrap().to_be_bytes();
            Frame::read([&[0x80][..], &length, text.as_bytes()].concat().into(), 10)
        };
        let expected = headers(&[("grpc-status", "5"), ("x", "a:b")]);
        assert_eq!(read("GRPC-STATUS:5\r\nx:  a:b \r\n\r\n"), Ok(Frame::Metadata(expected)));
        for bad in ["no colon\r\n", ": no name\r\n", "a b: c\r\n", "a: \u{1}\r\n"] {
            assert_eq!(read(bad), Err(FrameError::Headers), "{bad:?}");
        }
    }

    #[test]
    fn broken_frames_are_refused() {
        let cases: [(&[u8], FrameError); 6] = [
            (b"", FrameError::Length),
            (b"\0\0\0\0", FrameError::Length),
            (b"\0\0\0\0\x01", FrameError::Length),
            (b"\0\0\0\0\0x", FrameError::Length),
            (b"\x02\0\0\0\0", FrameError::Flag(2)),
            (b"\0\0\0\0\x03abc", FrameError::TooLong(3)),
        ];
        for (bytes, error) in cases {
            assert_eq!(Frame::read(Bytes::copy_from_slice(bytes), 2), Err(error));
        }
    }

    proptest! {
        #[test]
        fn any_message_is_read_or_refused(bytes in vec(any::<u8>(), 0..60)) {
            let _ = Frame::read(bytes.clone().into(), 10);
            let mut cutter = Cutter::new(10);
            cutter.push(&bytes[..]);
            while let Ok(Some(_)) = cutter.next_frame() {}
        }

        #[test]
        fn frames_are_cut_wherever_pieces_end(bodies in vec(vec(any::<u8>(), 0..9), 0..5), step in 1_usize..7) {
            let frame = |body: &Vec<u8>| {
                [&[0][..], &u32::try_from(body.len()).unwrap().to_be_bytes(), body].concat()
            };
            let frames: Vec<Vec<u8>> = bodies.iter().map(frame).collect();
            let mut cutter = Cutter::new(8);
            let mut cut = Vec::new();
            for piece in frames.concat().chunks(step) {
                cutter.push(piece);
                while let Some(frame) = cutter.next_frame().unwrap() {
                    cut.push(frame.write().to_vec());
                }
            }
            prop_assert_eq!(cut, frames);
        }
    }
}
