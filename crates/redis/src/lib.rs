//! Redis on the wire: commands as clients send them, replies as servers do, and a client for the few commands we need.

pub mod client;
pub mod command;
pub mod reply;
pub mod write;

/// Why bytes are not what Redis speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// An array says how long it is, and that cannot be.
    #[error("invalid multibulk length")]
    Count,
    /// A string says how long it is, and that cannot be.
    #[error("invalid bulk length")]
    Length,
    /// A string was due.
    #[error("expected '$'")]
    Unexpected,
    /// A line without an end.
    #[error("too big inline request")]
    Line,
    /// A line with quotes, or with bytes of which Redis and others think differently.
    #[error("quotes and control characters in an inline request are not understood here")]
    Inline,
    /// More than is held in memory for one command or reply.
    #[error("too big")]
    Size,
    /// A kind of value that is not known.
    #[error("unknown type")]
    Kind,
}

/// Which of the two forms of replies a connection has agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// The first form.
    #[default]
    Resp2,
    /// The form with types of its own for null and for what was not asked for.
    Resp3,
}

/// The number in a line of a header.
fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
