//! Steps that are recorded, and files that come back.

use std::sync::Arc;

use thane_api::wire::sandbox::sandbox_service_server::SandboxService;
use thane_api::wire::sandbox::{
    AttachRequest, BindReply, BindRequest, BoundRequest, Change, DescribeRequest, Description, HistoryRequest,
    InheritReply, Process, ProcessesReply, ProcessesRequest, RemoveFileReply, RemoveFileRequest, RestoreReply,
    RestoreRequest, StepEvent, StepRecord, StepRequest,
};
use thane_executor::message::Request as Ask;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tonic::{Request, Response, Status, Streaming};

use super::{Answers, answers};
use crate::sidecar::desk::Desk;
use crate::sidecar::files;

/// Steps that are inherited at once.
const INHERITED_MAX: usize = 10_000;
/// What they may have said together.
const INHERITED_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Records that wait to be sent.
const RECORDS_MAX: usize = 4;

/// The service.
pub(super) struct Steps {
    pub(super) desk: Arc<Desk>,
}

#[tonic::async_trait]
impl SandboxService for Steps {
    type RunStepStream = Answers<StepEvent>;
    type AttachStream = Answers<StepEvent>;
    type HistoryStream = Answers<StepRecord>;

    async fn describe(&self, _: Request<DescribeRequest>) -> Result<Response<Description>, Status> {
        self.desk.describe().await.map(Response::new)
    }

    async fn bind(&self, request: Request<BindRequest>) -> Result<Response<BindReply>, Status> {
        self.desk.bind(request.into_inner()).await?;
        Ok(Response::new(BindReply {}))
    }

    async fn bound(&self, request: Request<BoundRequest>) -> Result<Response<BindRequest>, Status> {
        self.desk.bound(&request.into_inner().session).await.map(Response::new)
    }

    async fn run_step(&self, request: Request<StepRequest>) -> Result<Response<Self::RunStepStream>, Status> {
        Ok(Response::new(answers(self.desk.run_step(request.into_inner()).await?)))
    }

    async fn attach(&self, request: Request<AttachRequest>) -> Result<Response<Self::AttachStream>, Status> {
        Ok(Response::new(answers(self.desk.attach(request.into_inner()).await?)))
    }

    async fn history(&self, request: Request<HistoryRequest>) -> Result<Response<Self::HistoryStream>, Status> {
        let HistoryRequest { live, from } = request.into_inner();
        let (tell, records) = mpsc::channel(RECORDS_MAX);
        let desk = Arc::clone(&self.desk);
        self.desk.tasks.spawn("history", async move {
            for step in desk.log.steps(live, from) {
                let record = desk.record(step).await;
                let failed = record.is_err();
                if tell.send(record).await.is_err() || failed {
                    return;
                }
            }
        });
        Ok(Response::new(answers(records)))
    }

    async fn restore(&self, request: Request<RestoreRequest>) -> Result<Response<RestoreReply>, Status> {
        let step = self.desk.restore(request.into_inner()).await?;
        Ok(Response::new(RestoreReply { step }))
    }

    async fn inherit(&self, request: Request<Streaming<StepRecord>>) -> Result<Response<InheritReply>, Status> {
        let mut stream = request.into_inner();
        let (mut records, mut bytes) = (Vec::new(), 0);
        while let Some(record) = stream.next().await {
            let record = record?;
            bytes += record.stdout.len() + record.stderr.len();
            if records.len() >= INHERITED_MAX || bytes > INHERITED_BYTES_MAX {
                return Err(Status::resource_exhausted("these are too many steps to inherit"));
            }
            records.push(record);
        }
        let next_index = self.desk.inherit(records).await?;
        Ok(Response::new(InheritReply { next_index }))
    }

    async fn processes(&self, _: Request<ProcessesRequest>) -> Result<Response<ProcessesReply>, Status> {
        let processes = self.desk.processes().await?.into_iter().map(|one| Process {
            process: one.process,
            tag: one.tag,
            pid: one.pid,
            command: one.command,
            background: one.background,
            running: one.exit.is_none(),
            exit_code: one.exit.map(|exit| exit.code).unwrap_or_default(),
        });
        Ok(Response::new(ProcessesReply { processes: processes.collect() }))
    }

    async fn remove_file(&self, request: Request<RemoveFileRequest>) -> Result<Response<RemoveFileReply>, Status> {
        let path = request.into_inner().path;
        files::check(&path)?;
        self.desk.ask(Ask::Stat { path: path.clone() }).await?;
        self.desk.remove(&path).await?;
        self.desk.changed(Change { path, removed: true, ..Change::default() }).await?;
        self.desk.touch();
        Ok(Response::new(RemoveFileReply {}))
    }
}
