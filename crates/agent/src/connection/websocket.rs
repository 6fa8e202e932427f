//! gRPC over WebSocket, for where something in between speaks only HTTP/1.1: each call is a socket of its own.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use http::header::{CONNECTION, HOST, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame as BodyFrame;
use thane_api::frame::{Cutter, Frame, PREFIX, PROTOCOL};
use thane_runtime::Tasks;
use thane_runtime::net::BoxIo;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;

use super::channel::{BoxError, Line};

/// Pieces of an answer that wait to be read.
const PIECES: usize = 4;
/// How often a socket is asked for a sign of life when nothing else says so.
const KEEPALIVE: Duration = Duration::from_secs(30);
const GRPC_STATUS: &str = "grpc-status";

type Socket = WebSocketStream<BoxIo>;
type Piece = Result<BodyFrame<Bytes>, Status>;

/// Makes a socket for each call.
#[derive(Clone)]
pub(super) struct Sockets {
    line: Line,
    close: CancellationToken,
    tasks: Tasks,
}

impl Sockets {
    pub(super) fn new(line: Line, close: CancellationToken, tasks: Tasks) -> Self {
        Self { line, close, tasks }
    }

    /// Makes one call.
    pub(super) async fn call(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (parts, body) = request.into_parts();
        let limit = self.line.config.message_bytes_max;
        let config = WebSocketConfig::default()
            .max_message_size(Some(limit.saturating_add(PREFIX)))
            .max_frame_size(Some(limit.saturating_add(PREFIX)));
        let stream = self.line.open(b"http/1.1").await?;
        let asking = upgrade(&self.line.address(), &parts.uri, &parts.headers)?;
        let shaking = tokio_tungstenite::client_async_with_config(asking, stream, Some(config));
        let shaken = tokio::time::timeout(self.line.config.connect_timeout, shaking).await;
        let (socket, agreed) = match shaken.map_err(|_| self.line.late(super::Step::Http))? {
            Ok(shaken) => shaken,
            Err(SocketError::Http(response)) => return Ok(refused(response.status())),
            Err(error) => return Err(error.into()),
        };
        if agreed.headers().get(SEC_WEBSOCKET_PROTOCOL).is_none_or(|protocol| protocol != PROTOCOL) {
            return Ok(refused(StatusCode::NOT_IMPLEMENTED));
        }
        let (head, answered) = oneshot::channel();
        let (pieces, received) = mpsc::channel(PIECES);
        let keepalive = self.line.config.keepalive_interval.unwrap_or(KEEPALIVE);
        let silence = keepalive + self.line.config.keepalive_timeout;
        let close = self.close;
        self.tasks.spawn("websocket", async move {
            let (sink, stream) = socket.split();
            tokio::select! {
                () = close.cancelled() => {}
                () = pieces.closed() => {}
                () = write(sink, body, keepalive) => {}
                () = read(stream, head, &pieces, limit, silence) => {}
            }
        });
        let headers = answered.await.map_err(|_| "the socket was closed before the answer")?;
        let mut response = Response::new(Body::new(StreamBody::new(ReceiverStream::new(received))));
        *response.headers_mut() = headers;
        Ok(response)
    }
}

/// The request that turns a connection into a socket for this call.
fn upgrade(address: &str, uri: &Uri, headers: &HeaderMap) -> Result<Request<()>, BoxError> {
    let mut request = Request::new(());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = Uri::builder().scheme("ws").authority(address).path_and_query(uri.path()).build()?;
    let own: [(HeaderName, String); 6] = [
        (HOST, address.to_owned()),
        (CONNECTION, "Upgrade".to_owned()),
        (UPGRADE, "websocket".to_owned()),
        (SEC_WEBSOCKET_VERSION, "13".to_owned()),
        (SEC_WEBSOCKET_KEY, generate_key()),
        (SEC_WEBSOCKET_PROTOCOL, PROTOCOL.to_owned()),
    ];
    for (name, value) in own {
        request.headers_mut().insert(name, HeaderValue::try_from(value)?);
    }
    for (name, value) in headers.iter().filter(|(name, _)| *name != http::header::TE) {
        request.headers_mut().append(name.clone(), value.clone());
    }
    Ok(request)
}

/// What gRPC makes of an answer that is none of gRPC's.
fn refused(status: StatusCode) -> Response<Body> {
    let message = format!("no WebSocket: {status}");
    let status = match status {
        StatusCode::BAD_REQUEST => Status::internal(message),
        StatusCode::UNAUTHORIZED => Status::unauthenticated(message),
        StatusCode::FORBIDDEN => Status::permission_denied(message),
        StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED | StatusCode::HTTP_VERSION_NOT_SUPPORTED => {
            Status::unimplemented(message)
        }
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Status::unavailable(message),
        _ => Status::unknown(message),
    };
    status.into_http()
}

/// Sends the call's messages, then its end, then pings until the socket is closed.
async fn write(mut sink: SplitSink<Socket, Message>, mut body: Body, keepalive: Duration) {
    let mut cutter = Cutter::new(usize::try_from(u32::MAX).unwrap_or(usize::MAX));
    let mut has_ended = false;
    loop {
        let next = async {
            if has_ended {
                return std::future::pending().await;
            }
            body.frame().await
        };
        let Ok(frame) = tokio::time::timeout(keepalive, next).await else {
            if sink.send(Message::Ping(Bytes::new())).await.is_err() {
                return;
            }
            continue;
        };
        let sent = match frame {
            Some(Ok(frame)) => {
                cutter.push(frame.into_data().unwrap_or_default());
                send_frames(&mut sink, &mut cutter).await
            }
            Some(Err(_)) => return,
            None => {
                has_ended = true;
                sink.send(Message::Binary(Frame::End.write())).await.map_err(Into::into)
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn send_frames(sink: &mut SplitSink<Socket, Message>, cutter: &mut Cutter) -> Result<(), BoxError> {
    while let Some(frame) = cutter.next_frame()? {
        sink.feed(Message::Binary(frame.write())).await?;
    }
    Ok(sink.flush().await?)
}

/// Passes on the answer: headers, messages, trailers.
async fn read(
    mut stream: SplitStream<Socket>,
    head: oneshot::Sender<HeaderMap>,
    pieces: &mpsc::Sender<Piece>,
    limit: usize,
    silence: Duration,
) {
    let mut head = Some(head);
    let broken = loop {
        let message = match tokio::time::timeout(silence, stream.next()).await {
            Ok(Some(Ok(message))) => message,
            Ok(Some(Err(error))) => break Status::unavailable(error.to_string()),
            Ok(None) => break Status::unavailable("the socket was closed"),
            Err(_) => break Status::unavailable("the hub gives no sign of life"),
        };
        let frame = match message {
            Message::Binary(bytes) => Frame::read(bytes, limit),
            Message::Close(_) => break Status::unavailable("the hub closed the socket"),
            _ => continue,
        };
        match (frame, head.take()) {
            (Ok(Frame::Metadata(headers)), Some(head)) => {
                let is_all = headers.contains_key(GRPC_STATUS);
                if head.send(headers).is_err() || is_all {
                    return;
                }
            }
            (Ok(Frame::Metadata(trailers)), None) => {
                let _ = pieces.send(Ok(BodyFrame::trailers(trailers))).await;
                return;
            }
            (Ok(Frame::Data(bytes)), None) => {
                if pieces.send(Ok(BodyFrame::data(bytes))).await.is_err() {
                    return;
                }
            }
            (Err(error), _) => break Status::internal(error.to_string()),
            (Ok(_), _) => break Status::internal("the hub sent frames out of order"),
        }
    };
    let _ = pieces.send(Err(broken)).await;
}
