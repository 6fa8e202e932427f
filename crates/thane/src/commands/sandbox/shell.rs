//! `thane sandbox shell`: a terminal in a sandbox.

use std::io::{self, IsTerminal, Write};

use clap::Args;
use futures::{SinkExt, StreamExt};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use serde_json::{Value, json};
use thane_api::code;
use thane_runtime::net::{Connector, Tcp};
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use super::super::rows::{segment, text};
use super::gateway::Gateway;
use crate::failure::Failure;
use crate::plain::split;

/// Open a shell in a sandbox; it ends with the shell's exit code
#[derive(Debug, Args)]
pub(crate) struct Shell {
    /// The sandbox
    name: String,
    #[command(flatten)]
    gateway: Gateway,
}

/// A terminal that passes every key on, until it is dropped.
struct Raw(Termios);

impl Raw {
    fn enter() -> Option<Self> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return None;
        }
        let before = tcgetattr(&stdin).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Now, &raw).ok()?;
        Some(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // Without its terminal there is nobody left to tell.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

impl Shell {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let address = self.gateway.address()?;
        let unreachable = |error: &dyn std::fmt::Display| {
            Failure::new(code::GATEWAY_UNREACHABLE, format!("http://{address}: {error}"))
        };
        let (host, port) = split(&address).ok_or_else(|| unreachable(&"no address"))?;
        let url = format!("ws://{address}/v1/sessions/{}/shell", segment(&self.name));
        let mut request = url.into_client_request().map_err(|error| Failure::new(code::USAGE, error.to_string()))?;
        if let Some(key) = self.gateway.key() {
            let value = format!("Bearer {key}").parse();
            let value = value.map_err(|_| Failure::new(code::USAGE, "that key cannot be sent in a header"))?;
            request.headers_mut().insert(http::header::AUTHORIZATION, value);
        }
        let stream = Tcp.connect(&host, port).await.map_err(|error| unreachable(&error))?;
        let (mut socket, _) = client_async(request, stream).await.map_err(|error| unreachable(&error))?;
        let raw = Raw::enter();
        let mut resized = signal(SignalKind::window_change()).map_err(|error| unreachable(&error))?;
        let (mut stdin, mut keys, mut typing) = (tokio::io::stdin(), vec![0; 4096], true);
        let mut first = size();
        loop {
            if let Some(size) = first.take() {
                socket.send(Message::text(size.to_string())).await.map_err(|error| unreachable(&error))?;
            }
            tokio::select! {
                heard = socket.next() => match heard {
                    Some(Ok(Message::Text(words))) => {
                        let said: Value = serde_json::from_str(words.as_str()).unwrap_or_default();
                        if let Some(exit) = hear(&said)? {
                            drop(raw);
                            return if exit == 0 { Ok(()) } else { Err(Failure::ended(exit)) };
                        }
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(unreachable(&error)),
                    None => return Err(Failure::new(code::SANDBOX_LOST, "the shell was cut off")),
                },
                count = stdin.read(&mut keys), if typing => {
                    let count = count.unwrap_or_default();
                    typing = count > 0;
                    // The end of input is what a terminal sends for it.
                    let data = if typing { String::from_utf8_lossy(&keys[..count]).into_owned() } else { "\u{4}".to_owned() };
                    let message = json!({"type": "input", "data": data});
                    socket.send(Message::text(message.to_string())).await.map_err(|error| unreachable(&error))?;
                }
                _ = resized.recv() => first = size(),
            }
        }
    }
}

fn size() -> Option<Value> {
    let size = tcgetwinsize(io::stdin()).ok().filter(|size| size.ws_col > 0)?;
    Some(json!({"type": "resize", "rows": size.ws_row, "cols": size.ws_col}))
}

/// Shows what a shell says; its exit code, once it has ended.
fn hear(said: &Value) -> Result<Option<u8>, Failure> {
    match said["type"].as_str().unwrap_or_default() {
        "output" => {
            let mut stdout = io::stdout().lock();
            let bytes = said["data"].as_str().unwrap_or_default().as_bytes();
            stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|_| Failure::output_closed())?;
            Ok(None)
        }
        "exit" => Ok(Some(said["exit_code"].as_u64().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))),
        "error" => Err(Failure::new(code::SANDBOX_LOST, text(said, "/data"))),
        _ => Ok(None),
    }
}
