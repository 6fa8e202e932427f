//! Which stream of an agent is the one that counts.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use thane_api::event::{DecodeError, Event};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};
use tonic::Status;

/// The stream of each agent that has one; as many as there are connections.
#[derive(Clone, Default)]
pub(super) struct Active {
    streams: Arc<Mutex<HashMap<String, Handle>>>,
}

/// One stream, for those who may end it.
#[derive(Clone)]
pub(super) struct Handle {
    agent: String,
    incoming: mpsc::Sender<Result<Event, DecodeError>>,
    pub(super) status: Arc<OnceLock<Status>>,
    pub(super) close: CancellationToken,
}

/// What goes to an agent, until its stream is closed; dropping it closes the stream.
pub(super) struct Outgoing {
    events: mpsc::Receiver<Event>,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    handle: Handle,
    active: Active,
    has_ended: bool,
    sent: Counter,
    _close: DropGuard,
}

impl Active {
    /// A new stream of an agent; the one before it is closed.
    pub(super) fn replace(
        &self,
        agent: &str,
        incoming: mpsc::Sender<Result<Event, DecodeError>>,
        close: CancellationToken,
    ) -> Handle {
        let handle = Handle { agent: agent.to_owned(), incoming, status: Arc::default(), close };
        let before = self.streams.lock().insert(agent.to_owned(), handle.clone());
        if let Some(before) = before {
            tracing::info!(agent, "another connection of the agent takes over");
            before.end(Status::unavailable("another connection of this agent took over"));
        }
        handle
    }

    /// Where events of an agent go now.
    pub(super) fn incoming(&self, agent: &str) -> Option<mpsc::Sender<Result<Event, DecodeError>>> {
        self.streams.lock().get(agent).map(|handle| handle.incoming.clone())
    }

    fn forget(&self, handle: &Handle) {
        let mut streams = self.streams.lock();
        if streams.get(&handle.agent).is_some_and(|current| Arc::ptr_eq(&current.status, &handle.status)) {
            streams.remove(&handle.agent);
        }
    }
}

impl Handle {
    /// Ends the stream with this answer, unless it has one already.
    pub(super) fn end(&self, status: Status) {
        let _ = self.status.set(status);
        self.close.cancel();
    }

    /// What goes to the agent.
    pub(super) fn outgoing(&self, events: mpsc::Receiver<Event>, active: Active, sent: Counter) -> Outgoing {
        Outgoing {
            events,
            closed: Box::pin(self.close.clone().cancelled_owned()),
            handle: self.clone(),
            active,
            has_ended: false,
            sent,
            _close: self.close.clone().drop_guard(),
        }
    }
}

impl futures::Stream for Outgoing {
    type Item = Result<Event, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        if self.closed.as_mut().poll(context).is_ready() {
            self.has_ended = true;
            let status = self.handle.status.get().cloned();
            return Poll::Ready(Some(Err(status.unwrap_or_else(|| Status::unavailable("the stream was closed")))));
        }
        let event = std::task::ready!(self.events.poll_recv(context));
        self.has_ended = event.is_none();
        if event.is_some() {
            self.sent.inc();
        }
        Poll::Ready(event.map(Ok))
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.active.forget(&self.handle);
    }
}
