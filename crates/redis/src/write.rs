//! Commands and replies as bytes.

use bytes::{BufMut, Bytes, BytesMut};

use crate::Protocol;

/// A command.
pub fn command<W: AsRef<[u8]>>(words: &[W]) -> Bytes {
    let mut out = BytesMut::new();
    header(&mut out, b'*', words.len());
    for word in words {
        bulk(&mut out, word.as_ref());
    }
    out.freeze()
}

/// A string.
pub fn string(content: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(content.len() + 32);
    bulk(&mut out, content);
    out.freeze()
}

/// Nothing.
pub fn null(protocol: Protocol) -> Bytes {
    Bytes::from_static(match protocol {
        Protocol::Resp2 => b"$-1\r\n",
        Protocol::Resp3 => b"_\r\n",
    })
}

/// A refusal: a word in capitals that says of what kind, and why, in one line.
pub fn error(kind: &str, why: &str) -> Bytes {
    let why: String = why.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    Bytes::from(format!("-{kind} {why}\r\n"))
}

/// That a channel has been taken or left, and how many are left.
pub fn confirmation(protocol: Protocol, what: &str, channel: &[u8], count: usize) -> Bytes {
    let mut out = unasked(protocol, 3);
    bulk(&mut out, what.as_bytes());
    bulk(&mut out, channel);
    header(&mut out, b':', count);
    out.freeze()
}

/// A message of a channel.
pub fn message(protocol: Protocol, channel: &[u8], content: &[u8]) -> Bytes {
    let mut out = unasked(protocol, 3);
    for part in [&b"message"[..], channel, content] {
        bulk(&mut out, part);
    }
    out.freeze()
}

/// The answer to a ping in the first form, for whoever has subscribed.
pub fn subscribed_pong(content: &[u8]) -> Bytes {
    command(&[&b"pong"[..], content])
}

fn unasked(protocol: Protocol, values: usize) -> BytesMut {
    let mut out = BytesMut::new();
    let kind = match protocol {
        Protocol::Resp2 => b'*',
        Protocol::Resp3 => b'>',
    };
    header(&mut out, kind, values);
    out
}

fn header(out: &mut BytesMut, kind: u8, count: usize) {
    out.put_u8(kind);
    out.put_slice(count.to_string().as_bytes());
    out.put_slice(b"\r\n");
}

fn bulk(out: &mut BytesMut, content: &[u8]) {
    header(out, b'$', content.len());
    out.put_slice(content);
    out.put_slice(b"\r\n");
}
