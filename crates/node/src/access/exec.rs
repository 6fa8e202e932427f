//! A command in a container, between two queues and the executor's socket.

use std::path::Path;

use bytes::Bytes;
use thane_executor::frame::Stream;
use thane_executor::message::{MAIN, Reply, Request, Said, Size, Spawn};
use thane_runtime::Tasks;
use thane_runtime::pods::{AccessError, ExecInput, ExecOptions, ExecOutput, ExecSession, SESSION_QUEUE};
use tokio::sync::mpsc;

use thane_executor::client::{Error, Executor, Heard, Listener, Speaker};

/// The kill signal.
const KILL: i32 = 9;
const FIRST_SIZE: Size = Size { rows: 24, cols: 80 };

/// Starts a command, or follows the container's own process.
pub(super) async fn start(run: &Path, options: ExecOptions, tasks: &Tasks) -> Result<ExecSession, AccessError> {
    let failed = |error: Error| match error {
        Error::Refused(_, why) => AccessError::Refused(why),
        Error::Io(error) => AccessError::NotFound(format!("container not found: {error}")),
    };
    let mut executor = Executor::connect(run).await.map_err(failed)?;
    let own = !options.command.is_empty();
    let process = if own {
        let spawn = Spawn {
            command: options.command,
            tag: "exec".to_owned(),
            terminal: options.terminal.then_some(FIRST_SIZE),
            stdin: options.stdin,
            attach: true,
            ..Spawn::default()
        };
        match executor.call(Request::Spawn(spawn)).await.map_err(failed)? {
            Reply::Spawned { process, .. } => process,
            other => return Err(AccessError::Failed(format!("unexpected answer {other:?}"))),
        }
    } else {
        let attach = Request::Attach { process: MAIN, stdout: u64::MAX, stderr: u64::MAX };
        executor.call(attach).await.map_err(failed)?;
        MAIN
    };
    let (input, inputs) = mpsc::channel(SESSION_QUEUE);
    let (outputs, output) = mpsc::channel(SESSION_QUEUE);
    let group = tasks.clone();
    tasks.spawn("exec", async move {
        let (speaker, listener) = executor.split();
        let session = async {
            let ended = listen(listener, process, &outputs);
            let speaking = speak(speaker, process, inputs, own);
            tokio::pin!(ended, speaking);
            tokio::select! {
                () = &mut ended => {}
                // Nobody is there any more: what was started for them ends, and so does its output.
                () = &mut speaking => ended.await,
            }
        };
        tokio::select! {
            () = group.cancelled() => {}
            () = session => {}
        }
    });
    Ok(ExecSession { input, output })
}

async fn listen(mut listener: Listener, wanted: u64, outputs: &mpsc::Sender<ExecOutput>) {
    loop {
        let output = match listener.hear().await {
            Ok(Heard::Data(data)) if data.process == wanted => match data.stream {
                Stream::Stderr => ExecOutput::Stderr(Bytes::from(data.bytes)),
                _ => ExecOutput::Stdout(Bytes::from(data.bytes)),
            },
            Ok(Heard::Said(Said::Exited { process, exit })) if process == wanted => ExecOutput::Exited(exit.code),
            Ok(_) => continue,
            Err(error) => ExecOutput::Lost(error.to_string()),
        };
        let last = matches!(output, ExecOutput::Exited(_) | ExecOutput::Lost(_));
        if outputs.send(output).await.is_err() || last {
            return;
        }
    }
}

/// Passes on input; when the other side has gone, a process that was started for it is ended.
async fn speak(mut speaker: Speaker, process: u64, mut inputs: mpsc::Receiver<ExecInput>, own: bool) {
    while let Some(input) = inputs.recv().await {
        let sent = match input {
            ExecInput::Stdin(bytes) => speaker.input(process, bytes.to_vec()).await,
            ExecInput::CloseStdin => speaker.send(Request::CloseStdin { process }).await.map(|_| ()),
            ExecInput::Resize { rows, cols } => speaker.send(Request::Resize { process, rows, cols }).await.map(|_| ()),
        };
        if sent.is_err() {
            return std::future::pending().await;
        }
    }
    if own {
        // If it has ended meanwhile, there is nothing to end.
        let _ = speaker.send(Request::Signal { process, signal: KILL, group: true }).await;
    }
}
