//! Upstream's own service.

use std::sync::Arc;

use thane_api::wire::sandbox::step_event::Event;
use thane_api::wire::sandbox::{Change, StepRequest};
use thane_api::wire::sidecar::agent_service_server::AgentService;
use thane_api::wire::sidecar::{
    ExecLog, ExecRequest, FileChunk, FileRequest, FileResponse, ListDirRequest, ListDirResponse, ReadFileRequest,
    ResetRequest, ResetResponse, ShellInput, ShellOutput, SignalRequest, SignalResponse, StatRequest, StatResponse,
    WriteFileChunk, WriteFileResponse, WriteStdinRequest, WriteStdinResponse,
};
use thane_executor::frame::DATA_MAX;
use thane_executor::message::Request as Ask;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tonic::{Request, Response, Status, Streaming};

use super::{Answers, answers};
use crate::sidecar::desk::Desk;
use crate::sidecar::{executor, signals};

/// Pieces of a file that wait to be sent.
const PIECES_MAX: usize = 2;

/// The service.
pub(super) struct Agent {
    pub(super) desk: Arc<Desk>,
}

#[tonic::async_trait]
impl AgentService for Agent {
    type ExecuteStream = Answers<ExecLog>;
    type InteractiveShellStream = Answers<ShellOutput>;
    type ReadFileStream = Answers<FileChunk>;

    async fn execute(&self, request: Request<ExecRequest>) -> Result<Response<Self::ExecuteStream>, Status> {
        let ExecRequest { command, env, working_dir, background, timeout_seconds } = request.into_inner();
        let step = StepRequest {
            command,
            env,
            working_dir,
            background,
            timeout_ms: i64::from(timeout_seconds).saturating_mul(1000),
            unrecorded: true,
            ..StepRequest::default()
        };
        let events = answers(self.desk.run_step(step).await?);
        let logs = events.filter_map(|event| match event {
            Ok(event) => event.event.and_then(log).map(Ok),
            Err(status) => Some(Err(status)),
        });
        let logs: Answers<ExecLog> = Box::pin(logs);
        Ok(Response::new(logs))
    }

    async fn interactive_shell(
        &self,
        request: Request<Streaming<ShellInput>>,
    ) -> Result<Response<Self::InteractiveShellStream>, Status> {
        Ok(Response::new(answers(self.desk.shell(request.into_inner()).await?)))
    }

    async fn update_files(&self, request: Request<FileRequest>) -> Result<Response<FileResponse>, Status> {
        let FileRequest { base_path, files, patch } = request.into_inner();
        if !patch.is_empty() {
            let message = "patches are not applied here: send whole files".to_owned();
            return Ok(Response::new(FileResponse { success: false, message }));
        }
        let count = files.len();
        for (path, content) in files {
            let base = base_path.trim_end_matches('/');
            let at = if base_path.is_empty() { path } else { format!("{base}/{}", path.trim_start_matches('/')) };
            if let Err(status) = self.desk.put_file(&at, None, content.as_bytes()).await {
                return said(status, |message| FileResponse { success: false, message });
            }
            self.desk.changed(Change { path: at, content: content.into(), removed: false }).await?;
        }
        self.desk.touch();
        Ok(Response::new(FileResponse { success: true, message: format!("{count} files written") }))
    }

    async fn signal_process(&self, request: Request<SignalRequest>) -> Result<Response<SignalResponse>, Status> {
        let SignalRequest { pid, signal } = request.into_inner();
        let number = signals::number(&signal);
        let number = number.ok_or_else(|| Status::invalid_argument(format!("{signal:?} is no signal")))?;
        let processes = self.desk.processes().await?;
        let Some(found) = processes.iter().find(|one| one.pid == pid && one.exit.is_none()) else {
            let message = format!("no process that was started here has the number {pid}");
            return Ok(Response::new(SignalResponse { success: false, message }));
        };
        match self.desk.ask(Ask::Signal { process: found.process, signal: number, group: true }).await {
            Ok(_) => Ok(Response::new(SignalResponse { success: true, message: String::new() })),
            Err(status) => said(status, |message| SignalResponse { success: false, message }),
        }
    }

    async fn reset(&self, request: Request<ResetRequest>) -> Result<Response<ResetResponse>, Status> {
        match self.desk.reset(request.into_inner().preserve_files).await {
            Ok(()) => Ok(Response::new(ResetResponse { success: true, message: String::new() })),
            Err(status) => said(status, |message| ResetResponse { success: false, message }),
        }
    }

    async fn write_file(
        &self,
        request: Request<Streaming<WriteFileChunk>>,
    ) -> Result<Response<WriteFileResponse>, Status> {
        let _open = self.desk.stream();
        self.desk.write_file(request.into_inner()).await.map(Response::new)
    }

    async fn read_file(&self, request: Request<ReadFileRequest>) -> Result<Response<Self::ReadFileStream>, Status> {
        let path = request.into_inner().path;
        let (tell, chunks) = mpsc::channel(PIECES_MAX);
        let (desk, open) = (Arc::clone(&self.desk), self.desk.stream());
        self.desk.tasks.spawn("read", async move {
            desk.read_file(&path, &tell).await;
            drop(open);
        });
        Ok(Response::new(answers(chunks)))
    }

    async fn stat(&self, request: Request<StatRequest>) -> Result<Response<StatResponse>, Status> {
        self.desk.stat(&request.into_inner().path).await.map(Response::new)
    }

    async fn list_dir(&self, request: Request<ListDirRequest>) -> Result<Response<ListDirResponse>, Status> {
        let ListDirRequest { path, recursive } = request.into_inner();
        let entries = self.desk.list(&path, recursive).await?;
        Ok(Response::new(ListDirResponse { entries }))
    }

    async fn write_stdin(&self, request: Request<WriteStdinRequest>) -> Result<Response<WriteStdinResponse>, Status> {
        let WriteStdinRequest { handle, data } = request.into_inner();
        if data.len() > DATA_MAX {
            return Err(Status::invalid_argument(format!("at most {DATA_MAX} bytes can be sent at once")));
        }
        let number = handle.parse().ok();
        let processes = self.desk.processes().await?;
        let found = processes.iter().rev().find(|one| Some(one.process) == number || one.tag == handle);
        let found = found.ok_or_else(|| Status::not_found(format!("there is no process {handle:?}")))?;
        let process = found.process;
        let mut executor = self.desk.connect().await?;
        // Who follows is not heard before what was sent has been taken.
        let follow = Ask::Attach { process, stdout: u64::MAX, stderr: u64::MAX };
        executor.call(follow).await.map_err(executor::status)?;
        executor.input(process, data.to_vec()).await.map_err(executor::status)?;
        executor.call(Ask::Ping).await.map_err(executor::status)?;
        Ok(Response::new(WriteStdinResponse {}))
    }
}

fn log(event: Event) -> Option<ExecLog> {
    match event {
        Event::Output(output) if output.stderr => Some(ExecLog { stderr: output.data, ..ExecLog::default() }),
        Event::Output(output) => Some(ExecLog { stdout: output.data, ..ExecLog::default() }),
        Event::KeepAlive(_) => Some(ExecLog::default()),
        Event::Finished(record) => {
            let why = record.failure.map(|failure| failure.message).unwrap_or_default();
            let stderr = why.into_bytes().into();
            Some(ExecLog { stderr, exit_code: record.exit_code, done: true, ..ExecLog::default() })
        }
        Event::Started(_) => None,
    }
}

/// What the caller did wrong is an answer; that nobody is there is not.
fn said<T>(status: Status, answer: impl FnOnce(String) -> T) -> Result<Response<T>, Status> {
    match status.code() {
        tonic::Code::Unavailable | tonic::Code::Internal => Err(status),
        _ => Ok(Response::new(answer(status.message().to_owned()))),
    }
}
