//! Where one agent's calls wait for requests, and requests for calls.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use thane_api::wire::tunnel::Frame;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

/// A call that waits for a request.
pub(super) struct Parked {
    pub(super) id: u64,
    pub(super) frames: Streaming<Frame>,
    pub(super) out: mpsc::Sender<Frame>,
    /// Cancelled when its connection ends.
    pub(super) ended: CancellationToken,
}

/// One agent's.
#[derive(Default)]
pub(super) struct Lot {
    parked: VecDeque<Parked>,
    waiting: VecDeque<oneshot::Sender<Parked>>,
}

impl Lot {
    /// Gives the call to whoever waits first, or keeps it; false if there is no place.
    pub(super) fn park(&mut self, mut parked: Parked, parked_max: usize) -> bool {
        while let Some(waiting) = self.waiting.pop_front() {
            match waiting.send(parked) {
                Ok(()) => return true,
                // Whoever waited has left.
                Err(back) => parked = back,
            }
        }
        if self.parked.len() >= parked_max {
            return false;
        }
        self.parked.push_back(parked);
        true
    }

    /// The call that has waited longest and is still there.
    pub(super) fn take(&mut self) -> Option<Parked> {
        std::iter::from_fn(|| self.parked.pop_front())
            .find(|parked| !parked.out.is_closed() && !parked.ended.is_cancelled())
    }

    /// Waits for a call; false if too many do.
    pub(super) fn wait(&mut self, give: oneshot::Sender<Parked>, waiting_max: usize) -> bool {
        if self.waiting.len() >= waiting_max {
            self.waiting.retain(|waiting| !waiting.is_closed());
        }
        let has_place = self.waiting.len() < waiting_max;
        if has_place {
            self.waiting.push_back(give);
        }
        has_place
    }

    /// Lets go of a call; whether nothing is left.
    pub(super) fn forget(&mut self, id: u64) -> bool {
        self.parked.retain(|parked| parked.id != id);
        self.parked.is_empty() && self.waiting.iter().all(oneshot::Sender::is_closed)
    }
}

/// Frames to an agent; when it is dropped the call is over.
pub struct Outgoing {
    frames: mpsc::Receiver<Frame>,
    over: Option<Box<dyn FnOnce() + Send>>,
}

impl Outgoing {
    pub(super) fn new(frames: mpsc::Receiver<Frame>, over: Box<dyn FnOnce() + Send>) -> Self {
        Self { frames, over: Some(over) }
    }
}

impl futures::Stream for Outgoing {
    type Item = Result<Frame, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.frames.poll_recv(context).map(|frame| frame.map(Ok))
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        // Closed before anyone is told, so that nobody takes it any more.
        self.frames.close();
        if let Some(over) = self.over.take() {
            over();
        }
    }
}
