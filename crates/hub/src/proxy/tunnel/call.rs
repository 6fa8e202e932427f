//! One request on a call that was parked for it.

use std::sync::Arc;

use bytes::Bytes;
use http::header::SEC_WEBSOCKET_PROTOCOL;
use http::{Response, StatusCode};
use http_body::{Body as _, Frame as BodyFrame};
use http_body_util::{BodyExt, StreamBody};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use thane_api::wire::tunnel::frame::Part;
use thane_api::wire::tunnel::{Answer, Frame, Request};
use thane_link::tunnel::{
    Broken, Inlet, Receiving, Sending, answer_headers, ends, exchange, frame, read_headers, request_headers,
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Streaming;

use super::Shared;
use super::lot::Parked;
use crate::proxy::farewell::{Farewell, Session};
use crate::proxy::reach::{Body, BodyError, Caller, Unreachable};
use crate::proxy::session::{Counted, SessionRecord};

/// A request about to be sent.
pub(super) struct Asked<'a> {
    shared: &'a Arc<Shared>,
    agent: &'a str,
    head: Request,
    body: Body,
    upgrade: Option<OnUpgrade>,
    record: Option<SessionRecord>,
}

/// Counts a request while it is under way, and ends all its parts together.
pub(super) struct Open {
    shared: Arc<Shared>,
    _end: DropGuard,
}

impl Open {
    fn begin(shared: &Arc<Shared>, end: &CancellationToken) -> Self {
        shared.metrics.open.inc();
        Self { shared: Arc::clone(shared), _end: end.clone().drop_guard() }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.metrics.open.dec();
    }
}

impl<'a> Asked<'a> {
    pub(super) fn new(
        shared: &'a Arc<Shared>,
        agent: &'a str,
        user: &Caller,
        mut request: http::Request<Body>,
    ) -> Self {
        let upgrade = request.extensions_mut().remove::<OnUpgrade>();
        let record = request.extensions_mut().remove::<SessionRecord>();
        let target = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let head = Request {
            method: request.method().to_string(),
            target,
            headers: request_headers(request.headers()),
            user: user.name.clone(),
            groups: user.groups.clone(),
            has_body: !request.body().is_end_stream(),
        };
        Self { shared, agent, head, body: request.into_body(), upgrade, record }
    }

    /// Sends it, and waits for the head of the answer. Dropping what is given back ends it.
    pub(super) async fn send(self, parked: Parked) -> Result<Response<Body>, Unreachable> {
        let (has_body, target) = (self.head.has_body, self.head.target.clone());
        let Begun { sending, receiving, told, end, open } = begin(self.shared, self.agent, self.head, parked).await?;
        let sending = if has_body {
            let pumping = pump(self.body, sending);
            self.shared.tasks.spawn("tunnel-request", async move {
                tokio::select! {
                    () = end.cancelled() => {}
                    () = pumping => {}
                }
            });
            None
        } else {
            Some(sending)
        };
        let answer = answered(self.agent, told).await?;
        let bad = || Unreachable::Failed("the agent's answer is none".to_owned());
        let mut response = head(&answer).ok_or_else(bad)?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            *response.body_mut() = body(receiving, open);
            return Ok(response);
        }
        let (Some(upgrade), Some(sending)) = (self.upgrade, sending) else { return Err(bad()) };
        let protocol = response.headers().get(SEC_WEBSOCKET_PROTOCOL).and_then(|name| name.to_str().ok());
        let (record, farewell) = (self.record, Farewell::new(self.agent, &target, protocol));
        let stop = self.shared.tasks.token();
        self.shared.tasks.spawn("tunnel-session", async move {
            let session = async {
                if let Ok(upgraded) = upgrade.await {
                    let mut session = Session::new(Counted::new(TokioIo::new(upgraded), record));
                    exchange(&mut session, sending, receiving).await;
                    session.end(&farewell).await;
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = session => {}
            }
            drop(open);
        });
        Ok(response)
    }
}

/// A request on its way.
pub(super) struct Begun {
    pub(super) sending: Sending,
    pub(super) receiving: Receiving,
    pub(super) told: oneshot::Receiver<Part>,
    /// Cancelled when it is over.
    pub(super) end: CancellationToken,
    pub(super) open: Open,
}

/// Sends the head, and takes in what the agent sends from then on.
pub(super) async fn begin(
    shared: &Arc<Shared>,
    agent: &str,
    head: Request,
    parked: Parked,
) -> Result<Begun, Unreachable> {
    let Parked { frames, out, ended, .. } = parked;
    let (sending, receiving, inlet) = ends(&out, &shared.metrics.bytes);
    let end = CancellationToken::new();
    let open = Open::begin(shared, &end);
    out.send(frame(Part::Request(head))).await.map_err(|_| Unreachable::NotConnected(agent.to_owned()))?;
    let (tell, told) = oneshot::channel();
    let reader = Reader { frames, inlet, out: Some(out), tell: Some(tell), shared: Arc::clone(shared) };
    let (stop, over) = (shared.tasks.token(), end.clone());
    shared.tasks.spawn("tunnel-answer", async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = ended.cancelled() => {}
            () = over.cancelled() => {}
            () = reader.read() => {}
        }
    });
    Ok(Begun { sending, receiving, told, end, open })
}

/// The head of the answer.
pub(super) async fn answered(agent: &str, told: oneshot::Receiver<Part>) -> Result<Answer, Unreachable> {
    match told.await {
        Ok(Part::Answer(answer)) => Ok(answer),
        Ok(Part::Refusal(refusal)) => Err(Unreachable::Failed(refusal.reason)),
        Ok(_) => Err(Unreachable::Failed("the agent answered what it was not asked".to_owned())),
        Err(_) => Err(Unreachable::NotConnected(agent.to_owned())),
    }
}

fn head(answer: &Answer) -> Option<Response<Body>> {
    let status = StatusCode::from_u16(u16::try_from(answer.status).ok()?).ok()?;
    if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS {
        return None;
    }
    let mut response = Response::new(empty());
    let headers = read_headers(&answer.headers).ok()?;
    let switched = status == StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = read_headers(&answer_headers(&headers, switched)).ok()?;
    *response.status_mut() = status;
    Some(response)
}

fn empty() -> Body {
    http_body_util::Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// The answer's body; dropping it ends the request.
fn body(receiving: Receiving, open: Open) -> Body {
    let pieces = futures::stream::try_unfold((receiving, open), |(mut receiving, open)| async move {
        let bytes: Option<Bytes> = receiving.next().await.map_err(BodyError::from)?;
        Ok::<_, BodyError>(bytes.map(|bytes| (BodyFrame::data(bytes), (receiving, open))))
    });
    StreamBody::new(pieces).boxed_unsync()
}

/// Sends the request's body; one that breaks off has no end.
async fn pump(mut body: Body, sending: Sending) {
    while let Some(part) = body.frame().await {
        let Ok(part) = part else { return };
        if let Ok(bytes) = part.into_data()
            && sending.data(bytes).await.is_err()
        {
            return;
        }
    }
    // An agent that has gone is noticed by whoever waits for its answer.
    let _ = sending.end().await;
}

/// Takes in all that an agent sends, at once: what its client has no time for waits here and nowhere else.
struct Reader {
    frames: Streaming<Frame>,
    inlet: Inlet,
    /// Held until the agent has said everything; after that the call is as long as what is sent to it.
    out: Option<mpsc::Sender<Frame>>,
    tell: Option<oneshot::Sender<Part>>,
    shared: Arc<Shared>,
}

impl Reader {
    async fn read(mut self) {
        if let Err(broken) = self.take_all().await
            && broken != Broken::Gone
        {
            self.shared.metrics.broken.inc();
            tracing::warn!(%broken, "an agent broke the rules of the tunnel");
        }
    }

    async fn take_all(&mut self) -> Result<(), Broken> {
        let progress = self.inlet.progress();
        let mut stuck = std::pin::pin!(progress.stuck(self.shared.config.stuck_max));
        loop {
            if self.inlet.has_ended() {
                self.out = None;
            }
            let message = tokio::select! {
                message = self.frames.message() => message,
                () = self.inlet.abandoned() => return Ok(()),
                () = &mut stuck => {
                    self.shared.metrics.stuck.inc();
                    return Ok(());
                }
            };
            let Some(frame) = message.ok().flatten() else {
                return if self.inlet.has_ended() { Ok(()) } else { Err(Broken::Gone) };
            };
            let is_data = matches!(frame.part, Some(Part::Data(_) | Part::End(_)));
            if is_data && self.tell.is_some() {
                return Err(Broken::Order);
            }
            if let Some(head) = self.inlet.take(frame)? {
                let is_refused = matches!(head, Part::Refusal(_));
                // Whoever asked may have left.
                let _ = self.tell.take().ok_or(Broken::Order)?.send(head);
                if is_refused {
                    return Ok(());
                }
            }
        }
    }
}
