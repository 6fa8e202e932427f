//! A shell with a terminal, over a WebSocket.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use http::header::{CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderValue, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use thane_api::wire::sidecar::{ShellInput, ShellOutput, shell_input};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tonic::Streaming;

use super::Shared;
use super::bodies::ShellMessage;
use super::failure::{Failure, Result};
use super::keys::Caller;
use super::read::{Asked, At};
use super::routes::InNamespace;
use super::sessions::Session;
use super::sidecars::Sidecar;
use super::text::Pieces;

/// The largest message of a client.
const MESSAGE_MAX: usize = 1 << 20;
/// Input that waits for the sandbox.
const INPUT_MAX: usize = 32;
/// A client that is silent is asked for a sign of life so often, and is gone after three without one.
const PING: Duration = Duration::from_secs(20);

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Agrees to a WebSocket once there is a shell.
pub(super) async fn shell(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    At(id): At,
    Asked(InNamespace { namespace }): Asked<InNamespace>,
    mut request: Request,
) -> Result<Response> {
    let accept = accept(&request)?;
    let session = shared.session(&id, namespace.as_deref(), &caller).await?;
    let sidecar = shared.proven(&session).await?;
    let (input, inputs) = mpsc::channel(INPUT_MAX);
    let output = match sidecar.agent().interactive_shell(ReceiverStream::new(inputs)).await {
        Ok(output) => output.into_inner(),
        Err(status) => return Err(shared.verdict(&session, status).await),
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let open = Open { shared: Arc::clone(&shared), session, input, output, _sidecar: sidecar };
    shared.tasks.spawn("shell", open.serve(upgrade));
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    Ok(response)
}

fn accept(request: &Request) -> Result<HeaderValue> {
    let has = |name: HeaderName, word: &str| {
        let values = request.headers().get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(word))
    };
    let is_asked = has(UPGRADE, "websocket") && has(SEC_WEBSOCKET_VERSION, "13");
    let key = request.headers().get(SEC_WEBSOCKET_KEY).filter(|_| is_asked);
    let accept = key.and_then(|key| HeaderValue::try_from(derive_accept_key(key.as_bytes())).ok());
    accept.ok_or_else(|| Failure::bad("a shell is spoken to over a WebSocket"))
}

/// A shell somebody is at.
struct Open {
    shared: Arc<Shared>,
    session: Arc<Session>,
    input: mpsc::Sender<ShellInput>,
    output: Streaming<ShellOutput>,
    // As long as it is used, its connection is.
    _sidecar: Sidecar,
}

impl Open {
    async fn serve(self, upgrade: OnUpgrade) {
        let upgraded = match upgrade.await {
            Ok(upgraded) => upgraded,
            Err(error) => return tracing::debug!(%error, "no websocket after all"),
        };
        let config = WebSocketConfig::default().max_message_size(Some(MESSAGE_MAX)).max_frame_size(Some(MESSAGE_MAX));
        let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await;
        let (mut sink, stream) = socket.split();
        let (tell, told) = mpsc::channel(1);
        let tasks = self.shared.tasks.clone();
        let writing = async {
            write(&self.shared, &self.session, self.output, told, &mut sink).await;
            let _ = sink.close().await;
        };
        tokio::select! {
            () = writing => {}
            () = read(stream, self.input, tell) => {}
            () = tasks.cancelled() => {}
        }
    }
}

/// Passes on what the client says, until it leaves.
async fn read(mut stream: SplitStream<Socket>, input: mpsc::Sender<ShellInput>, tell: mpsc::Sender<String>) {
    // Pings are answered: who says nothing for so long is gone.
    while let Ok(Some(Ok(message))) = tokio::time::timeout(3 * PING, stream.next()).await {
        let text = match &message {
            Message::Text(text) => text.as_str(),
            Message::Binary(bytes) => std::str::from_utf8(bytes).unwrap_or_default(),
            Message::Close(_) => return,
            _ => continue,
        };
        match wire(text) {
            Ok(message) => {
                if input.send(message).await.is_err() {
                    // The shell has ended; what it said last is still being told.
                    std::future::pending::<()>().await;
                }
            }
            Err(reason) => {
                if tell.send(reason).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// A message as the sidecar takes it.
fn wire(text: &str) -> Result<ShellInput, String> {
    let message: ShellMessage = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match message.kind.as_str() {
        "input" => {
            let data = message.data.unwrap_or_default();
            Ok(ShellInput { input: Some(shell_input::Input::Data(data)), ..ShellInput::default() })
        }
        "signal" => {
            let signal = message.signal.or(message.data).unwrap_or_default();
            Ok(ShellInput { input: Some(shell_input::Input::Signal(signal)), ..ShellInput::default() })
        }
        "resize" => {
            let (rows, cols) = (message.rows.unwrap_or(24), message.cols.unwrap_or(80));
            if rows < 1 || cols < 1 {
                return Err("rows and cols must be above zero".to_owned());
            }
            Ok(ShellInput { resize: true, rows, cols, ..ShellInput::default() })
        }
        other => Err(format!("type {other:?} is not input, signal or resize")),
    }
}

/// Passes on what the shell says, until it ends.
async fn write(
    shared: &Shared,
    session: &Session,
    mut output: Streaming<ShellOutput>,
    mut told: mpsc::Receiver<String>,
    sink: &mut SplitSink<Socket, Message>,
) {
    let mut pieces = Pieces::default();
    loop {
        let message = tokio::select! {
            Some(reason) = told.recv() => said("error", reason),
            next = tokio::time::timeout(PING, output.message()) => match next {
                Err(_) => Message::Ping(bytes::Bytes::new()),
                Ok(Ok(Some(output))) if output.closed => {
                    let left = pieces.push(&output.data).unwrap_or_default();
                    let left = [left, pieces.finish().unwrap_or_default()].concat();
                    if !left.is_empty() && sink.send(said("output", lossy(&left))).await.is_err() {
                        return;
                    }
                    let exit = ShellMessage { exit_code: Some(output.exit_code), ..kind("exit") };
                    let _ = sink.send(text(&exit)).await;
                    return;
                }
                Ok(Ok(Some(output))) => match pieces.push(&output.data) {
                    Some(piece) => said("output", lossy(&piece)),
                    None => continue,
                },
                Ok(Ok(None)) => return,
                Ok(Err(status)) => {
                    let failure = shared.verdict(session, status).await;
                    let _ = sink.send(said("error", format!("{}: {}", failure.kind.word(), failure.message))).await;
                    return;
                }
            },
        };
        if sink.send(message).await.is_err() {
            return;
        }
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn kind(kind: &str) -> ShellMessage {
    ShellMessage { kind: kind.to_owned(), ..ShellMessage::default() }
}

fn said(what: &str, data: String) -> Message {
    text(&ShellMessage { data: Some(data), ..kind(what) })
}

fn text(message: &ShellMessage) -> Message {
    Message::text(serde_json::to_string(message).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_a_client_are_read() {
        let data = |text: &str| Some(shell_input::Input::Data(text.to_owned()));
        assert_eq!(wire(r#"{"type": "input", "data": "ls\n"}"#).unwrap().input, data("ls\n"));
        let resized = wire(r#"{"type": "resize", "rows": 10, "cols": 20}"#).unwrap();
        assert_eq!((resized.resize, resized.rows, resized.cols), (true, 10, 20));
        let signal = wire(r#"{"type": "signal", "signal": "SIGINT"}"#).unwrap();
        assert_eq!(signal.input, Some(shell_input::Input::Signal("SIGINT".to_owned())));
        for wrong in ["", "{}", r#"{"type": "output"}"#, r#"{"type": "resize", "rows": 0}"#, "[1]"] {
            assert!(wire(wrong).is_err(), "{wrong}");
        }
    }
}
