//! Events that pass by the protocol's engine: requests for live access, and their answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use thane_api::event::{Event, SENT_AT, Target};
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::metrics::LinkMetrics;

/// Events that wait to be put on one peer's stream; a request that finds no room fails.
const WAITING_MAX: usize = 256;

/// Takes events that pass by.
pub trait Passing: Send + Sync {
    /// Takes one from that peer; it has been acknowledged, and is not waited for.
    fn received(&self, peer: &str, event: Event);
}

/// Who takes what passes by, told apart by what it is about; what nobody takes is dropped.
#[derive(Clone, Default)]
pub struct Takers {
    all: Vec<(Target, Arc<dyn Passing>)>,
}

impl Takers {
    /// Gives events about that to this taker, too.
    #[must_use]
    pub fn with(mut self, target: Target, taker: Arc<dyn Passing>) -> Self {
        self.all.push((target, taker));
        self
    }

    /// All of these and those; the first that takes an event has it.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.all.extend(others.all);
        self
    }
}

impl Passing for Takers {
    fn received(&self, peer: &str, event: Event) {
        match self.all.iter().find(|(target, _)| *target == event.target) {
            Some((_, taker)) => taker.received(peer, event),
            None => tracing::debug!(peer, target = event.target.as_str(), "nobody takes this here"),
        }
    }
}

/// Why an event was not put on a peer's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsent {
    /// The peer is not connected.
    Absent,
    /// Too much waits for it already.
    Full,
}

/// A way to put events on the stream of one connected peer, beside what the protocol sends.
#[derive(Debug, Clone)]
pub struct Line {
    events: mpsc::Sender<Event>,
    close: CancellationToken,
}

impl Line {
    /// Puts an event on the stream, if there is room now; it is sent once.
    pub fn send(&self, event: Event) -> Result<(), Unsent> {
        self.events.try_send(event).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Unsent::Full,
            mpsc::error::TrySendError::Closed(_) => Unsent::Absent,
        })
    }

    /// Puts an event on the stream as soon as there is room: for answers, whose number is bounded by what asked.
    pub async fn send_when_free(&self, event: Event) -> Result<(), Unsent> {
        self.events.send(event).await.map_err(|_| Unsent::Absent)
    }

    /// Completes when that stream has ended: no answer comes on it any more.
    pub fn ended(&self) -> WaitForCancellationFutureOwned {
        self.close.clone().cancelled_owned()
    }
}

/// The lines to all connected peers.
#[derive(Debug, Clone, Default)]
pub struct Passage {
    lines: Arc<Mutex<BTreeMap<String, Line>>>,
    opened: Arc<Notify>,
}

impl Passage {
    /// The line to that peer, if it is connected.
    pub fn line(&self, peer: &str) -> Option<Line> {
        // One that has ended is about to be taken away.
        self.lines.lock().get(peer).filter(|line| !line.close.is_cancelled()).cloned()
    }

    /// Waits until that peer is connected.
    pub async fn connected(&self, peer: &str) -> Line {
        loop {
            // Asked for first: one that opens between the two is not missed.
            let opened = self.opened.notified();
            if let Some(line) = self.line(peer) {
                return line;
            }
            opened.await;
        }
    }

    /// Puts an event on the stream of that peer, if there is room now.
    pub fn send(&self, peer: &str, event: Event) -> Result<(), Unsent> {
        self.line(peer).ok_or(Unsent::Absent)?.send(event)
    }

    /// Gives what is sent to a peer to whoever calls this, until the token is cancelled: for peers no engine serves.
    pub fn attach(&self, peer: &str, close: CancellationToken) -> mpsc::Receiver<Event> {
        let (events, waiting) = mpsc::channel(WAITING_MAX);
        self.lines.lock().insert(peer.to_owned(), Line { events, close });
        self.opened.notify_waiters();
        waiting
    }

    /// A peer's stream is open: whatever is given to its line goes there until it ends.
    pub(crate) fn opened(&self, peer: &str, stream: Outlet, tasks: &Tasks) {
        let (events, waiting) = mpsc::channel(WAITING_MAX);
        let line = Line { events, close: stream.close.clone() };
        self.lines.lock().insert(peer.to_owned(), line.clone());
        self.opened.notify_waiters();
        let (passage, peer, stop) = (self.clone(), peer.to_owned(), tasks.token());
        tasks.spawn("passing", async move {
            tokio::select! {
                () = stream.pass(waiting) => {}
                () = line.close.cancelled() => {}
                () = stop.cancelled() => {}
            }
            let mut lines = passage.lines.lock();
            if lines.get(&peer).is_some_and(|current| current.events.same_channel(&line.events)) {
                lines.remove(&peer);
            }
        });
    }
}

/// Where a line ends.
pub(crate) struct Outlet {
    pub(crate) outgoing: mpsc::Sender<Event>,
    pub(crate) close: CancellationToken,
    pub(crate) clock: SharedClock,
    pub(crate) metrics: Arc<LinkMetrics>,
}

impl Outlet {
    /// Waits for room like everything else that is sent: neither takes the stream from the other.
    async fn pass(&self, mut waiting: mpsc::Receiver<Event>) {
        while let Some(mut event) = waiting.recv().await {
            let Ok(room) = self.outgoing.reserve().await else { return };
            event.extensions.insert(SENT_AT.to_owned(), format!("{:.9}", self.clock.now()));
            self.metrics.sent(&event);
            room.send(event);
        }
    }
}
