//! Answers that are on their way to the hub: all of them together within one bound.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of all answers that are held, but for small ones.
const ALL_MAX: usize = 128 * 1024 * 1024;
/// Bytes of one answer: with their envelope they have to fit into a message.
const ONE_MAX: usize = 64 * 1024 * 1024;
/// An answer of no more than that is small: the number of requests is bounded.
const SMALL_MAX: usize = 256 * 1024;

/// Room for answers; clones share it.
#[derive(Debug, Clone)]
pub(super) struct Room {
    bytes: Arc<Semaphore>,
}

impl Default for Room {
    fn default() -> Self {
        Self { bytes: Arc::new(Semaphore::new(ALL_MAX)) }
    }
}

/// The room that one answer has.
#[derive(Debug, Default)]
pub(super) struct Taken(Option<OwnedSemaphorePermit>);

impl Taken {
    /// Whether an answer may have so many bytes; waits for room if it has become large. Room for all that it may become is
    /// taken at once: those that have a part of theirs would wait for each other.
    pub(super) async fn grow(&mut self, room: &Room, bytes: usize) -> bool {
        if bytes > ONE_MAX {
            return false;
        }
        if bytes > SMALL_MAX && self.0.is_none() {
            let all = u32::try_from(ONE_MAX).unwrap_or(u32::MAX);
            // It is never closed.
            self.0 = Arc::clone(&room.bytes).acquire_many_owned(all).await.ok();
        }
        true
    }

    /// The answer is whole and needs no more than that.
    pub(super) fn shrink(&mut self, bytes: usize) {
        if let Some(taken) = &mut self.0
            && let Some(rest) = taken.num_permits().checked_sub(bytes)
        {
            drop(taken.split(rest));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn large_answers_wait_for_room_and_small_ones_do_not() {
        let room = Room::default();
        let grown = |bytes| {
            let mut taken = Taken::default();
            taken.grow(&room, bytes).now_or_never().map(|fits| (fits, taken))
        };
        let (_, mut first) = grown(SMALL_MAX + 1).unwrap();
        let second = grown(ONE_MAX).unwrap();
        assert!(second.0 && grown(SMALL_MAX + 1).is_none() && grown(SMALL_MAX).is_some());
        assert!(!grown(ONE_MAX + 1).unwrap().0);
        first.shrink(1_000);
        assert!(grown(SMALL_MAX + 1).is_none(), "there is not enough for all that it may become");
        drop(first);
        assert!(grown(SMALL_MAX + 1).is_some());
    }
}
