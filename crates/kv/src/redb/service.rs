//! The writer's own thread: takes what waits in the queue and has it committed together.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch as signal;

use super::Shared;
use super::writer::{Request, Writer, panicked};
use crate::fault::Fault;
use crate::metrics::gauge;
use crate::store::{Error, Result};

/// How long the thread waits for callers to come back; well under what a commit takes.
const GATHER: Duration = Duration::from_micros(100);

/// The writer where its thread and callers find it; nothing once it has ended.
pub(super) type Seat = Mutex<Option<Writer>>;

/// What the thread owns.
pub(super) struct Service {
    pub(super) shared: Arc<Shared>,
    pub(super) seat: Arc<Seat>,
    pub(super) requests: Receiver<Request>,
    pub(super) stop: signal::Sender<bool>,
    pub(super) lock: File,
}

/// How long the thread may wait for a request.
enum Pause {
    None,
    For(Duration),
    Endless,
}

enum Received {
    Request(Request),
    Nothing,
    Closed,
}

impl Service {
    /// Works until the queue is closed and empty or the medium fails.
    pub(super) fn run(self) {
        let served = catch_unwind(AssertUnwindSafe(|| self.serve()));
        let failure = match served.unwrap_or_else(|_| Err(panicked())) {
            Ok(()) => None,
            Err(fault) => Some(fault.into_error(&self.shared.path)),
        };
        self.end(failure);
    }

    fn serve(&self) -> Result<(), Fault> {
        let mut pause = self.seat.lock().as_mut().map_or(Pause::None, |writer| self.pause(writer));
        loop {
            let received = self.receive(&pause);
            let mut seat = self.seat.lock();
            let Some(writer) = seat.as_mut() else { return Ok(()) };
            if let Some(fault) = writer.fault.take() {
                return Err(fault);
            }
            match received {
                Received::Request(first) => self.gather(writer, first),
                Received::Nothing => {}
                Received::Closed => return writer.settle(),
            }
            writer.commit()?;
            pause = self.pause(writer);
        }
    }

    fn pause(&self, writer: &mut Writer) -> Pause {
        writer.wakes_at = writer.engine.next_deadline();
        match writer.wakes_at {
            _ if writer.engine.is_untrimmed() => Pause::None,
            Some(deadline) => Pause::For(deadline.saturating_sub(self.shared.options.time.now())),
            None => Pause::Endless,
        }
    }

    fn receive(&self, pause: &Pause) -> Received {
        let received = match pause {
            Pause::None => self.requests.try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            }),
            Pause::For(pause) => self.requests.recv_timeout(*pause),
            Pause::Endless => self.requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(request) => Received::Request(request),
            Err(RecvTimeoutError::Timeout) => Received::Nothing,
            Err(RecvTimeoutError::Disconnected) => Received::Closed,
        }
    }

    /// Fills the batch from the queue, starting with `first`.
    ///
    /// After a batch, the callers it answered come back one after the other. Waiting a moment until as many are there
    /// as before makes one large batch where there would be a small and a large one in turn.
    fn gather(&self, writer: &mut Writer, first: Request) {
        let options = &self.shared.options;
        let patience = (writer.last_batch > 1).then(|| Instant::now() + GATHER);
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(request) = next {
            bytes += request.bytes();
            writer.batch.push(request);
            if writer.batch.len() >= options.batch_requests || bytes >= options.batch_bytes {
                break;
            }
            next = self.requests.try_recv().ok();
            while next.is_none()
                && writer.batch.len() < writer.last_batch
                && patience.is_some_and(|until| Instant::now() < until)
            {
                std::thread::yield_now();
                next = self.requests.try_recv().ok();
            }
        }
        writer.last_batch = writer.batch.len();
        self.shared.metrics.queued.dec_by(gauge(writer.batch.len() as u64));
        self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Closes the file, ends the watches and tells everyone who still waits.
    fn end(self, failure: Option<Error>) {
        if let Some(error) = &failure {
            tracing::error!(path = self.shared.path, %error, "the store stopped");
            *self.shared.failure.lock() = Some(error.clone());
        }
        let reason = failure.unwrap_or(Error::Closed);
        // Those it has not answered learn of it by that.
        let database = self.seat.lock().take().map(|writer| writer.database);
        self.shared.hub.end(&reason);
        drop(self.requests);
        drop(self.shared.database.write().take());
        // Closing writes to the file, which may fail as anything else; it repairs itself when next opened.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(database)));
        drop(self.lock);
        // Nobody may wait for it any more.
        let _ = self.stop.send(true);
    }
}
