//! A sidecar that pretends: it records steps, and what they print is in what was asked.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use thane_api::wire::sandbox::sandbox_service_server::{SandboxService, SandboxServiceServer};
use thane_api::wire::sandbox::step_event::Event;
use thane_api::wire::sandbox::step_failure::Kind;
use thane_api::wire::sandbox::*;
use thane_api::wire::sidecar::agent_service_server::{AgentService, AgentServiceServer};
use thane_api::wire::sidecar::*;
use thane_runtime::Tasks;
use thane_runtime::net::{Network, Tcp};
use thane_runtime::tls::ServerTls;
use tonic::{Request, Response, Status, Streaming};

type Streamed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What a sidecar knows.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) session: String,
    pub(crate) snapshots: bool,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) files: BTreeMap<String, Bytes>,
    pub(crate) records: Vec<StepRecord>,
    pub(crate) calls: Vec<&'static str>,
    /// What was run without being recorded.
    pub(crate) unrecorded: Vec<Vec<String>>,
    /// Where files were brought back to, and whose they were.
    pub(crate) restored: Option<(String, String)>,
    tip: i64,
}

impl State {
    fn mark(&mut self, tip: i64) {
        self.tip = tip;
        let (mut at, mut live) = (tip, Vec::new());
        while let Some(record) = self.records.iter().find(|record| record.index == at) {
            live.push(at);
            at = record.parent;
        }
        for record in &mut self.records {
            record.live = live.contains(&record.index);
        }
    }
}

/// A sidecar.
#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) state: Arc<Mutex<State>>,
    all: Fakes,
    tasks: Tasks,
}

/// All sidecars by their pod's uid.
pub(crate) type Fakes = Arc<Mutex<BTreeMap<String, Fake>>>;

impl Fake {
    /// Starts one.
    pub(crate) async fn start(
        ip: &str,
        uid: &str,
        snapshots: bool,
        tls: &ServerTls,
        all: &Fakes,
        tasks: &Tasks,
    ) -> Self {
        let state = State { snapshots, tip: -1, ..State::default() };
        let group = tasks.child(format!("fake {ip}"));
        let fake = Self { state: Arc::new(Mutex::new(state)), all: Arc::clone(all), tasks: group.clone() };
        let address: SocketAddr = format!("{ip}:50051").parse().unwrap();
        let listener = Tcp.bind(address).await.unwrap();
        let routes = tonic::service::Routes::new(SandboxServiceServer::new(fake.clone()))
            .add_service(AgentServiceServer::new(fake.clone()))
            .prepare();
        let tls = tls.clone();
        let stopping = group.clone();
        group.spawn("listener", async move {
            loop {
                let (io, _) = tokio::select! {
                    accepted = listener.accept() => accepted.unwrap(),
                    () = stopping.cancelled() => return,
                };
                let (routes, acceptor, ended) = (routes.clone(), tls.acceptor(), stopping.clone());
                stopping.spawn("connection", async move {
                    let Ok(io) = acceptor.accept(io).await else { return };
                    let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(io), TowerToHyperService::new(routes));
                    tokio::select! {
                        _ = serving => {}
                        () = ended.cancelled() => {}
                    }
                });
            }
        });
        all.lock().insert(uid.to_owned(), fake.clone());
        fake
    }

    /// Vanishes with all connections.
    pub(crate) async fn kill(&self) {
        self.tasks.shutdown(std::time::Duration::from_secs(5)).await;
    }

    fn call(&self, name: &'static str) {
        self.state.lock().calls.push(name);
    }

    pub(crate) fn calls(&self, name: &str) -> usize {
        self.state.lock().calls.iter().filter(|call| **call == name).count()
    }
}

/// What a command comes to: output on both streams, how it ends, and why.
fn outcome(command: &[String]) -> (Vec<u8>, Vec<u8>, i32, Option<StepFailure>) {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let failure = |kind: Kind| Some(StepFailure { kind: kind.into(), message: format!("{kind:?}") });
    match words.as_slice() {
        ["echo", rest @ ..] => (format!("{}\n", rest.join(" ")).into_bytes(), Vec::new(), 0, None),
        ["grumble", rest @ ..] => (Vec::new(), rest.join(" ").into_bytes(), 1, None),
        ["binary"] => (vec![0xff, 0x00, b'a'], Vec::new(), 0, None),
        ["flood"] => (vec![b'x'; 3 << 20], Vec::new(), 0, None),
        ["sleep"] => (Vec::new(), Vec::new(), 124, failure(Kind::Timeout)),
        ["bomb"] => (Vec::new(), Vec::new(), 137, failure(Kind::Oom)),
        ["nothing"] => (Vec::new(), Vec::new(), 127, failure(Kind::User)),
        _ => (Vec::new(), Vec::new(), 0, None),
    }
}

fn event(event: Event) -> StepEvent {
    StepEvent { event: Some(event) }
}

/// A record told again, output and all.
fn told(record: StepRecord, stdout: &[u8]) -> Streamed<StepEvent> {
    let started = event(Event::Started(StepStarted { index: record.index, process: 1 }));
    // Pieces that cut characters.
    let pieces: Vec<_> = stdout.chunks(5).take(64).map(<[u8]>::to_vec).collect();
    let out =
        pieces.into_iter().map(|data| event(Event::Output(StepOutput { stderr: false, offset: 0, data: data.into() })));
    let err = record.stderr.clone();
    let err = event(Event::Output(StepOutput { stderr: true, offset: 0, data: err }));
    let events: Vec<_> = [started, event(Event::KeepAlive(KeepAlive {}))]
        .into_iter()
        .chain(out)
        .chain([err, event(Event::Finished(record))])
        .collect();
    Box::pin(stream::iter(events.into_iter().map(Ok)))
}

#[tonic::async_trait]
impl SandboxService for Fake {
    type RunStepStream = Streamed<StepEvent>;
    type AttachStream = Streamed<StepEvent>;
    type HistoryStream = Streamed<StepRecord>;

    async fn describe(&self, _: Request<DescribeRequest>) -> Result<Response<Description>, Status> {
        self.call("Describe");
        let state = self.state.lock();
        let description =
            Description { session: state.session.clone(), snapshots: state.snapshots, ..Description::default() };
        Ok(Response::new(description))
    }

    async fn bind(&self, request: Request<BindRequest>) -> Result<Response<BindReply>, Status> {
        self.call("Bind");
        let request = request.into_inner();
        let mut state = self.state.lock();
        if !state.session.is_empty() && state.session != request.session {
            return Err(Status::failed_precondition("it is another's"));
        }
        state.session = request.session;
        state.env.extend(request.env);
        state.files.extend(request.files.into_iter().map(|file| (file.path, file.content)));
        Ok(Response::new(BindReply {}))
    }

    async fn bound(&self, request: Request<BoundRequest>) -> Result<Response<BindRequest>, Status> {
        self.call("Bound");
        let (state, session) = (self.state.lock(), request.into_inner().session);
        let files =
            state.files.iter().map(|(path, content)| File { path: path.clone(), content: content.clone(), mode: 0 });
        let env = state.env.clone().into_iter().collect();
        Ok(Response::new(BindRequest { session, env, files: files.collect() }))
    }

    async fn run_step(&self, request: Request<StepRequest>) -> Result<Response<Self::RunStepStream>, Status> {
        self.call("RunStep");
        let request = request.into_inner();
        let (stdout, stderr, exit_code, failure) = outcome(&request.command);
        let digest: Bytes = Sha256::digest(request.command.join("\0")).to_vec().into();
        let mut state = self.state.lock();
        if state.session != request.session {
            return Err(Status::failed_precondition("it is not yours"));
        }
        let known =
            state.records.iter().find(|record| !request.operation.is_empty() && record.operation == request.operation);
        if let Some(known) = known {
            if known.digest != digest {
                return Err(Status::already_exists("the operation was another"));
            }
            return Ok(Response::new(told(known.clone(), &stdout)));
        }
        if request.command == ["hang"] || (request.command == ["stall"] && request.unrecorded) {
            let started = event(Event::Started(StepStarted { index: 0, process: 1 }));
            return Ok(Response::new(Box::pin(stream::iter([Ok(started)]).chain(stream::pending()))));
        }
        let index = state.records.iter().map(|record| record.index).max().unwrap_or(-1) + 1;
        let kept = Bytes::from(stdout.clone()).slice(..stdout.len().min(1 << 20));
        let record = StepRecord {
            index: if request.unrecorded { -1 } else { index },
            parent: state.tip,
            operation: request.operation,
            name: request.name,
            command: request.command,
            env: request.env,
            working_dir: request.working_dir,
            exit_code,
            failure,
            stdout: kept,
            stdout_bytes: stdout.len() as u64,
            stderr_bytes: stderr.len() as u64,
            stderr: stderr.into(),
            started_at_ms: 1_700_000_000_000 + index,
            duration_ms: 1,
            snapshot: if state.snapshots && !request.unrecorded { format!("layer-{index}") } else { String::new() },
            live: true,
            digest,
            timeout_ms: request.timeout_ms,
            background: request.background,
            stdin: request.stdin,
            trace: request.trace,
            changes: request.changes,
            changes_lost: false,
            unkept: String::new(),
        };
        if request.unrecorded {
            state.unrecorded.push(record.command.clone());
        } else {
            state.records.push(record.clone());
            state.tip = index;
        }
        Ok(Response::new(told(record, &stdout)))
    }

    async fn attach(&self, request: Request<AttachRequest>) -> Result<Response<Self::AttachStream>, Status> {
        self.call("Attach");
        let operation = request.into_inner().operation;
        let record = self.state.lock().records.iter().find(|record| record.operation == operation).cloned();
        record.map(|record| Response::new(told(record, &[]))).ok_or_else(|| Status::not_found("no such operation"))
    }

    async fn history(&self, request: Request<HistoryRequest>) -> Result<Response<Self::HistoryStream>, Status> {
        self.call("History");
        let request = request.into_inner();
        let records = self.state.lock().records.clone();
        let wanted =
            records.into_iter().filter(move |record| record.index >= request.from && (record.live || !request.live));
        Ok(Response::new(Box::pin(stream::iter(wanted.map(Ok)))))
    }

    async fn restore(&self, request: Request<RestoreRequest>) -> Result<Response<RestoreReply>, Status> {
        self.call("Restore");
        let request = request.into_inner();
        if !self.state.lock().snapshots {
            return Err(Status::failed_precondition("files are not kept here"));
        }
        if !request.source_pod_uid.is_empty() {
            let source = self.all.lock().get(&request.source_pod_uid).cloned();
            let source = source.ok_or_else(|| Status::not_found("no such pod"))?;
            let records = source.state.lock().records.clone();
            let until = records.iter().position(|record| record.snapshot == request.snapshot);
            self.state.lock().records = until.map(|until| records[..=until].to_vec()).unwrap_or_default();
        }
        let mut state = self.state.lock();
        let found = state.records.iter().find(|record| record.snapshot == request.snapshot).map(|record| record.index);
        let step =
            if request.snapshot.is_empty() { -1 } else { found.ok_or_else(|| Status::not_found("no such state"))? };
        state.mark(step);
        state.restored = Some((request.snapshot, request.source_pod_uid));
        Ok(Response::new(RestoreReply { step }))
    }

    async fn inherit(&self, request: Request<Streaming<StepRecord>>) -> Result<Response<InheritReply>, Status> {
        self.call("Inherit");
        let mut records = request.into_inner();
        while let Some(record) = records.message().await? {
            self.state.lock().records.push(record);
        }
        let mut state = self.state.lock();
        let tip = state.records.iter().filter(|record| record.live).map(|record| record.index).max().unwrap_or(-1);
        state.mark(tip);
        let next_index = state.records.iter().map(|record| record.index).max().unwrap_or(-1) + 1;
        Ok(Response::new(InheritReply { next_index }))
    }

    async fn processes(&self, _: Request<ProcessesRequest>) -> Result<Response<ProcessesReply>, Status> {
        Ok(Response::new(ProcessesReply::default()))
    }

    async fn remove_file(&self, request: Request<RemoveFileRequest>) -> Result<Response<RemoveFileReply>, Status> {
        let path = request.into_inner().path;
        let removed = self.state.lock().files.remove(&path);
        removed
            .map(|_| Response::new(RemoveFileReply {}))
            .ok_or_else(|| Status::not_found(format!("there is no {path}")))
    }
}

#[tonic::async_trait]
impl AgentService for Fake {
    type ExecuteStream = Streamed<ExecLog>;
    type InteractiveShellStream = Streamed<ShellOutput>;
    type ReadFileStream = Streamed<FileChunk>;

    async fn execute(&self, _: Request<ExecRequest>) -> Result<Response<Self::ExecuteStream>, Status> {
        Err(Status::unimplemented("not pretended"))
    }

    /// Says back what it is told, until it is told `exit`.
    async fn interactive_shell(
        &self,
        request: Request<Streaming<ShellInput>>,
    ) -> Result<Response<Self::InteractiveShellStream>, Status> {
        self.call("InteractiveShell");
        let said = stream::try_unfold(Some(request.into_inner()), |inputs| async move {
            let Some(mut inputs) = inputs else { return Ok(None) };
            let Some(input) = inputs.message().await? else { return Ok(None) };
            let text = match input.input {
                Some(shell_input::Input::Data(data)) if data == "exit\n" => {
                    return Ok(Some((ShellOutput { closed: true, exit_code: 7, ..ShellOutput::default() }, None)));
                }
                Some(shell_input::Input::Data(data)) => format!("said {data}"),
                Some(shell_input::Input::Signal(signal)) => format!("signal {signal}"),
                None => format!("size {}x{}", input.rows, input.cols),
            };
            Ok(Some((ShellOutput { data: text.into(), ..ShellOutput::default() }, Some(inputs))))
        });
        Ok(Response::new(Box::pin(said)))
    }

    async fn update_files(&self, _: Request<FileRequest>) -> Result<Response<FileResponse>, Status> {
        Err(Status::unimplemented("not pretended"))
    }

    async fn signal_process(&self, _: Request<SignalRequest>) -> Result<Response<SignalResponse>, Status> {
        Err(Status::unimplemented("not pretended"))
    }

    async fn reset(&self, _: Request<ResetRequest>) -> Result<Response<ResetResponse>, Status> {
        Err(Status::unimplemented("not pretended"))
    }

    async fn write_file(
        &self,
        request: Request<Streaming<WriteFileChunk>>,
    ) -> Result<Response<WriteFileResponse>, Status> {
        self.call("WriteFile");
        // However it ends, also by being dropped.
        let _over = Over(self);
        let mut chunks = request.into_inner();
        let (mut path, mut expected, mut content) = (String::new(), String::new(), Vec::new());
        while let Some(chunk) = chunks.message().await? {
            if !chunk.path.is_empty() {
                path = chunk.path;
            }
            if !chunk.expected_sha256.is_empty() {
                expected = chunk.expected_sha256;
            }
            content.extend_from_slice(&chunk.data);
        }
        if path.contains("..") {
            return Err(Status::invalid_argument("the path leaves the sandbox"));
        }
        let sha256 = hex(&content);
        if !expected.is_empty() && expected != sha256 {
            return Err(Status::invalid_argument("the content has another digest"));
        }
        let bytes_written = i64::try_from(content.len()).unwrap();
        self.state.lock().files.insert(path.clone(), content.into());
        Ok(Response::new(WriteFileResponse { path, bytes_written, sha256 }))
    }

    async fn read_file(&self, request: Request<ReadFileRequest>) -> Result<Response<Self::ReadFileStream>, Status> {
        let path = request.into_inner().path;
        let content = self.state.lock().files.get(&path).cloned();
        let content = content.ok_or_else(|| Status::not_found(format!("there is no {path}")))?;
        let size_bytes = i64::try_from(content.len()).unwrap();
        let last = FileChunk { done: true, sha256: hex(&content), size_bytes, ..FileChunk::default() };
        let pieces = content
            .chunks(64 * 1024)
            .map(|data| Ok(FileChunk { data: Bytes::copy_from_slice(data), size_bytes, ..FileChunk::default() }));
        let all: Vec<_> = pieces.chain([Ok(last)]).collect();
        Ok(Response::new(Box::pin(stream::iter(all))))
    }

    async fn stat(&self, _: Request<StatRequest>) -> Result<Response<StatResponse>, Status> {
        Err(Status::unimplemented("not pretended"))
    }

    async fn list_dir(&self, _: Request<ListDirRequest>) -> Result<Response<ListDirResponse>, Status> {
        Err(Status::unimplemented("not pretended"))
    }

    async fn write_stdin(&self, _: Request<WriteStdinRequest>) -> Result<Response<WriteStdinResponse>, Status> {
        Err(Status::unimplemented("not pretended"))
    }
}

struct Over<'a>(&'a Fake);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.call("WroteFile");
    }
}

pub(crate) fn hex(content: &[u8]) -> String {
    Sha256::digest(content).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}
