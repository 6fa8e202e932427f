//! Terminals: asked for by an event, brought by a stream of their own, spoken to clients in Kubernetes' channels.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use thane_api::event::{Target, Type};
use thane_api::live::TerminalRequest;
use thane_api::wire::terminal::TerminalStreamData;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tonic::Status;

use super::answer::refusal;
use super::channels::{Protocol, Typed, ended, typed, written};
use super::sessions::{Session, TerminalSide, Wants};
use super::{Events, FIRST_TIMEOUT, PIECE_BYTES_MAX, ask};
use crate::proxy::{Body, Counted, SessionRecord, Unreachable};
use crate::transport::{Caller, Messages};

/// How long a session may last.
const SESSION_MAX: Duration = Duration::from_mins(30);
/// Argo CD's agent, told that nothing more is typed, may forget what was typed just before.
const BEFORE_END: Duration = Duration::from_millis(200);
/// How long either side may take to be told that it is over.
const TOLD_MAX: Duration = Duration::from_secs(5);
/// Messages that wait for a client, or for an agent; then the other side is not read.
const MESSAGES_MAX: usize = 8;

type Socket = WebSocketStream<Counted<TokioIo<Upgraded>>>;

/// The two ends of a session that are ours.
struct Ends {
    output: mpsc::Receiver<TerminalStreamData>,
    input: mpsc::Sender<TerminalStreamData>,
    session: Session,
}

impl Events {
    /// Opens a terminal; the answer is a WebSocket once the agent is there.
    pub(super) async fn exec(
        &self,
        agent: &str,
        asked: TerminalRequest,
        headers: &HeaderMap,
        (upgrade, record): (Option<OnUpgrade>, Option<SessionRecord>),
    ) -> Result<Response<Body>, Unreachable> {
        let (answer, protocol) = match agreement(headers) {
            Ok(agreed) => agreed,
            Err(reason) => return Ok(refusal(400, reason)),
        };
        let Some(upgrade) = upgrade else { return Ok(refusal(400, "a terminal needs a connection of its own")) };
        let line = self.line(agent)?;
        let (to_client, output) = mpsc::channel(MESSAGES_MAX);
        let (input, to_agent) = mpsc::channel(MESSAGES_MAX);
        let (opened, is_open) = oneshot::channel();
        let side = TerminalSide { output: to_client, input: to_agent, opened };
        let session = self.session(agent, Wants::Terminal(Some(side)))?;
        let request = TerminalRequest { uuid: session.uuid().to_owned(), ..asked };
        ask(agent, &line, Target::Terminal, Type::TerminalRequest, session.uuid(), &request)?;
        self.wait(agent, &line, is_open).await?;
        let (ends, stop) = (Ends { output, input, session }, self.0.tasks.token());
        self.0.tasks.spawn("terminal", async move {
            let Ok(upgraded) = upgrade.await else { return };
            let config = WebSocketConfig::default()
                .max_message_size(Some(PIECE_BYTES_MAX))
                .max_frame_size(Some(PIECE_BYTES_MAX));
            let stream = Counted::new(TokioIo::new(upgraded), record);
            let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
            tokio::select! {
                () = ends.bridge(socket, protocol) => {}
                () = stop.cancelled() => {}
            }
        });
        Ok(answer)
    }

    /// Takes a stream that brings a terminal.
    pub(super) async fn take_terminal(
        &self,
        caller: Caller,
        mut output: Messages<TerminalStreamData>,
    ) -> Result<Messages<TerminalStreamData>, Status> {
        let first = tokio::time::timeout(FIRST_TIMEOUT, output.next()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("the stream does not say whose it is"))?;
        let first = first.ok_or_else(|| Status::invalid_argument("an empty stream"))??;
        let side = self.0.sessions.terminal(&caller.agent, &first.request_uuid).map_err(|mismatch| {
            self.0.metrics.refused(mismatch.as_str());
            Status::not_found("unknown session id")
        })?;
        // Whoever asked may have gone; then nobody reads, and the stream ends.
        let _ = side.opened.send(());
        let (metrics, uuid) = (self.0.metrics.clone(), first.request_uuid.clone());
        let (to_client, stop) = (side.output, self.0.tasks.token());
        let forwarding = async move {
            let mut message = first;
            loop {
                if message.request_uuid != uuid || message.data.len() > PIECE_BYTES_MAX {
                    return metrics.refused("malformed");
                }
                if to_client.send(message).await.is_err() {
                    return;
                }
                let next = tokio::select! {
                    next = output.next() => next,
                    () = to_client.closed() => return,
                };
                let Some(Ok(next)) = next else { return };
                message = next;
            }
        };
        self.0.tasks.spawn("terminal-output", async move {
            tokio::select! {
                () = forwarding => {}
                () = stop.cancelled() => {}
            }
        });
        Ok(Box::pin(ReceiverStream::new(side.input).map(Ok)))
    }
}

/// The answer that makes a connection a WebSocket, and what is spoken in it.
fn agreement(headers: &HeaderMap) -> Result<(Response<Body>, Protocol), &'static str> {
    let has = |name, wanted: &str| {
        let lines = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        lines.flat_map(|line| line.split(',')).any(|word| word.trim().eq_ignore_ascii_case(wanted))
    };
    if !has(UPGRADE, "websocket") || !has(CONNECTION, "upgrade") || !has(SEC_WEBSOCKET_VERSION, "13") {
        return Err("a terminal is opened with a WebSocket");
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).ok_or("the WebSocket has no key")?;
    let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes())).map_err(|_| "the WebSocket's key is none")?;
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let protocol = Protocol::choose(offered).ok_or("none of the protocols is known; v5.channel.k8s.io is")?;
    let mut response = Response::new(Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let own = [
        (CONNECTION, HeaderValue::from_static("Upgrade")),
        (UPGRADE, HeaderValue::from_static("websocket")),
        (SEC_WEBSOCKET_ACCEPT, accept),
        (SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol.name())),
    ];
    response.headers_mut().extend(own.map(|(name, value)| (Some(name), value)));
    Ok((response, protocol))
}

impl Ends {
    /// Carries what is typed and what is written, until either side ends.
    async fn bridge(self, socket: Socket, protocol: Protocol) {
        let Self { output, input, session } = self;
        let (mut sink, stream) = socket.split();
        let uuid = session.uuid().to_owned();
        let told = tokio::select! {
            told = show(&mut sink, output) => told,
            () = keys(stream, &input, protocol, &uuid) => return tell_gone(&input, uuid).await,
            () = tokio::time::sleep(SESSION_MAX) => {
                Told { error: Some("the session has lasted as long as it may".to_owned()), by_agent: false }
            }
        };
        if let Some(last) = ended(protocol, told.error.as_deref()) {
            // A client that has gone does not want to know.
            let _ = tokio::time::timeout(TOLD_MAX, sink.send(Message::Binary(last))).await;
        }
        // Without a code, clients take it for an accident and do not believe how the command ended.
        let farewell = CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() };
        let farewell = async {
            let _ = sink.send(Message::Close(Some(farewell))).await;
            let _ = sink.close().await;
        };
        let _ = tokio::time::timeout(TOLD_MAX, farewell).await;
        if !told.by_agent {
            tell_gone(&input, uuid).await;
        }
        drop(session);
    }
}

/// Argo CD's agent breaks off the command only when it is told of an error.
async fn tell_gone(input: &mpsc::Sender<TerminalStreamData>, uuid: String) {
    let error = "the user has gone".to_owned();
    let last = TerminalStreamData { request_uuid: uuid, error, ..TerminalStreamData::default() };
    // What was typed before it may fill the queue; an agent that does not take it for so long takes nothing.
    let _ = tokio::time::timeout(TOLD_MAX, input.send(last)).await;
}

/// How a command ended, and whether the agent said so.
struct Told {
    error: Option<String>,
    by_agent: bool,
}

/// Shows what the command writes until it ends.
async fn show(sink: &mut SplitSink<Socket, Message>, mut output: mpsc::Receiver<TerminalStreamData>) -> Told {
    while let Some(message) = output.recv().await {
        if !message.data.is_empty() {
            let frame = written(&message.stream_type, &message.data);
            if sink.send(Message::Binary(frame)).await.is_err() {
                return Told { error: Some("the client has gone".to_owned()), by_agent: false };
            }
        }
        if !message.error.is_empty() {
            return Told { error: Some(message.error), by_agent: true };
        }
        if message.eof {
            return Told { error: None, by_agent: true };
        }
    }
    Told { error: Some("the connection to the agent was lost".to_owned()), by_agent: true }
}

/// Passes on what is typed until the client has gone.
async fn keys(
    mut stream: SplitStream<Socket>,
    input: &mpsc::Sender<TerminalStreamData>,
    protocol: Protocol,
    uuid: &str,
) {
    while let Some(Ok(message)) = stream.next().await {
        let message = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => Bytes::from(text.as_bytes().to_vec()),
            Message::Close(_) => return,
            _ => continue,
        };
        let empty = TerminalStreamData { request_uuid: uuid.to_owned(), ..TerminalStreamData::default() };
        let told = match typed(protocol, &message) {
            Typed::Keys(data) => TerminalStreamData { data, stream_type: "stdin".to_owned(), ..empty },
            Typed::Size { cols, rows } => TerminalStreamData { resize: true, cols, rows, ..empty },
            Typed::End => {
                tokio::time::sleep(BEFORE_END).await;
                TerminalStreamData { eof: true, ..empty }
            }
            Typed::Nothing => continue,
        };
        if input.send(told).await.is_err() {
            // The agent's end shows in what it wrote last.
            return std::future::pending().await;
        }
    }
}
