//! SPDY/3.1 as kubectl speaks it inside a WebSocket: frames from bytes and bytes from frames, without I/O.
//!
//! Windows are read and not kept: the library on the other side neither grants nor waits for them, so what bounds a
//! stream is the queue of whoever serves it, and the socket behind.

mod codec;
mod dictionary;
mod headers;
#[cfg(test)]
mod tests;

use bytes::Bytes;

pub(crate) use codec::{Decoder, Encoder};
pub(crate) use headers::Headers;

/// The largest payload of a frame that is taken.
pub(crate) const FRAME_MAX: usize = 1 << 20;
/// What a block of headers may become when it is unpacked.
pub(crate) const HEADERS_MAX: usize = 16 << 10;

/// Why a stream was reset.
pub(crate) mod status {
    /// It broke the rules.
    pub(crate) const PROTOCOL_ERROR: u32 = 1;
    /// It does not exist.
    pub(crate) const INVALID_STREAM: u32 = 2;
    /// There is no room for it.
    pub(crate) const REFUSED_STREAM: u32 = 3;
    /// It is no longer wanted.
    pub(crate) const CANCEL: u32 = 5;
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    /// Opens a stream.
    SynStream {
        /// Its number.
        stream: u32,
        /// The stream it belongs to, or zero.
        associated: u32,
        /// From zero, the highest, to seven.
        priority: u8,
        /// Its sender sends nothing more on it.
        fin: bool,
        /// Its receiver sends nothing on it.
        unidirectional: bool,
        /// What it is for.
        headers: Headers,
    },
    /// Accepts a stream.
    SynReply {
        /// Which.
        stream: u32,
        /// Its sender sends nothing on it.
        fin: bool,
        /// More about it.
        headers: Headers,
    },
    /// Ends a stream at once.
    Reset {
        /// Which.
        stream: u32,
        /// Why.
        status: u32,
    },
    /// How its sender would like things to be.
    Settings {
        /// What was said before no longer holds.
        clear: bool,
        /// Flags, number and value of each.
        values: Vec<(u8, u32, u32)>,
    },
    /// Is to be sent back by whoever did not number it.
    Ping(u32),
    /// No stream after this one is taken.
    GoAway {
        /// The last that was.
        last: u32,
        /// Why.
        status: u32,
    },
    /// More headers of a stream.
    Headers {
        /// Which.
        stream: u32,
        /// Its sender sends nothing more on it.
        fin: bool,
        /// They.
        headers: Headers,
    },
    /// So many more bytes may be sent on a stream.
    WindowUpdate {
        /// Which; zero for all.
        stream: u32,
        /// So many.
        delta: u32,
    },
    /// Bytes of a stream.
    Data {
        /// Which.
        stream: u32,
        /// Its sender sends nothing more on it.
        fin: bool,
        /// They.
        bytes: Bytes,
    },
}

/// Why a connection cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    /// A frame is larger than is taken.
    #[error("a frame of {0} bytes, more than {FRAME_MAX}")]
    TooLarge(usize),
    /// A block of headers is larger than is taken.
    #[error("headers of more than {HEADERS_MAX} bytes")]
    HeadersTooLarge,
    /// Another version of the protocol.
    #[error("version {0} of the protocol, not 3")]
    Version(u16),
    /// A frame does not hold what it must.
    #[error("a broken frame: {0}")]
    Malformed(&'static str),
    /// A block of headers cannot be unpacked.
    #[error("headers that cannot be unpacked")]
    Compression,
}
