//! Bytes in, bytes out.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use thane_runtime::Tasks;
use thane_runtime::admin::is_local_caller;
use thane_runtime::net::{BoxIo, Listener};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::rate::{Client, Rates, TooMany};
use super::room::{Clients, Room, Share};
use super::{Answer, BODY_BYTES_MAX, Content, Edge, Head, Query, Request, Routes, TooLarge, percent_decoded};

/// The whole head of a request.
const HEAD_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 128;
/// Of a body that is too large so much is read and dropped, so that the client gets to read why.
const DRAIN_BYTES_MAX: usize = 8 << 20;
/// A body takes no longer, however steadily it drips.
const BODY_TIME_MAX: Duration = Duration::from_mins(10);
/// After an error of the listener itself, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type OutBody = Either<Full<Bytes>, BoxBody<Bytes, std::io::Error>>;

/// What is served, and who asked lately.
struct Desk {
    edge: Arc<Edge>,
    rates: Option<Rates>,
    bodies: Room,
    started: Instant,
}

impl Desk {
    /// Refuses a client that asks too much. Only coming in counts: how long a query then waits does not.
    fn admit(&self, head: &Head<'_>, peer: IpAddr) -> Result<(), TooMany> {
        let Some(rates) = &self.rates else { return Ok(()) };
        let now = self.started.elapsed();
        // The address counts in any case: a token may be made up.
        rates.admit(Client::Address(peer), now)?;
        match shown(head) {
            Some(token) => rates.admit(rates.bearer(token), now),
            None => Ok(()),
        }
    }
}

/// The token that a request shows, as it came.
fn shown<'a>(head: &Head<'a>) -> Option<&'a [u8]> {
    let query = head.query.unwrap_or_default().split('&').find_map(|part| part.strip_prefix("token="));
    let header = |name: &str| head.headers.get(name).map(HeaderValue::as_bytes);
    let names = ["x-consul-token", "x-konsul-token", "authorization"];
    query.map(str::as_bytes).or_else(|| names.into_iter().find_map(header))
}

pub(super) async fn accept(edge: Arc<Edge>, listener: Box<dyn Listener>, tasks: &Tasks) {
    let rates = edge.limits.rate.map(Rates::new);
    let bodies = Room::new(edge.limits.bodies_max);
    let desk = Arc::new(Desk { edge, rates, bodies, started: Instant::now() });
    let (edge, clients) = (&desk.edge, Arc::new(Clients::default()));
    let slots = Arc::new(Semaphore::new(edge.limits.connections_max));
    loop {
        if slots.available_permits() == 0 {
            edge.metrics.full();
        }
        // The semaphore is never closed.
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((io, peer)) => {
                let is_here = peer.ip().to_canonical().is_loopback();
                let most = if is_here { edge.limits.local_client_max } else { edge.limits.client_max };
                // One client alone must not take all there is.
                let Some(seat) = clients.seat(peer.ip(), most) else {
                    edge.metrics.full();
                    continue;
                };
                let (desk, group) = (Arc::clone(&desk), tasks.clone());
                tasks.spawn("discovery connection", async move {
                    let _counted = desk.edge.metrics.connected();
                    tokio::select! {
                        () = connection(&desk, io, peer) => {}
                        () = group.cancelled() => {}
                    }
                    drop((slot, seat));
                });
            }
            Err(error) => {
                tracing::warn!(%error, "discovery listener could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(desk: &Arc<Desk>, io: BoxIo, peer: SocketAddr) {
    let service = service_fn(|request: http::Request<Incoming>| {
        let desk = Arc::clone(desk);
        async move { Ok::<_, Infallible>(answer(&desk, request, peer).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(desk.edge.limits.idle_max)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(io), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, %peer, "discovery connection ended early");
    }
}

async fn answer(desk: &Desk, request: http::Request<Incoming>, peer: SocketAddr) -> Response<OutBody> {
    let edge = &desk.edge;
    let is_head = request.method() == Method::HEAD;
    if edge.limits.local_only && !is_local_caller(request.headers(), peer.ip()) {
        let refused = "requests from web pages and other machines are not answered here\n";
        return response(Answer::text(StatusCode::FORBIDDEN, refused), is_head);
    }
    let uri = request.uri();
    let Some(routes) = edge.routes.iter().find(|routes| routes.owns(uri.path())) else {
        let text = if uri.path().contains("/v1/") {
            "Invalid URL path: not a recognized HTTP API endpoint\n"
        } else {
            "Invalid URL path: if attempting to use the HTTP API, ensure the path starts with '/v1/'\n"
        };
        return response(Answer::text(StatusCode::NOT_FOUND, text), is_head);
    };
    let head = Head { method: request.method(), path: uri.path(), query: uri.query(), headers: request.headers() };
    if let Err(late) = desk.admit(&head, peer.ip()) {
        edge.metrics.limited(late.crowded);
        edge.metrics.answered(routes.name(), StatusCode::TOO_MANY_REQUESTS);
        return response(too_many(late.wait), is_head);
    }
    let answer = match routes.quick(&head) {
        Some(answer) => answer,
        None => {
            let body_max = routes.body_max(&head);
            whole(desk, routes.as_ref(), request, peer, body_max).await
        }
    };
    edge.metrics.answered(routes.name(), answer.status);
    response(answer, is_head)
}

/// Says when to come again, in whole seconds.
fn too_many(wait: Duration) -> Answer {
    let text = "rate limit exceeded, try again later or against a different server";
    let mut answer = Answer::text(StatusCode::TOO_MANY_REQUESTS, text);
    answer.headers.insert(RETRY_AFTER, HeaderValue::from(wait.as_secs().saturating_add(1)));
    answer
}

async fn whole(
    desk: &Desk,
    routes: &dyn Routes,
    request: http::Request<Incoming>,
    peer: SocketAddr,
    body_max: u64,
) -> Answer {
    let (parts, body) = request.into_parts();
    let Some(path) = percent_decoded(parts.uri.path()) else {
        return Answer::text(StatusCode::BAD_REQUEST, "400 Bad Request");
    };
    // Consul answers so, without a word.
    let Some(query) = Query::parse(parts.uri.query().unwrap_or_default()) else {
        return Answer::text(StatusCode::INTERNAL_SERVER_ERROR, "");
    };
    // Who may send more than anybody has been asked who they are.
    let mut share = (body_max <= BODY_BYTES_MAX).then(|| desk.bodies.share());
    let body = match read(body, &parts.headers, body_max, desk.edge.limits.body_idle_max, share.as_mut()).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    routes.answer(Request { method: parts.method, path, query, headers: parts.headers, body, peer }).await
}

async fn read(
    body: Incoming,
    headers: &HeaderMap,
    body_max: u64,
    idle_max: Duration,
    share: Option<&mut Share<'_>>,
) -> Result<Result<Bytes, TooLarge>, Answer> {
    let declared = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| length > body_max) {
        drain(body, idle_max).await;
        return Ok(Err(TooLarge { declared }));
    }
    // One more than allowed, to tell what is too large from what just fits.
    let limit = usize::try_from(body_max).unwrap_or(usize::MAX);
    match collected(Limited::new(body, limit), idle_max, share).await {
        Ok(Collected::Whole(body)) => Ok(Ok(body)),
        Ok(Collected::NoRoom) => Err(no_room()),
        Ok(Collected::Late) => Err(Answer::text(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time\n")),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Ok(Err(TooLarge { declared })),
        Err(_) => Err(Answer::text(StatusCode::BAD_REQUEST, "the body ended early\n")),
    }
}

/// Too many bodies are being read.
fn no_room() -> Answer {
    let mut answer = Answer::text(StatusCode::SERVICE_UNAVAILABLE, "too much is being sent here, try again later\n");
    answer.headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// What became of a body.
enum Collected {
    Whole(Bytes),
    /// Its sender fell silent on the way, or is far too slow.
    Late,
    NoRoom,
}

async fn collected<B>(
    mut body: Limited<B>,
    idle_max: Duration,
    mut share: Option<&mut Share<'_>>,
) -> Result<Collected, BoxError>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    let deadline = Instant::now() + BODY_TIME_MAX;
    let mut whole = BytesMut::new();
    loop {
        let until = deadline.min(Instant::now() + idle_max);
        match timeout_at(until, body.frame()).await {
            Err(_) => return Ok(Collected::Late),
            Ok(None) => return Ok(Collected::Whole(whole.freeze())),
            Ok(Some(frame)) => {
                if let Ok(data) = frame?.into_data() {
                    if share.as_mut().is_some_and(|share| !share.take(data.len())) {
                        return Ok(Collected::NoRoom);
                    }
                    whole.extend_from_slice(&data);
                }
            }
        }
    }
}

async fn drain(body: Incoming, idle_max: Duration) {
    let mut body = Limited::new(body, DRAIN_BYTES_MAX);
    let deadline = Instant::now() + BODY_TIME_MAX;
    while let Ok(Some(Ok(_))) = timeout_at(deadline.min(Instant::now() + idle_max), body.frame()).await {}
}

fn response(answer: Answer, is_head: bool) -> Response<OutBody> {
    let body = match answer.content {
        Content::Whole(_) if is_head => Either::Left(Full::new(Bytes::new())),
        Content::Whole(bytes) => Either::Left(Full::new(bytes)),
        Content::Stream(stream) => Either::Right(stream),
    };
    let mut response = Response::new(body);
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    response
}
