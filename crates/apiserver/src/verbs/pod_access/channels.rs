//! `v5.channel.k8s.io` and its elders: messages whose first byte says which stream they are of.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use thane_runtime::pods::{ExecInput, ExecOutput, ExecSession, PodAccess};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::PodAt;
use super::websocket::Socket;

/// For commands, the best first.
pub(super) const PROTOCOLS: [&str; 3] = ["v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io"];
/// For ports.
pub(super) const PORT_PROTOCOLS: [&str; 3] = [super::forward::PROTOCOL, "v4.channel.k8s.io", "portforward.k8s.io"];

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// The stream named by the next byte ends.
const CLOSE: u8 = 255;
/// Messages that wait to be sent.
pub(super) const QUEUE: usize = 16;
pub(super) const PIECE: usize = 32 * 1024;
/// A client that is silent for so long is asked whether it is there.
pub(super) const PING: Duration = Duration::from_secs(20);
/// A client that does not close after the end is left.
pub(super) const LINGER: Duration = Duration::from_secs(5);

/// Streams a client wants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Streams {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) of: Process,
}

/// Whom they are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Process {
    /// A command that was asked for.
    Command,
    /// The container's own, whose exit code is told by the pod's status, not here.
    Container,
}

fn message(channel: u8, bytes: &[u8]) -> Message {
    let mut all = Vec::with_capacity(bytes.len() + 1);
    all.push(channel);
    all.extend_from_slice(bytes);
    Message::Binary(all.into())
}

/// The end of a socket as it should be: clients take one without a code for a failure.
pub(super) fn farewell() -> Message {
    Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() }))
}

/// How a command ended, as the last message says it.
fn ended(code: i32) -> Value {
    if code == 0 {
        return json!({"metadata": {}, "status": "Success"});
    }
    json!({
        "metadata": {},
        "status": "Failure",
        "message": format!("command terminated with non-zero exit code: command terminated with exit code {code}"),
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
    })
}

fn lost(why: &str) -> Value {
    json!({"metadata": {}, "status": "Failure", "message": why, "reason": "InternalError", "code": 500})
}

/// Tells that a command was not started.
pub(super) async fn refuse(mut socket: Socket, why: String) {
    let status = lost(&format!("error executing command in container: {why}"));
    let _ = socket.send(message(ERROR, status.to_string().as_bytes())).await;
    finish(socket).await;
}

/// Closes, and waits a moment until the client has heard it all.
async fn finish(mut socket: Socket) {
    let closing = async {
        let _ = socket.send(farewell()).await;
        while let Some(Ok(_)) = socket.next().await {}
    };
    let _ = tokio::time::timeout(LINGER, closing).await;
}

/// Serves a command until it or its client ends. Both directions go on by themselves, so that neither waits for the
/// other.
pub(super) async fn exec(socket: Socket, session: ExecSession, streams: Streams) {
    let ExecSession { input, output } = session;
    let (mut sink, stream) = socket.split();
    let mut hearing = std::pin::pin!(hear(stream, input, streams));
    let told = tokio::select! {
        told = tell(&mut sink, output, streams) => told,
        () = &mut hearing => false,
    };
    if told {
        let closing = async {
            let _ = sink.send(farewell()).await;
            hearing.await;
        };
        let _ = tokio::time::timeout(LINGER, closing).await;
    }
}

/// Sends what a command says; whether its end was sent.
async fn tell(sink: &mut SplitSink<Socket, Message>, mut output: mpsc::Receiver<ExecOutput>, streams: Streams) -> bool {
    // Clients wait for a sign that the streams are open.
    let first = match streams {
        Streams { stdout: true, .. } => STDOUT,
        Streams { stderr: true, .. } => STDERR,
        Streams { .. } => ERROR,
    };
    let mut alive = sink.send(message(first, &[])).await.is_ok();
    let mut pings = tokio::time::interval(PING);
    while alive {
        let said = tokio::select! {
            said = output.recv() => said,
            _ = pings.tick() => {
                alive = sink.send(Message::Ping(Bytes::new())).await.is_ok();
                continue;
            }
        };
        let (last, sent) = match said {
            Some(ExecOutput::Stdout(bytes)) if streams.stdout => (false, message(STDOUT, &bytes)),
            Some(ExecOutput::Stderr(bytes)) if streams.stderr => (false, message(STDERR, &bytes)),
            Some(ExecOutput::Stdout(_) | ExecOutput::Stderr(_)) => continue,
            Some(ExecOutput::Exited(code)) => {
                let code = if streams.of == Process::Container { 0 } else { code };
                (true, message(ERROR, ended(code).to_string().as_bytes()))
            }
            Some(ExecOutput::Lost(why)) => (true, message(ERROR, lost(&why).to_string().as_bytes())),
            None => (true, message(ERROR, lost("the command is lost").to_string().as_bytes())),
        };
        alive = sink.send(sent).await.is_ok();
        if last {
            return alive;
        }
    }
    false
}

/// Passes on what the client says, until it has gone.
async fn hear(mut stream: SplitStream<Socket>, input: mpsc::Sender<ExecInput>, streams: Streams) {
    while let Some(Ok(heard)) = stream.next().await {
        match heard {
            Message::Binary(bytes) => {
                if let Some(said) = read(&bytes, streams) {
                    // A command that has ended takes no more; its end is on its way.
                    let _ = input.send(said).await;
                }
            }
            Message::Close(_) => return,
            _ => {}
        }
    }
}

/// What one message of a client says.
fn read(bytes: &[u8], streams: Streams) -> Option<ExecInput> {
    let (channel, rest) = bytes.split_first()?;
    match (*channel, rest) {
        (STDIN, rest) if streams.stdin => Some(ExecInput::Stdin(Bytes::copy_from_slice(rest))),
        (CLOSE, [STDIN]) if streams.stdin => Some(ExecInput::CloseStdin),
        (RESIZE, rest) => resize(rest),
        _ => None,
    }
}

fn resize(json: &[u8]) -> Option<ExecInput> {
    let size: Value = serde_json::from_slice(json).ok()?;
    let number = |name: &str| u16::try_from(size[name].as_u64()?).ok();
    Some(ExecInput::Resize { rows: number("Height")?, cols: number("Width")? })
}

/// Serves connections to ports: each has a channel for data and one for errors.
pub(super) async fn port_forward(socket: Socket, access: Arc<dyn PodAccess>, pod: PodAt, ports: Vec<u16>) {
    let (sink, stream) = socket.split();
    let (tell, messages) = mpsc::channel(QUEUE);
    let mut inputs = BTreeMap::new();
    let mut serving = Vec::new();
    for (index, port) in ports.into_iter().enumerate() {
        let channel = u8::try_from(index * 2).unwrap_or(u8::MAX);
        let (input, data) = mpsc::channel(QUEUE);
        inputs.insert(channel, input);
        serving.push(one_port(Arc::clone(&access), pod.clone(), port, channel, data, tell.clone()));
    }
    drop(tell);
    tokio::select! {
        () = send_all(sink, messages) => {}
        () = read_all(stream, inputs) => {}
        () = async {
            futures::future::join_all(serving).await;
            std::future::pending::<()>().await;
        } => {}
    }
}

async fn send_all(mut sink: SplitSink<Socket, Message>, mut messages: mpsc::Receiver<Message>) {
    let mut pings = tokio::time::interval(PING);
    loop {
        let sent = tokio::select! {
            message = messages.recv() => match message {
                Some(message) => sink.send(message).await,
                None => {
                    let _ = tokio::time::timeout(LINGER, sink.send(farewell())).await;
                    return;
                }
            },
            _ = pings.tick() => sink.send(Message::Ping(Bytes::new())).await,
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn read_all(mut stream: SplitStream<Socket>, inputs: BTreeMap<u8, mpsc::Sender<Bytes>>) {
    while let Some(Ok(heard)) = stream.next().await {
        match heard {
            Message::Binary(bytes) => {
                if let Some((channel, rest)) = bytes.split_first()
                    && let Some(input) = inputs.get(channel)
                {
                    // A port that has closed takes no more; the others go on.
                    let _ = input.send(Bytes::copy_from_slice(rest)).await;
                }
            }
            Message::Close(_) => return,
            _ => {}
        }
    }
}

async fn one_port(
    access: Arc<dyn PodAccess>,
    pod: PodAt,
    port: u16,
    channel: u8,
    mut data: mpsc::Receiver<Bytes>,
    tell: mpsc::Sender<Message>,
) {
    // Each channel begins with the number of its port.
    for number in [channel, channel + 1] {
        if tell.send(message(number, &port.to_le_bytes())).await.is_err() {
            return;
        }
    }
    let stream = match access.dial(&pod.uid, port).await {
        Ok(stream) => stream,
        Err(error) => {
            let why = format!("error forwarding port {port} to pod {}, uid {}: {error}", pod.name, pod.uid);
            let _ = tell.send(message(channel + 1, why.as_bytes())).await;
            return;
        }
    };
    let (mut from, mut to) = tokio::io::split(stream);
    let reading = async {
        let mut buffer = vec![0; PIECE];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            if tell.send(message(channel, &buffer[..count])).await.is_err() {
                return;
            }
        }
    };
    let writing = async {
        while let Some(bytes) = data.recv().await {
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = reading => {}
        () = writing => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_as_clients_read_them() {
        assert_eq!(ended(0)["status"], "Success");
        let failed = ended(7);
        assert_eq!(failed["reason"], "NonZeroExitCode");
        assert_eq!(failed["details"]["causes"][0], json!({"reason": "ExitCode", "message": "7"}));
    }

    #[test]
    fn messages_reach_the_stream_they_name() {
        let streams = Streams { stdin: true, stdout: true, stderr: true, of: Process::Command };
        let size = [&[RESIZE], &br#"{"Width": 80, "Height": 24}"#[..]].concat();
        let cases: [(&[u8], Option<ExecInput>); 6] = [
            (&[STDIN, b'h', b'i'], Some(ExecInput::Stdin(Bytes::from_static(b"hi")))),
            (&[CLOSE, STDIN], Some(ExecInput::CloseStdin)),
            (&size, Some(ExecInput::Resize { rows: 24, cols: 80 })),
            (&[], None),
            (&[9, 1], None),
            (&[RESIZE, b'{'], None),
        ];
        for (bytes, expected) in cases {
            assert_eq!(read(bytes, streams), expected, "{bytes:?}");
        }
    }
}
