//! Bodies of requests, held whole until they are on their way: all of them together within one bound.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::reach::{Body, BodyError};

/// Bytes of all bodies that are held.
const ALL_MAX: usize = 256 * 1024 * 1024;
/// What a place is counted in.
const UNIT: usize = 1024;

/// Room for bodies; clones share it.
#[derive(Debug, Clone)]
pub struct Bodies {
    room: Arc<Semaphore>,
}

impl Default for Bodies {
    fn default() -> Self {
        Self::new(ALL_MAX)
    }
}

impl Bodies {
    /// Room for so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { room: Arc::new(Semaphore::new(bytes_max / UNIT)) }
    }

    /// Waits for room for so many bytes.
    pub(super) async fn room(&self, bytes: usize, held: &Gauge) -> Room {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        // It is never closed.
        let permit = Arc::clone(&self.room).acquire_many_owned(units).await.ok();
        let room = Room { permit, held: held.clone() };
        held.inc_by(room.bytes());
        room
    }
}

/// Room for one body.
pub(super) struct Room {
    permit: Option<OwnedSemaphorePermit>,
    held: Gauge,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.held.dec_by(self.bytes());
    }
}

impl Room {
    fn bytes(&self) -> i64 {
        self.permit.as_ref().map_or(0, |permit| i64::try_from(permit.num_permits() * UNIT).unwrap_or(i64::MAX))
    }

    /// The body for which it was; it needs no more room than it has bytes.
    pub(super) fn hold(mut self, bytes: Bytes) -> Body {
        let units = bytes.len().div_ceil(UNIT);
        let before = self.bytes();
        if let Some(permit) = &mut self.permit
            && let Some(rest) = permit.num_permits().checked_sub(units)
        {
            drop(permit.split(rest));
        }
        self.held.dec_by(before - self.bytes());
        Held { body: Full::new(bytes), _room: self }.boxed_unsync()
    }
}

/// A body with its room, until it is sent.
struct Held {
    body: Full<Bytes>,
    _room: Room,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(&mut self.body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(|never| match never {})))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn bodies_wait_for_room_and_give_it_back() {
        let bodies = Bodies::new(4 * UNIT);
        let gauge = Gauge::default();
        let room = |bytes| bodies.room(bytes, &gauge);
        let (first, second) = (room(3 * UNIT).await, room(UNIT).await);
        assert!(room(1).now_or_never().is_none());
        assert!(room(0).now_or_never().is_some(), "what has no body waits for nobody");
        assert_eq!(gauge.get(), 4 * 1024);
        // What is shorter than it might have been needs less.
        let held = first.hold(Bytes::from_static(b"x"));
        let third = room(2 * UNIT).now_or_never().unwrap();
        drop(second);
        assert!(room(2 * UNIT).now_or_never().is_none());
        assert_eq!(gauge.get(), 3 * 1024);
        assert_eq!(held.collect().await.unwrap().to_bytes(), "x");
        assert!(room(2 * UNIT).now_or_never().is_some());
        drop(third);
        assert_eq!(gauge.get(), 0);
    }
}
