//! Frames from bytes and bytes from frames.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::headers::{Packer, Unpacker};
use super::{Broken, FRAME_MAX, Frame};

const VERSION: u16 = 3;
const HEAD: usize = 8;
const CONTROL: u32 = 1 << 31;
const FIN: u8 = 1;
const UNIDIRECTIONAL: u8 = 2;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const SETTINGS: u16 = 4;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;
const WINDOW_UPDATE: u16 = 9;

/// Frames from the bytes of one direction.
#[derive(Default)]
pub(crate) struct Decoder {
    buffer: BytesMut,
    unpacker: Unpacker,
}

impl Decoder {
    /// Takes more bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame. Control frames of unknown kinds are passed over.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, Broken> {
        while let Some(mut head) = self.buffer.get(..HEAD) {
            let (word, second) = (head.get_u32(), head.get_u32());
            let [flags, length @ ..] = second.to_be_bytes();
            let length =
                usize::try_from(u32::from_be_bytes([0, length[0], length[1], length[2]])).unwrap_or(usize::MAX);
            if length > FRAME_MAX {
                return Err(Broken::TooLarge(length));
            }
            if self.buffer.len() < HEAD + length {
                return Ok(None);
            }
            self.buffer.advance(HEAD);
            let payload = self.buffer.split_to(length).freeze();
            if word & CONTROL == 0 {
                return Ok(Some(Frame::Data { stream: known(word)?, fin: flags & FIN != 0, bytes: payload }));
            }
            let [version @ .., kind_high, kind_low] = (word & !CONTROL).to_be_bytes();
            let version = u16::from_be_bytes(version);
            if version != VERSION {
                return Err(Broken::Version(version));
            }
            if let Some(frame) = self.control(u16::from_be_bytes([kind_high, kind_low]), flags, payload)? {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }

    fn control(&mut self, kind: u16, flags: u8, mut payload: Bytes) -> Result<Option<Frame>, Broken> {
        let fin = flags & FIN != 0;
        let least = match kind {
            SYN_STREAM => 10,
            SYN_REPLY | HEADERS | SETTINGS | PING => 4,
            RST_STREAM | GOAWAY | WINDOW_UPDATE => 8,
            _ => return Ok(None),
        };
        if payload.len() < least
            || (payload.len() > least && matches!(kind, PING | RST_STREAM | GOAWAY | WINDOW_UPDATE))
        {
            return Err(Broken::Malformed("of a length it cannot have"));
        }
        let first = payload.get_u32();
        let frame = match kind {
            SYN_STREAM => {
                let associated = payload.get_u32() & !CONTROL;
                let priority = payload.get_u16().to_be_bytes()[0] >> 5;
                let unidirectional = flags & UNIDIRECTIONAL != 0;
                let headers = self.unpacker.headers(&payload)?;
                Frame::SynStream { stream: known(first)?, associated, priority, fin, unidirectional, headers }
            }
            SYN_REPLY => Frame::SynReply { stream: known(first)?, fin, headers: self.unpacker.headers(&payload)? },
            HEADERS => Frame::Headers { stream: known(first)?, fin, headers: self.unpacker.headers(&payload)? },
            RST_STREAM => Frame::Reset { stream: known(first)?, status: payload.get_u32() },
            SETTINGS => Frame::Settings { clear: flags & FIN != 0, values: settings(first, payload)? },
            PING => Frame::Ping(first),
            GOAWAY => Frame::GoAway { last: first & !CONTROL, status: payload.get_u32() },
            _ => Frame::WindowUpdate { stream: first & !CONTROL, delta: payload.get_u32() & !CONTROL },
        };
        Ok(Some(frame))
    }
}

/// A stream's number, which is never zero.
fn known(word: u32) -> Result<u32, Broken> {
    match word & !CONTROL {
        0 => Err(Broken::Malformed("of stream zero")),
        stream => Ok(stream),
    }
}

fn settings(count: u32, mut payload: Bytes) -> Result<Vec<(u8, u32, u32)>, Broken> {
    if usize::try_from(count).ok().and_then(|count| count.checked_mul(8)) != Some(payload.len()) {
        return Err(Broken::Malformed("of settings that are not as many as it says"));
    }
    let mut values = Vec::with_capacity(payload.len() / 8);
    while payload.has_remaining() {
        let [flags, number @ ..] = payload.get_u32().to_be_bytes();
        values.push((flags, u32::from_be_bytes([0, number[0], number[1], number[2]]), payload.get_u32()));
    }
    Ok(values)
}

/// Bytes from the frames of one direction.
pub(crate) struct Encoder {
    packer: Packer,
}

impl Encoder {
    /// With nothing sent yet.
    pub(crate) fn new() -> Result<Self, Broken> {
        Ok(Self { packer: Packer::new()? })
    }

    /// A frame as it is sent.
    pub(crate) fn encode(&mut self, frame: &Frame) -> Result<Vec<u8>, Broken> {
        let bit = |set: bool, flag: u8| if set { flag } else { 0 };
        match frame {
            Frame::Data { stream, fin, bytes } => whole(*stream & !CONTROL, bit(*fin, FIN), &[bytes]),
            Frame::SynStream { stream, associated, priority, fin, unidirectional, headers } => {
                let mut start = numbers(&[*stream, *associated]);
                start.put_u8((priority & 7) << 5);
                start.put_u8(0);
                let flags = bit(*fin, FIN) | bit(*unidirectional, UNIDIRECTIONAL);
                control(SYN_STREAM, flags, &[&start, &self.packer.block(headers)?])
            }
            Frame::SynReply { stream, fin, headers } => {
                control(SYN_REPLY, bit(*fin, FIN), &[&numbers(&[*stream]), &self.packer.block(headers)?])
            }
            Frame::Headers { stream, fin, headers } => {
                control(HEADERS, bit(*fin, FIN), &[&numbers(&[*stream]), &self.packer.block(headers)?])
            }
            Frame::Settings { clear, values } => {
                let count = u32::try_from(values.len()).map_err(|_| Broken::TooLarge(values.len()))?;
                let pair = |(flags, number, value): &(u8, u32, u32)| {
                    let [_, low @ ..] = number.to_be_bytes();
                    numbers(&[u32::from_be_bytes([*flags, low[0], low[1], low[2]]), *value])
                };
                let all: Vec<u8> = values.iter().flat_map(pair).collect();
                control(SETTINGS, bit(*clear, FIN), &[&numbers(&[count]), &all])
            }
            Frame::Reset { stream, status } => control(RST_STREAM, 0, &[&numbers(&[*stream, *status])]),
            Frame::Ping(number) => control(PING, 0, &[&numbers(&[*number])]),
            Frame::GoAway { last, status } => control(GOAWAY, 0, &[&numbers(&[*last, *status])]),
            Frame::WindowUpdate { stream, delta } => control(WINDOW_UPDATE, 0, &[&numbers(&[*stream, *delta])]),
        }
    }
}

fn numbers(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn control(kind: u16, flags: u8, parts: &[&[u8]]) -> Result<Vec<u8>, Broken> {
    whole(CONTROL | u32::from(VERSION) << 16 | u32::from(kind), flags, parts)
}

fn whole(word: u32, flags: u8, parts: &[&[u8]]) -> Result<Vec<u8>, Broken> {
    let length = parts.iter().map(|part| part.len()).sum();
    let short = u32::try_from(length).ok().filter(|_| length <= FRAME_MAX).ok_or(Broken::TooLarge(length))?;
    let mut bytes = Vec::with_capacity(HEAD + length);
    bytes.put_u32(word);
    bytes.put_u32(u32::from(flags) << 24 | short);
    for part in parts {
        bytes.extend_from_slice(part);
    }
    Ok(bytes)
}
