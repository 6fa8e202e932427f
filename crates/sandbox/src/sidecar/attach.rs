//! Following what runs already.

use std::sync::Arc;

use thane_api::wire::sandbox::step_event::Event;
use thane_api::wire::sandbox::{AttachRequest, KeepAlive, StepRecord, StepStarted};
use thane_executor::client::Heard;
use thane_executor::message::{Request, Said};
use tokio::sync::mpsc;
use tonic::Status;

use super::desk::{Desk, Underway};
use super::run::{EVENTS_MAX, Events, event, said, told};
use super::{executor, outcome};

/// How long it may be silent before a sign of life is sent.
const SILENCE: std::time::Duration = std::time::Duration::from_secs(5);

type Tell = mpsc::Sender<Result<thane_api::wire::sandbox::StepEvent, Status>>;

/// Tells a step that waits or runs, from its beginning.
pub(super) fn join(desk: &Arc<Desk>, underway: Arc<Underway>) -> Events {
    follow(desk, underway, [0, 0])
}

fn follow(desk: &Arc<Desk>, underway: Arc<Underway>, from: [u64; 2]) -> Events {
    let (tell, events) = mpsc::channel(EVENTS_MAX);
    let (desk, open) = (Arc::clone(desk), desk.stream());
    let tasks = desk.tasks.clone();
    tasks.spawn("attach", async move {
        let stopping = desk.tasks.token();
        tokio::select! {
            () = stopping.cancelled() => {}
            () = tell.closed() => {}
            () = wait(&desk, &underway, from, &tell) => {}
        }
        drop(open);
    });
    events
}

async fn wait(desk: &Desk, underway: &Underway, from: [u64; 2], tell: &Tell) {
    let (mut process, mut done) = (underway.process.subscribe(), underway.done.subscribe());
    loop {
        let known = *process.borrow_and_update();
        let over = done.borrow_and_update().clone();
        match (known, over) {
            (Some(process), _) => {
                // What it says until its end; then its record is waited for.
                let _ = output(desk, process, from, tell).await;
                let over = done.wait_for(Option::is_some).await.ok().and_then(|record| record.clone());
                return finish(over, tell).await;
            }
            (None, Some(over)) => return finish(Some(over), tell).await,
            (None, None) => {}
        }
        let news = tokio::select! {
            changed = process.changed() => changed,
            changed = done.changed() => changed,
            () = tokio::time::sleep(SILENCE) => {
                let _ = tell.try_send(Ok(event(Event::KeepAlive(KeepAlive {}))));
                continue;
            }
        };
        if news.is_err() {
            return finish(None, tell).await;
        }
    }
}

async fn finish(over: Option<Result<Arc<StepRecord>, Status>>, tell: &Tell) {
    let over = over.unwrap_or_else(|| Err(Status::unavailable("the step was given up")));
    let _ = tell.send(over.map(|record| event(Event::Finished(StepRecord::clone(&record))))).await;
}

/// Passes on what a process says until its end.
async fn output(desk: &Desk, process: u64, from: [u64; 2], tell: &Tell) -> Result<StepRecord, Status> {
    let mut executor = desk.connect().await?;
    let _ = tell.send(Ok(event(Event::Started(StepStarted { index: -1, process })))).await;
    let attach = Request::Attach { process, stdout: from[0], stderr: from[1] };
    executor.call(attach).await.map_err(executor::status)?;
    let (_speaker, mut listener) = executor.split();
    let mut record = StepRecord { index: -1, parent: -1, ..StepRecord::default() };
    loop {
        match tokio::time::timeout(SILENCE, listener.hear()).await {
            Err(_) => {
                let _ = tell.try_send(Ok(event(Event::KeepAlive(KeepAlive {}))));
            }
            Ok(heard) => match heard.map_err(executor::status)? {
                Heard::Data(data) if data.process == process => {
                    let told = tell.send(Ok(said(data))).await;
                    told.map_err(|_| Status::cancelled("nobody listens any more"))?;
                }
                Heard::Said(Said::Exited { process: which, exit }) if which == process => {
                    outcome::ended(&mut record, &exit);
                    return Ok(record);
                }
                _ => {}
            },
        }
    }
}

impl Desk {
    /// Follows a process that runs or has run, by its number or by the operation it was started for.
    pub(super) async fn attach(self: &Arc<Self>, request: AttachRequest) -> Result<Events, Status> {
        let from = [request.stdout, request.stderr];
        if !request.operation.is_empty() {
            let underway = self.operations.lock().get(&request.operation).cloned();
            if let Some(underway) = underway {
                return Ok(follow(self, underway, from));
            }
            let (step, _) = self
                .log
                .operation(&request.operation)
                .ok_or_else(|| Status::not_found(format!("there is no operation {:?}", request.operation)))?;
            return Ok(told(self.record(step).await?, from[0], from[1]));
        }
        if !self.processes().await?.iter().any(|one| one.process == request.process) {
            return Err(Status::not_found(format!("there is no process {}", request.process)));
        }
        let (tell, events) = mpsc::channel(EVENTS_MAX);
        let (desk, open) = (Arc::clone(self), self.stream());
        self.tasks.spawn("attach", async move {
            let stopping = desk.tasks.token();
            tokio::select! {
                () = stopping.cancelled() => {}
                () = tell.closed() => {}
                ended = output(&desk, request.process, from, &tell) => {
                    let _ = tell.send(ended.map(|record| event(Event::Finished(record)))).await;
                }
            }
            drop(open);
        });
        Ok(events)
    }
}
