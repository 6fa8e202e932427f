//! Steps as they happen: server-sent events `stdout`, `stderr`, `result` and `ping`.

use std::convert::Infallible;
use std::sync::Arc;

use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use thane_api::wire::sandbox::step_event::Event as Said;
use thane_api::wire::sandbox::{StepOutput, StepRecord};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{Plan, Running, undone};
use crate::gateway::Shared;
use crate::gateway::failure::{Failure, Result};
use crate::gateway::records;
use crate::gateway::text::{self, Pieces};

/// Events that wait for a slow client; beyond that the sandbox waits, too.
const EVENTS_MAX: usize = 32;

type Told = Result<Event, Infallible>;

/// Nobody listens any more.
struct Left;

/// Why a step has no record.
enum End {
    Left,
    Failed(Failure),
}

impl From<Left> for End {
    fn from(Left: Left) -> Self {
        Self::Left
    }
}

/// Begins with the first step, so that what cannot even begin is an error like any other.
pub(super) async fn answer(shared: Arc<Shared>, plan: Plan) -> Result<Response> {
    let first = shared.begin(&plan.session, plan.request(0)).await?;
    let (sender, receiver) = mpsc::channel::<Told>(EVENTS_MAX);
    let group = shared.tasks.clone();
    shared.tasks.clone().spawn("execute", async move {
        let telling = Telling { shared: &shared, plan: &plan, out: sender };
        tokio::select! {
            _ = telling.all(first) => {}
            () = group.cancelled() => {}
        }
        shared.used(&plan.session);
    });
    Ok(Sse::new(ReceiverStream::new(receiver)).into_response())
}

struct Telling<'a> {
    shared: &'a Shared,
    plan: &'a Plan,
    out: mpsc::Sender<Told>,
}

impl Telling<'_> {
    async fn all(&self, first: Running) -> Result<(), Left> {
        let (mut first, mut last) = (Some(first), None);
        for at in 0..self.plan.steps.len() {
            let begun = match first.take() {
                Some(running) => Ok(running),
                None => self.shared.begin(&self.plan.session, self.plan.request(at)).await,
            };
            let ended = match begun {
                Ok(running) => self.one(running).await,
                Err(failure) => Err(End::Failed(failure)),
            };
            match ended {
                Ok(record) => {
                    last = Some(record.index);
                    self.tell("result", &records::result(&record, usize::MAX)).await?;
                    if self.plan.is_over(&record) {
                        break;
                    }
                }
                Err(End::Left) => return Err(Left),
                Err(End::Failed(failure)) => {
                    let now = self.shared.clock.now().to_string();
                    return self.tell("result", &undone(&self.plan.steps[at], last, &failure, now)).await;
                }
            }
        }
        Ok(())
    }

    async fn one(&self, mut running: Running) -> Result<StepRecord, End> {
        let (mut index, mut stdout, mut stderr) = (-1, Pieces::default(), Pieces::default());
        loop {
            match running.next().await {
                Ok(Said::Started(started)) => index = started.index,
                Ok(Said::KeepAlive(_)) => self.tell("ping", &serde_json::json!({})).await?,
                Ok(Said::Output(StepOutput { stderr: is_stderr, data, .. })) => {
                    let (name, pieces) = if is_stderr { ("stderr", &mut stderr) } else { ("stdout", &mut stdout) };
                    if let Some(piece) = pieces.push(&data) {
                        self.tell(name, &text::event(index, piece)).await?;
                    }
                }
                Ok(Said::Finished(record)) => {
                    for (name, pieces) in [("stdout", &mut stdout), ("stderr", &mut stderr)] {
                        if let Some(piece) = pieces.finish() {
                            self.tell(name, &text::event(index, piece)).await?;
                        }
                    }
                    self.plan.agrees(&record).map_err(End::Failed)?;
                    self.shared.metrics.stepped(&record);
                    return Ok(record);
                }
                Err(status) => {
                    self.shared.metrics.step_lost();
                    return Err(End::Failed(self.shared.verdict(&self.plan.session, status).await));
                }
            }
        }
    }

    async fn tell<T: Serialize>(&self, name: &'static str, data: &T) -> Result<(), Left> {
        let event = Event::default().event(name).json_data(data).map_err(|_| Left)?;
        self.out.send(Ok(event)).await.map_err(|_| Left)
    }
}
