//! Terminals in containers, bridged to whoever asked.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::Peekable;
use futures::{Stream, StreamExt, TryFutureExt};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status as Ended;
use kube::api::{Api, AttachParams, AttachedProcess, TerminalSize};
use thane_api::live::TerminalRequest;
use thane_api::wire::terminal::TerminalStreamData;
use thane_api::wire::terminal::terminal_stream_service_client::TerminalStreamServiceClient;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::metrics::{Kind, Outcome};
use super::{Inner, Open, is_segment};
use crate::connection::Calls;

/// How long a session may last.
const SESSION_MAX: Duration = Duration::from_mins(30);
/// How long the container may take to start the command.
const START_MAX: Duration = Duration::from_secs(20);
/// How long the hub may take to end the stream.
const FAREWELL: Duration = Duration::from_secs(5);
/// Bytes of one message, and of what waits on either side.
const PIECE_MAX: usize = 32 * 1024;
/// Messages that wait for the hub.
const WAITING_MAX: usize = 16;
/// The size a terminal begins with.
const FIRST_SIZE: TerminalSize = TerminalSize { width: 80, height: 24 };

/// Serves one terminal.
pub(super) async fn serve(open: Open, request: TerminalRequest) {
    let inner = &open.inner;
    let Some(calls) = inner.calls.borrow().clone() else { return };
    let outcome = match bridge(&open, &calls, &request).await {
        Ok(outcome) => outcome,
        Err(reason) => {
            tracing::debug!(uuid = request.uuid, reason, "a terminal could not be opened");
            Outcome::Failed
        }
    };
    inner.metrics.count(Kind::Terminal, outcome);
}

async fn bridge(open: &Open, calls: &Calls, request: &TerminalRequest) -> Result<Outcome, String> {
    let (out, messages) = mpsc::channel(WAITING_MAX);
    let output = Output { uuid: request.uuid.clone(), out };
    output.put(TerminalStreamData::default()).await;
    let mut call = tonic::Request::new(ReceiverStream::new(messages));
    calls.authorize(call.metadata_mut()).await.map_err(|failure| failure.to_string())?;
    let mut client = TerminalStreamServiceClient::with_origin(calls.channel(), calls.origin());
    // A Go principal answers with the first thing that is typed, so the command does not wait for it.
    let input = client.stream_terminal(call).map_ok(tonic::Response::into_inner).try_flatten_stream().peekable();
    let mut input = std::pin::pin!(input);
    let ran = if open.place.is_none() {
        Err("too many terminals are open in this agent".to_owned())
    } else {
        tokio::select! {
            ran = tokio::time::timeout(SESSION_MAX, run(&open.inner, request, &output, input.as_mut())) => {
                ran.unwrap_or_else(|_| Err("the session has lasted as long as it may".to_owned()))
            }
            () = output.out.closed() => return Ok(Outcome::Done),
        }
    };
    let outcome = if ran.is_ok() { Outcome::Done } else { Outcome::Failed };
    output.end(ran.err()).await;
    // The hub ends the stream when it has everything: ended by us before, a Go principal drops what it has not shown yet.
    let _ = tokio::time::timeout(FAREWELL, input.for_each(|_| std::future::ready(()))).await;
    drop(output);
    Ok(outcome)
}

/// Runs the command until it or the session ends; why it failed.
async fn run(
    inner: &Inner,
    request: &TerminalRequest,
    output: &Output,
    mut input: Pin<&mut Peekable<impl Stream<Item = Result<TerminalStreamData, Status>>>>,
) -> Result<(), String> {
    let mut starting = std::pin::pin!(tokio::time::timeout(START_MAX, start(inner, request)));
    let started = tokio::select! {
        started = &mut starting => started,
        first = input.as_mut().peek() => match first {
            Some(Ok(_)) => starting.await,
            // The hub wants no such session.
            _ => return Ok(()),
        },
    };
    let mut process = started.map_err(|_| "the container did not start the command in time".to_owned())??;
    let ended = process.take_status();
    let written = written(&mut process, output);
    let mut keys = Keys::of(&mut process);
    keys.resize(FIRST_SIZE);
    let typed = async {
        while let Some(message) = input.next().await {
            match message {
                Ok(message) if message.error.is_empty() => keys.take(message).await,
                // Nobody is there any more.
                _ => return,
            }
        }
    };
    tokio::select! {
        () = written => {}
        () = typed => return Ok(()),
    }
    match ended {
        Some(ended) => outcome(ended.await),
        None => Ok(()),
    }
}

async fn start(inner: &Inner, request: &TerminalRequest) -> Result<AttachedProcess, String> {
    for part in [&request.namespace, &request.pod_name] {
        if part.is_empty() || !is_segment(part) {
            return Err(format!("{part:?} is no name"));
        }
    }
    let mut params = AttachParams::default()
        .stdin(request.stdin)
        .stdout(request.stdout)
        // A terminal has only one way out.
        .stderr(request.stderr && !request.tty)
        .tty(request.tty)
        .max_stdin_buf_size(PIECE_MAX)
        .max_stdout_buf_size(PIECE_MAX)
        .max_stderr_buf_size(PIECE_MAX);
    if !request.container_name.is_empty() {
        params = params.container(&request.container_name);
    }
    let pods: Api<Pod> = Api::namespaced(inner.client.clone(), &request.namespace);
    pods.exec(&request.pod_name, request.command.clone(), &params).await.map_err(|error| match error {
        kube::Error::Api(status) => status.message,
        other => other.to_string(),
    })
}

/// Passes on what the command writes, until it has written everything.
fn written(process: &mut AttachedProcess, output: &Output) -> impl Future<Output = ()> + use<> {
    let (stdout, stderr) = (process.stdout(), process.stderr());
    let output = output.clone();
    async move {
        let copy = async |from, kind| {
            if let Some(from) = from {
                output.copy(from, kind).await;
            }
        };
        tokio::join!(copy(stdout.map(boxed), "stdout"), copy(stderr.map(boxed), "stderr"));
    }
}

type Reader = Box<dyn AsyncRead + Send + Unpin>;

fn boxed(reader: impl AsyncRead + Send + Unpin + 'static) -> Reader {
    Box::new(reader)
}

/// Puts messages of one terminal on its stream.
#[derive(Clone)]
struct Output {
    uuid: String,
    out: mpsc::Sender<TerminalStreamData>,
}

impl Output {
    async fn copy(&self, mut from: Reader, kind: &str) {
        let mut buffer = vec![0; PIECE_MAX];
        while let Ok(count) = from.read(&mut buffer).await {
            let Some(data) = buffer.get(..count).filter(|data| !data.is_empty()) else { return };
            let (data, stream_type) = (Bytes::copy_from_slice(data), kind.to_owned());
            self.put(TerminalStreamData { data, stream_type, ..TerminalStreamData::default() }).await;
        }
    }

    async fn end(&self, error: Option<String>) {
        let last = match error {
            Some(error) => TerminalStreamData { error, ..TerminalStreamData::default() },
            None => TerminalStreamData { eof: true, ..TerminalStreamData::default() },
        };
        self.put(last).await;
    }

    async fn put(&self, message: TerminalStreamData) {
        // A stream that has ended is noticed elsewhere.
        let _ = self.out.send(TerminalStreamData { request_uuid: self.uuid.clone(), ..message }).await;
    }
}

/// What the user does.
struct Keys<W> {
    stdin: Option<W>,
    sizes: Option<futures::channel::mpsc::Sender<TerminalSize>>,
}

impl Keys<()> {
    fn of(process: &mut AttachedProcess) -> Keys<Box<dyn tokio::io::AsyncWrite + Send + Unpin>> {
        Keys { stdin: process.stdin().map(|stdin| Box::new(stdin) as _), sizes: process.terminal_size() }
    }
}

impl<W: tokio::io::AsyncWrite + Unpin> Keys<W> {
    async fn take(&mut self, message: TerminalStreamData) {
        if message.resize {
            let side = |length: u32| u16::try_from(length).unwrap_or(u16::MAX);
            return self.resize(TerminalSize { width: side(message.cols), height: side(message.rows) });
        }
        if message.eof {
            self.stdin = None;
        }
        if let Some(stdin) = &mut self.stdin
            && !message.data.is_empty()
            && stdin.write_all(&message.data).await.is_err()
        {
            self.stdin = None;
        }
    }

    fn resize(&mut self, size: TerminalSize) {
        if let Some(sizes) = &mut self.sizes {
            // Of many sizes in a row the next one counts as well.
            let _ = sizes.try_send(size);
        }
    }
}

/// What the command's end means; a connection that broke has no status.
fn outcome(ended: Option<Ended>) -> Result<(), String> {
    let Some(ended) = ended else { return Err("the connection to the container broke".to_owned()) };
    if ended.status.as_deref() == Some("Success") {
        return Ok(());
    }
    let causes = ended.details.and_then(|details| details.causes).unwrap_or_default();
    let code = causes.into_iter().find(|cause| cause.reason.as_deref() == Some("ExitCode"));
    match code.and_then(|cause| cause.message) {
        Some(code) => Err(format!("command terminated with exit code {code}")),
        None => Err(ended.message.unwrap_or_else(|| "the command failed".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ends_are_told_as_clients_know_them() {
        let cases = [
            (json!({"status": "Success"}), Ok(())),
            (
                json!({"status": "Failure", "reason": "NonZeroExitCode", "message": "m",
                    "details": {"causes": [{"reason": "ExitCode", "message": "7"}]}}),
                Err("command terminated with exit code 7"),
            ),
            (json!({"status": "Failure", "message": "no such container"}), Err("no such container")),
        ];
        for (ended, expected) in cases {
            let ended = serde_json::from_value(ended).unwrap();
            assert_eq!(outcome(Some(ended)), expected.map_err(str::to_owned));
        }
        assert!(outcome(None).is_err());
    }

    #[tokio::test]
    async fn keys_reach_the_command_until_their_end() {
        let (sizes, mut resized) = futures::channel::mpsc::channel(2);
        let mut keys = Keys { stdin: Some(Vec::new()), sizes: Some(sizes) };
        let typed = |data: &'static str| TerminalStreamData { data: data.into(), ..TerminalStreamData::default() };
        keys.take(typed("ls\n")).await;
        keys.take(TerminalStreamData { resize: true, rows: 50, cols: 70_000, ..TerminalStreamData::default() }).await;
        assert_eq!(keys.stdin.as_deref(), Some("ls\n".as_bytes()));
        let size = resized.next().await.unwrap();
        assert_eq!((size.width, size.height), (u16::MAX, 50));
        keys.take(TerminalStreamData { eof: true, ..TerminalStreamData::default() }).await;
        keys.take(typed("late")).await;
        assert_eq!(keys.stdin, None);
    }
}
