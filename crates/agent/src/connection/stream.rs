//! An open stream of events, until it ends.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use thane_api::event::{Event, Target, Type};
use thane_runtime::SharedClock;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::session::{Answer, Calls, Received};
use super::{Failure, Metrics, Step};

/// Signs of life in a row that may stay unanswered.
const UNANSWERED_MAX: u32 = 3;

/// Where the hub's answer stands.
pub(super) enum Reply {
    /// It will come with the first event.
    Awaited(Answer),
    /// It came.
    Open(Box<Streaming<Received>>),
}

/// One open stream.
pub(super) struct Stream {
    pub(super) calls: Calls,
    pub(super) incoming: mpsc::Sender<Received>,
    pub(super) outgoing: mpsc::WeakSender<Event>,
    pub(super) close: CancellationToken,
    pub(super) metrics: Metrics,
    /// How often to send a sign of life.
    pub(super) heartbeat: Option<Duration>,
    /// Whether the hub answers them.
    pub(super) is_answered: bool,
    pub(super) clock: SharedClock,
    /// When the connection was begun, on the monotonic clock.
    pub(super) dialled: Duration,
}

impl Stream {
    /// Passes events on until the stream ends, and says why it did.
    pub(super) async fn run(self, reply: Reply) -> Failure {
        let closed = || Failure::Lost("the stream was closed on this side".to_owned());
        let mut streaming = match reply {
            Reply::Open(streaming) => *streaming,
            Reply::Awaited(answer) => {
                let answer = tokio::select! {
                    () = self.close.cancelled() => return closed(),
                    answer = with_signs_of_life(answer, &self.outgoing, self.heartbeat) => answer,
                };
                match answer {
                    Ok(response) => response.into_inner(),
                    Err(status) => return self.calls.explain(Step::Subscribe, &status).await,
                }
            }
        };
        let mut unanswered = 0;
        let mut is_first = true;
        loop {
            let received = tokio::select! {
                () = self.close.cancelled() => return closed(),
                () = beat(self.heartbeat) => {
                    if self.is_answered && unanswered >= UNANSWERED_MAX {
                        return Failure::Lost("the hub no longer answers signs of life".to_owned());
                    }
                    unanswered += 1;
                    send(&self.outgoing, sign_of_life());
                    continue;
                }
                received = streaming.message() => received,
            };
            match received {
                Ok(Some(received)) => {
                    unanswered = 0;
                    if std::mem::take(&mut is_first) {
                        self.metrics.first_event(self.clock.monotonic().saturating_sub(self.dialled));
                    }
                    if let Some(failure) = self.take(received).await {
                        return failure;
                    }
                }
                Ok(None) => return Failure::Lost("the hub ended the stream".to_owned()),
                Err(status) => return self.calls.explain(Step::Stream, &status).await,
            }
        }
    }

    async fn take(&self, received: Received) -> Option<Failure> {
        match &received {
            Ok(event) if event.target == Target::Heartbeat => return None,
            Ok(_) => {}
            Err(error) => {
                self.metrics.refused(&error.fault);
                if let Some(ack) = error.acknowledgement() {
                    send(&self.outgoing, ack);
                }
            }
        }
        tokio::select! {
            () = self.close.cancelled() => None,
            taken = self.incoming.send(received) => {
                taken.err().map(|_| Failure::Lost("nobody takes events any more".to_owned()))
            }
        }
    }
}

/// Completes when the next sign of life is due.
async fn beat(interval: Option<Duration>) {
    match interval {
        Some(interval) => tokio::time::sleep(interval).await,
        None => std::future::pending().await,
    }
}

/// A Go principal answers with its first event, which may be long in coming.
async fn with_signs_of_life(
    mut answer: Answer,
    outgoing: &mpsc::WeakSender<Event>,
    interval: Option<Duration>,
) -> Result<tonic::Response<Streaming<Received>>, Status> {
    loop {
        tokio::select! {
            answer = &mut answer => return answer,
            () = beat(interval) => send(outgoing, sign_of_life()),
        }
    }
}

/// Sends if there is room: signs of life and answers are not worth waiting for.
fn send(outgoing: &mpsc::WeakSender<Event>, event: Event) {
    if let Some(outgoing) = outgoing.upgrade() {
        let _ = outgoing.try_send(event);
    }
}

fn sign_of_life() -> Event {
    let id = uuid::Uuid::new_v4().to_string();
    Event {
        target: Target::Heartbeat,
        kind: Type::Ping,
        resource_id: id.clone(),
        event_id: id,
        subject: None,
        data: Bytes::new(),
        extensions: BTreeMap::new(),
    }
}
