//! A shell with a terminal, between a stream of gRPC and the executor.

use std::collections::BTreeMap;
use std::sync::Arc;

use thane_api::wire::sidecar::shell_input::Input;
use thane_api::wire::sidecar::{ShellInput, ShellOutput};
use thane_executor::client::{Error, Executor, Heard, Listener, Speaker};
use thane_executor::message::{Failure, Reply, Request, Said, Size, Spawn};
use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

use super::desk::{Desk, unexpected};
use super::{executor, signals};

/// Shells, best first.
const SHELLS: [&str; 2] = ["/bin/bash", "/bin/sh"];
const FIRST_SIZE: Size = Size { rows: 24, cols: 80 };
/// Output that waits for whoever listens.
const OUTPUT_MAX: usize = 16;
/// The kill signal.
const KILL: i32 = 9;
/// The longest input of one message.
const INPUT_MAX: usize = 1024 * 1024;

type Tell = mpsc::Sender<Result<ShellOutput, Status>>;

impl Desk {
    /// Starts a shell and connects it.
    pub(super) async fn shell(
        self: &Arc<Self>,
        input: impl Stream<Item = Result<ShellInput, Status>> + Send + Unpin + 'static,
    ) -> Result<mpsc::Receiver<Result<ShellOutput, Status>>, Status> {
        let (executor, process) = self.start_shell().await?;
        let (tell, output) = mpsc::channel(OUTPUT_MAX);
        let (desk, open) = (Arc::clone(self), self.stream());
        self.tasks.spawn("shell", async move {
            let stopping = desk.tasks.token();
            let (mut speaker, listener) = executor.split();
            {
                let ended = listen(listener, process, &tell);
                let mut ended = std::pin::pin!(ended);
                tokio::select! {
                    () = stopping.cancelled() => {}
                    () = tell.closed() => {}
                    () = &mut ended => {}
                    () = speak(&mut speaker, process, input) => {}
                }
            }
            // Whoever used it has gone. If it has ended by itself, there is nothing to end.
            let _ = speaker.send(Request::Signal { process, signal: KILL, group: true }).await;
            drop(open);
        });
        Ok(output)
    }

    async fn start_shell(&self) -> Result<(Executor, u64), Status> {
        let mut executor = self.connect().await?;
        let mut refused = Status::not_found("there is no shell");
        for shell in SHELLS {
            let spawn = Spawn {
                command: vec![shell.to_owned()],
                env: BTreeMap::from([("TERM".to_owned(), "xterm-256color".to_owned())]),
                tag: "shell".to_owned(),
                terminal: Some(FIRST_SIZE),
                stdin: true,
                attach: true,
                ..Spawn::default()
            };
            let _files = self.files.read().await;
            match executor.call(Request::Spawn(spawn)).await {
                Ok(Reply::Spawned { process, .. }) => return Ok((executor, process)),
                Ok(other) => return Err(unexpected(&other)),
                Err(Error::Refused(Failure::NotFound, why)) => refused = Status::not_found(why),
                Err(error) => return Err(executor::status(error)),
            }
        }
        Err(refused)
    }
}

async fn listen(mut listener: Listener, wanted: u64, tell: &Tell) {
    loop {
        let (said, last) = match listener.hear().await {
            Ok(Heard::Data(data)) if data.process == wanted => {
                (Ok(ShellOutput { data: data.bytes.into(), ..ShellOutput::default() }), false)
            }
            Ok(Heard::Said(Said::Exited { process, exit })) if process == wanted => {
                (Ok(ShellOutput { exit_code: exit.code, closed: true, ..ShellOutput::default() }), true)
            }
            Ok(_) => continue,
            Err(error) => (Err(executor::status(error)), true),
        };
        if tell.send(said).await.is_err() || last {
            return;
        }
    }
}

/// Passes on input until there is no more.
async fn speak(speaker: &mut Speaker, process: u64, mut input: impl Stream<Item = Result<ShellInput, Status>> + Unpin) {
    while let Some(Ok(message)) = input.next().await {
        if message.resize {
            let size = |number: i32| u16::try_from(number).unwrap_or_default().max(1);
            let resize = Request::Resize { process, rows: size(message.rows), cols: size(message.cols) };
            if speaker.send(resize).await.is_err() {
                return;
            }
        }
        let sent = match message.input {
            Some(Input::Data(data)) => pass(speaker, process, data.into_bytes()).await,
            Some(Input::Signal(name)) => match signals::number(&name) {
                Some(signal) => match signals::key(signal) {
                    Some(key) => speaker.input(process, vec![key]).await,
                    None => speaker.send(Request::Signal { process, signal, group: true }).await.map(|_| ()),
                },
                None => Ok(()),
            },
            None => Ok(()),
        };
        if sent.is_err() {
            return;
        }
    }
    // No more input comes; it may still have something to say.
    if speaker.send(Request::CloseStdin { process }).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

async fn pass(speaker: &mut Speaker, process: u64, data: Vec<u8>) -> Result<(), Error> {
    for piece in data.chunks(INPUT_MAX) {
        speaker.input(process, piece.to_vec()).await?;
    }
    Ok(())
}
