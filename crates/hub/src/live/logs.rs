//! Logs: asked for by an event, brought by a stream of their own, read as slowly as whoever asked reads.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::Response;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use thane_api::event::{Target, Type};
use thane_api::live::LogRequest;
use thane_api::wire::logs::{LogStreamData, LogStreamResponse};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use super::answer::refusal;
use super::sessions::{LogInlet, LogSide, Piece, Session, Wants};
use super::{ANSWER_TIMEOUT, Events, FIRST_TIMEOUT, PIECE_BYTES_MAX, ask};
use crate::lines::Lines;
use crate::proxy::{Body, RESUME_TIMEOUT, STUCK_MAX, Unreachable};
use crate::transport::{Caller, Messages};

/// Pieces that wait for a reader; then the agent's stream is not read.
const PIECES_MAX: usize = 8;
/// How long a log that is not followed may take.
const STATIC_TIMEOUT: Duration = Duration::from_mins(3);
/// How long the first words of a log are waited for: a log that is not there is an error, not an empty one.
const FIRST_WORDS: Duration = Duration::from_millis(500);

/// Why a log broke off.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("the log broke off: {0}")]
    Agent(String),
    #[error("the agent was gone for too long")]
    Gone,
    #[error("the log took too long")]
    Late,
}

/// A log on its way to whoever reads it.
struct Reading {
    pieces: mpsc::Receiver<(u64, Piece)>,
    /// The newest of its streams.
    stream: u64,
    lines: Lines,
    follow: bool,
    /// When it has to be over, or to go on.
    deadline: Option<Instant>,
    /// What was there before the reading began.
    first: Option<Piece>,
    has_ended: bool,
    _session: Session,
}

impl Events {
    /// Asks for a log; its answer begins when the agent has begun to send.
    pub(super) async fn log(&self, agent: &str, asked: LogRequest) -> Result<Response<Body>, Unreachable> {
        let line = self.line(agent)?;
        let (pieces, mut received) = mpsc::channel(PIECES_MAX);
        let side = LogSide { pieces, current: CancellationToken::new(), streams: 0 };
        let session = self.session(agent, Wants::Log(side))?;
        let request = LogRequest { uuid: session.uuid().to_owned(), ..asked };
        let kind = Type::Verb("GET".to_owned());
        ask(agent, &line, Target::ContainerLog, kind, session.uuid(), &request)?;
        let opened = tokio::select! {
            opened = received.recv() => opened,
            () = line.ended() => return Err(Unreachable::NotConnected(agent.to_owned())),
            () = tokio::time::sleep(ANSWER_TIMEOUT) => return Err(Unreachable::Late(agent.to_owned())),
        };
        let first = match opened {
            Some((_, Piece::Opened)) => tokio::time::timeout(FIRST_WORDS, received.recv()).await.ok().flatten(),
            other => other,
        };
        if let Some((_, Piece::Failed(reason))) = &first {
            return Ok(refusal(status_of(reason), reason));
        }
        let deadline = (!request.follow).then(|| Instant::now() + STATIC_TIMEOUT);
        let reading = Reading {
            pieces: received,
            stream: first.as_ref().map_or(0, |(stream, _)| *stream),
            lines: Lines::new(request.timestamps),
            follow: request.follow,
            deadline,
            first: first.map(|(_, piece)| piece),
            has_ended: false,
            _session: session,
        };
        let body = futures::stream::unfold(reading, |mut reading| async {
            let next = reading.next().await?;
            Some((next.map(Frame::data).map_err(Into::into), reading))
        });
        let mut response = Response::new(StreamBody::new(body).boxed_unsync());
        response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("text/plain; charset=utf-8"));
        Ok(response)
    }

    /// Takes a stream that brings a log, until the log or its reader has ended.
    pub(super) async fn take_log(
        &self,
        caller: Caller,
        mut log: Messages<LogStreamData>,
    ) -> Result<LogStreamResponse, Status> {
        let first = tokio::time::timeout(FIRST_TIMEOUT, log.next()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("the stream does not say whose it is"))?;
        let mut message = first.ok_or_else(|| Status::invalid_argument("an empty stream"))??;
        let uuid = message.request_uuid.clone();
        let inlet = self.0.sessions.log(&caller.agent, &uuid).map_err(|mismatch| {
            self.0.metrics.refused(mismatch.as_str());
            Status::not_found("unknown request id")
        })?;
        let mut received = 0_i32;
        let put = async |piece| {
            let put = inlet.put(piece).await;
            // Its agent takes that for the end of the log and brings nothing more; so does the reader then.
            if put.as_ref().is_err_and(|status| status.code() == Code::Cancelled) {
                self.0.sessions.forget(&uuid);
            }
            put
        };
        put(Piece::Opened).await?;
        loop {
            if message.request_uuid != uuid || message.data.len() > PIECE_BYTES_MAX {
                self.0.metrics.refused("malformed");
                put(Piece::Broken).await?;
                return Err(Status::invalid_argument("a message of another log, or one that is too large"));
            }
            received = received.saturating_add(1);
            if !message.data.is_empty() {
                put(Piece::Data(std::mem::take(&mut message.data))).await?;
            }
            if !message.error.is_empty() {
                put(Piece::Failed(message.error.clone())).await?;
                return Err(Status::internal(message.error));
            }
            if message.eof {
                put(Piece::End).await?;
                return Ok(LogStreamResponse {
                    request_uuid: uuid,
                    status: 200,
                    lines_received: received,
                    ..Default::default()
                });
            }
            let next = tokio::select! {
                biased;
                () = inlet.replaced.cancelled() => return Err(replaced()),
                () = inlet.pieces.closed() => return Err(detached()),
                next = log.next() => next,
            };
            message = match next {
                Some(Ok(next)) => next,
                broken => {
                    put(Piece::Broken).await?;
                    return Err(broken.and_then(Result::err).unwrap_or_else(|| Status::aborted("the log has no end")));
                }
            };
        }
    }
}

fn detached() -> Status {
    Status::cancelled("client detached timeout")
}

fn replaced() -> Status {
    Status::aborted("another stream of this log took over")
}

impl LogInlet {
    /// Gives a piece to the reader when there is room, unless another stream does that now.
    async fn put(&self, piece: Piece) -> Result<(), Status> {
        tokio::select! {
            biased;
            () = self.replaced.cancelled() => Err(replaced()),
            room = tokio::time::timeout(STUCK_MAX, self.pieces.reserve()) => {
                let room = room.map_err(|_| detached())?.map_err(|_| detached())?;
                room.send((self.number, piece));
                Ok(())
            }
        }
    }
}

impl Reading {
    /// What comes next; nothing when the log is over.
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        while !self.has_ended {
            let piece = match self.first.take() {
                Some(first) => Some(first),
                None => self.wait().await,
            };
            let new = match piece {
                Some(Piece::Data(data)) => self.lines.take(&data),
                Some(Piece::End) => {
                    self.has_ended = true;
                    self.lines.rest()
                }
                Some(Piece::Opened) => {
                    self.lines.again();
                    self.deadline = self.deadline.filter(|_| !self.follow);
                    Bytes::new()
                }
                Some(Piece::Broken) if self.follow => {
                    self.deadline = Some(Instant::now() + RESUME_TIMEOUT);
                    Bytes::new()
                }
                Some(Piece::Failed(reason)) => return Some(self.fail(Broken::Agent(reason))),
                Some(Piece::Broken) => return Some(self.fail(Broken::Agent("the agent's stream ended".to_owned()))),
                None if self.follow => return Some(self.fail(Broken::Gone)),
                None => return Some(self.fail(Broken::Late)),
            };
            if !new.is_empty() {
                return Some(Ok(new));
            }
        }
        None
    }

    /// The next piece in time.
    async fn wait(&mut self) -> Option<Piece> {
        loop {
            let (stream, piece) = match self.deadline {
                Some(deadline) => tokio::time::timeout_at(deadline, self.pieces.recv()).await.ok().flatten()?,
                None => self.pieces.recv().await?,
            };
            // What a stream has brought after another took over comes again.
            if stream >= self.stream {
                self.stream = stream;
                return Some(piece);
            }
        }
    }

    fn fail(&mut self, broken: Broken) -> Result<Bytes, Broken> {
        self.has_ended = true;
        Err(broken)
    }
}

/// What Kubernetes would have answered; an agent tells only the words.
fn status_of(reason: &str) -> u16 {
    let has = |words: &[&str]| words.iter().any(|word| reason.contains(word));
    if has(&["not found"]) {
        404
    } else if has(&["forbidden"]) {
        403
    } else if has(&["too many"]) {
        429
    } else if has(&["must be specified", "is not valid for pod", "waiting to start", "is no name"]) {
        400
    } else {
        500
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;
    use thane_link::Passage;
    use thane_runtime::Tasks;

    use super::*;

    /// A stream that brings one message and does not end.
    fn bringing(message: LogStreamData) -> Messages<LogStreamData> {
        Box::pin(futures::stream::iter([Ok(message)]).chain(futures::stream::pending()))
    }

    #[tokio::test]
    async fn a_stream_that_was_replaced_brings_nothing_more() {
        let (tasks, _) = Tasks::root("test");
        let events = Events::new(Passage::default(), &mut Registry::default(), tasks);
        let (pieces, mut received) = mpsc::channel(1);
        let side = LogSide { pieces, current: CancellationToken::new(), streams: 0 };
        let session = events.session("one", Wants::Log(side)).unwrap();
        let peer = "127.0.0.1:1".parse().unwrap();
        let caller = || Caller { agent: "one".to_owned(), mode: thane_api::event::Mode::Managed, peer };
        let line = |text: &'static str| LogStreamData {
            request_uuid: session.uuid().to_owned(),
            data: Bytes::from_static(text.as_bytes()),
            ..LogStreamData::default()
        };
        // The first has said that it is there, and waits for room for its line.
        let mut old = std::pin::pin!(events.take_log(caller(), bringing(line("old"))));
        assert!(futures::poll!(&mut old).is_pending());
        let mut new = std::pin::pin!(events.take_log(caller(), bringing(line("new"))));
        assert!(futures::poll!(&mut new).is_pending());
        assert_eq!(received.recv().await, Some((1, Piece::Opened)));
        assert_eq!(old.await.unwrap_err().code(), tonic::Code::Aborted);
        assert!(futures::poll!(&mut new).is_pending());
        assert_eq!(received.recv().await, Some((2, Piece::Opened)));
        assert!(futures::poll!(&mut new).is_pending());
        assert_eq!(received.recv().await, Some((2, Piece::Data(Bytes::from_static(b"new")))));
    }
}
