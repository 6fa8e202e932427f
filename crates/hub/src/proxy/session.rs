//! The record of a session's end: who had it, how long, and how many bytes passed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use thane_runtime::SharedClock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Whose session it is. It goes with the request to whoever carries the session's bytes.
#[derive(Clone)]
pub(crate) struct SessionRecord {
    user: String,
    agent: String,
    id: String,
    clock: SharedClock,
}

impl SessionRecord {
    pub(super) fn new(user: &str, agent: &str, id: &str, clock: &SharedClock) -> Self {
        Self { user: user.to_owned(), agent: agent.to_owned(), id: id.to_owned(), clock: SharedClock::clone(clock) }
    }
}

/// The client's end of a session; what passed is written down when this is dropped.
pub(crate) struct Counted<S> {
    io: S,
    record: Option<(SessionRecord, Duration)>,
    received: u64,
    sent: u64,
}

impl<S> Counted<S> {
    pub(crate) fn new(io: S, record: Option<SessionRecord>) -> Self {
        let record = record.map(|record| {
            let began = record.clock.monotonic();
            (record, began)
        });
        Self { io, record, received: 0, sent: 0 }
    }
}

impl<S> Drop for Counted<S> {
    fn drop(&mut self) {
        let Some((record, began)) = &self.record else { return };
        tracing::info!(
            target: "thane::audit",
            user = record.user,
            agent = record.agent,
            id = record.id,
            seconds = record.clock.monotonic().saturating_sub(*began).as_secs_f64(),
            received_bytes = self.received,
            sent_bytes = self.sent,
            "live session ended"
        );
    }
}

fn bytes(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.io).poll_read(cx, buffer));
        self.received += bytes(buffer.filled().len() - before);
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write(cx, data))?;
        self.sent += bytes(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
