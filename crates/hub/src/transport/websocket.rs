//! gRPC over WebSocket, for where something in between speaks only HTTP/1.1: one socket is one call.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame as BodyFrame, Incoming};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use thane_api::frame::{Cutter, Frame, PREFIX, PROTOCOL};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tonic::Status;
use tonic::body::Body;

use super::connection::{Connection, Door};

/// Pieces of a call's body that wait to be read.
const PIECES: usize = 4;
const GRPC_STATUS: &str = "grpc-status";

type Socket = WebSocketStream<TokioIo<Upgraded>>;
type Piece = Result<BodyFrame<Bytes>, Status>;

/// Whether a request asks for gRPC over a WebSocket.
pub(super) fn is_asked_for(request: &Request<Incoming>) -> bool {
    let has = |name, word: &str| {
        let values = request.headers().get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(word))
    };
    request.method() == Method::GET && has(UPGRADE, "websocket") && has(SEC_WEBSOCKET_PROTOCOL, PROTOCOL)
}

/// Agrees to a WebSocket, and serves the call in it.
pub(super) fn upgrade(door: Arc<Door>, connection: Arc<Connection>, mut request: Request<Incoming>) -> Response<Body> {
    let version = request.headers().get(SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13");
    let key = request.headers().get(SEC_WEBSOCKET_KEY).filter(|_| version);
    let accept = key.and_then(|key| HeaderValue::try_from(derive_accept_key(key.as_bytes())).ok());
    let mut response = Response::new(Body::empty());
    let Some(accept) = accept else {
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return response;
    };
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    connection.upgraded.cancel();
    let upgraded = hyper::upgrade::on(&mut request);
    let call = call(&request);
    let tasks = door.tasks().clone();
    tasks.spawn("websocket", async move {
        let work = async {
            match upgraded.await {
                Ok(upgraded) => bridge(&door, &connection, upgraded, call).await,
                Err(error) => tracing::debug!(%error, peer = %connection.peer.address, "no websocket after all"),
            }
        };
        door.until_cut(&connection, work).await;
    });
    response
}

/// The call that an HTTP/1.1 request stands for, without what belongs to the WebSocket alone.
fn call(request: &Request<Incoming>) -> Request<()> {
    let mut call = Request::new(());
    *call.method_mut() = Method::POST;
    *call.version_mut() = http::Version::HTTP_2;
    *call.uri_mut() = request.uri().path().parse().unwrap_or_default();
    let own = [CONNECTION, CONTENT_LENGTH, HOST, TE, TRANSFER_ENCODING, UPGRADE];
    let is_own = |name: &http::HeaderName| own.contains(name) || name.as_str().starts_with("sec-websocket-");
    for (name, value) in request.headers().iter().filter(|(name, _)| !is_own(name)) {
        call.headers_mut().append(name.clone(), value.clone());
    }
    call.headers_mut().entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/grpc"));
    call.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
    call
}

async fn bridge(door: &Door, connection: &Arc<Connection>, upgraded: Upgraded, call: Request<()>) {
    let limit = door.config().message_bytes_max;
    let config = WebSocketConfig::default()
        .max_message_size(Some(limit.saturating_add(PREFIX)))
        .max_frame_size(Some(limit.saturating_add(PREFIX)));
    let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await;
    let (mut sink, stream) = socket.split();
    let (pieces, body) = mpsc::channel(PIECES);
    let body = Body::new(StreamBody::new(ReceiverStream::new(body)));
    let silence = door.config().keepalive_interval + door.config().keepalive_timeout;
    let reading = read(stream, pieces, limit, silence);
    let answering = async {
        let response = door.call(connection, call.map(|()| body)).await;
        let answered = answer(&mut sink, response, limit, door.config().keepalive_interval).await;
        let _ = sink.close().await;
        answered
    };
    tokio::select! {
        () = reading => {}
        answered = answering => if let Err(error) = answered {
            tracing::debug!(%error, peer = %connection.peer.address, "websocket ended");
        }
    }
}

/// Passes on what comes until the socket ends; silent peers are gone, because living ones answer pings.
async fn read(mut stream: SplitStream<Socket>, pieces: mpsc::Sender<Piece>, limit: usize, silence: Duration) {
    let mut pieces = Some(pieces);
    while let Ok(Some(Ok(message))) = tokio::time::timeout(silence, stream.next()).await {
        let frame = match message {
            Message::Binary(bytes) => Frame::read(bytes, limit),
            Message::Close(_) => return,
            _ => continue,
        };
        let piece = match frame {
            Ok(Frame::Data(bytes)) => Ok(BodyFrame::data(bytes)),
            Ok(Frame::End) => {
                // What follows is of interest only for noticing that the peer has gone.
                pieces = None;
                continue;
            }
            Ok(Frame::Metadata(_)) => Err(Status::invalid_argument("a client sends no trailers")),
            Err(error) => Err(Status::invalid_argument(error.to_string())),
        };
        if let Some(pieces) = &pieces {
            // Nobody reads once the call is over, while its answer is still being written.
            let _ = pieces.send(piece).await;
        }
    }
}

async fn answer(
    sink: &mut SplitSink<Socket, Message>,
    response: Response<Body>,
    limit: usize,
    keepalive: Duration,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (parts, mut body) = response.into_parts();
    let is_all = parts.headers.contains_key(GRPC_STATUS);
    sink.send(Message::Binary(Frame::Metadata(parts.headers).write())).await?;
    if is_all {
        return Ok(());
    }
    let mut cutter = Cutter::new(limit.max(usize::try_from(u32::MAX).unwrap_or(limit)));
    let mut trailers = HeaderMap::new();
    loop {
        let frame = match tokio::time::timeout(keepalive, body.frame()).await {
            Ok(Some(frame)) => frame?,
            Ok(None) => break,
            Err(_) => {
                sink.send(Message::Ping(Bytes::new())).await?;
                continue;
            }
        };
        match frame.into_data() {
            Ok(data) => {
                cutter.push(data);
                while let Some(frame) = cutter.next_frame()? {
                    sink.feed(Message::Binary(frame.write())).await?;
                }
                sink.flush().await?;
            }
            Err(frame) => trailers.extend(frame.into_trailers().unwrap_or_default()),
        }
    }
    sink.send(Message::Binary(Frame::Metadata(trailers).write())).await?;
    Ok(())
}
