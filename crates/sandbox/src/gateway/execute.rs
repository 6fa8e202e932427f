//! Steps: one call to the sidecar each, answered as a whole or as it happens.

mod events;
pub(super) mod vet;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::ACCEPT;
use parking_lot::Mutex;
use thane_api::wire::sandbox::step_event::Event as Said;
use thane_api::wire::sandbox::{KeepAlive, StepEvent, StepRecord, StepRequest};
use tonic::{Code, Status, Streaming};

use super::Shared;
use super::bodies::{ExecuteRequest, ExecuteResponse, Step, StepError, StepOutput, StepResult};
use super::failure::{Failure, Result};
use super::keys::Caller;
use super::operations::Marker;
use super::read::{Asked, At, Json};
use super::records;
use super::routes::InNamespace;
use super::sessions::Session;
use super::sidecars::Sidecar;

/// Sidecars give a sign of life every five seconds; one that gives none for so long is lost.
const SILENCE: Duration = Duration::from_secs(15);

/// What is to be run.
pub(super) struct Plan {
    pub(super) session: Arc<Session>,
    pub(super) steps: Vec<Step>,
    trace: String,
    operation: Option<(String, Marker)>,
    stop_on_error: bool,
    _busy: Occupied,
}

impl Plan {
    fn new(shared: &Shared, session: Arc<Session>, body: ExecuteRequest) -> Result<Self> {
        vet::steps(&body.steps, &shared.options.limits)?;
        let trace = body.trace_id.unwrap_or_default();
        let operation = match body.operation_id {
            Some(name) => {
                vet::operation(&name)?;
                let marker = Marker::new(&trace, &body.steps, body.stop_on_error);
                Some((name, marker))
            }
            None => None,
        };
        let busy = shared.busy.begin(&session, shared.options.limits.executions_max)?;
        Ok(Self { session, steps: body.steps, trace, operation, stop_on_error: body.stop_on_error, _busy: busy })
    }

    /// What the sidecar is asked for a step.
    fn request(&self, at: usize) -> StepRequest {
        let (operation, trace) = match &self.operation {
            Some((name, marker)) => (Marker::step(name, at), marker.write()),
            None => (String::new(), self.trace.clone()),
        };
        StepRequest { operation, trace, ..vet::request(&self.session.id, &self.steps[at]) }
    }

    /// Whether what was recorded under the operation's name is what was asked now.
    fn agrees(&self, record: &StepRecord) -> Result<()> {
        match &self.operation {
            Some((name, marker)) if Marker::read(&record.trace).is_some_and(|other| !marker.is_same(&other)) => {
                Err(Failure::conflict(format!("operation {name:?} was another request")))
            }
            _ => Ok(()),
        }
    }

    fn is_over(&self, record: &StepRecord) -> bool {
        self.stop_on_error && (record.exit_code != 0 || record.failure.is_some())
    }
}

/// A step that the sidecar has taken on.
pub(super) struct Running {
    events: Streaming<StepEvent>,
    // As long as it is used, its connection is.
    _sidecar: Sidecar,
}

impl Running {
    async fn next(&mut self) -> Result<Said, Status> {
        match tokio::time::timeout(SILENCE, self.events.message()).await {
            Ok(Ok(Some(StepEvent { event: Some(event) }))) => Ok(event),
            // What is not known yet is a sign of life.
            Ok(Ok(Some(StepEvent { event: None }))) => Ok(Said::KeepAlive(KeepAlive {})),
            Ok(Ok(None)) => Err(Status::unavailable("the sidecar ended the step without a result")),
            Ok(Err(status)) => Err(status),
            Err(_) => Err(Status::unavailable("the sidecar has gone silent")),
        }
    }

    /// The step's record, once it has ended.
    pub(super) async fn finish(mut self) -> Result<StepRecord, Status> {
        loop {
            if let Said::Finished(record) = self.next().await? {
                return Ok(record);
            }
        }
    }
}

/// Runs steps and answers when all are done, or as they go if the client wants events.
pub(super) async fn execute(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    At(id): At,
    Asked(InNamespace { namespace }): Asked<InNamespace>,
    headers: HeaderMap,
    Json(body): Json<ExecuteRequest>,
) -> Result<Response> {
    let session = shared.session(&id, namespace.as_deref(), &caller).await?;
    let plan = Plan::new(&shared, session, body)?;
    let accepted = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accepted.contains("text/event-stream") {
        return events::answer(shared, plan).await;
    }
    let session = Arc::clone(&plan.session);
    let answer = shared.run(&plan).await;
    shared.used(&session);
    Ok(axum::Json(answer?).into_response())
}

impl Shared {
    /// Runs all steps of a plan.
    async fn run(&self, plan: &Plan) -> Result<ExecuteResponse> {
        let began = self.clock.monotonic();
        let mut results = Vec::with_capacity(plan.steps.len());
        let mut budget = self.options.limits.output_bytes_max;
        for at in 0..plan.steps.len() {
            match self.run_one(plan, at).await {
                Ok(record) => {
                    let result = records::result(&record, budget);
                    budget = budget.saturating_sub(result.output.stdout.len() + result.output.stderr.len());
                    results.push(result);
                    if plan.is_over(&record) {
                        break;
                    }
                }
                // What has been done is told even if the rest could not be.
                Err(failure) if !results.is_empty() => {
                    let last = results.last().map(|done: &StepResult| done.index);
                    results.push(undone(&plan.steps[at], last, &failure, self.clock.now().to_string()));
                    break;
                }
                Err(failure) => return Err(failure),
            }
        }
        let took = self.clock.monotonic().saturating_sub(began);
        let total_duration_ms = i64::try_from(took.as_millis()).unwrap_or(i64::MAX);
        Ok(ExecuteResponse { session_id: plan.session.id.clone(), results, total_duration_ms })
    }

    async fn run_one(&self, plan: &Plan, at: usize) -> Result<StepRecord> {
        let running = self.begin(&plan.session, plan.request(at)).await?;
        match running.finish().await {
            Ok(record) => {
                plan.agrees(&record)?;
                self.metrics.stepped(&record);
                Ok(record)
            }
            Err(status) => {
                self.metrics.step_lost();
                Err(self.verdict(&plan.session, status).await)
            }
        }
    }

    /// Asks the sidecar of a session to run a step.
    pub(super) async fn begin(&self, session: &Session, request: StepRequest) -> Result<Running> {
        let sidecar = self.proven(session).await?;
        // Only the operation makes it safe to ask again.
        let again = (!request.operation.is_empty()).then(|| request.clone());
        let status = match self.ask(&sidecar, request).await {
            Ok(events) => return Ok(Running { events, _sidecar: sidecar }),
            Err(status) => status,
        };
        let is_lost = matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled);
        let Some(request) = again.filter(|_| is_lost) else { return Err(self.verdict(session, status).await) };
        let sidecar = self.proven(session).await?;
        match self.ask(&sidecar, request).await {
            Ok(events) => Ok(Running { events, _sidecar: sidecar }),
            Err(status) => Err(self.verdict(session, status).await),
        }
    }

    async fn ask(&self, sidecar: &Sidecar, request: StepRequest) -> Result<Streaming<StepEvent>, Status> {
        let began = self.clock.monotonic();
        let asked = sidecar.steps().run_step(request).await;
        self.metrics.called("RunStep", self.clock.monotonic().saturating_sub(began));
        Ok(asked?.into_inner())
    }

    /// A Sandbox that was made by hand for one execution has had it.
    fn used(&self, session: &Arc<Session>) {
        if session.is_for_once {
            self.discard(session);
        }
    }
}

/// The result of a step that could not be run, after another that was.
fn undone(step: &Step, last: Option<i64>, failure: &Failure, now: String) -> StepResult {
    let error = StepError { kind: failure.kind, message: failure.message.clone() };
    StepResult {
        // The number it would have had: arl rejects a whole answer with a negative one in it.
        index: last.map_or(-1, |last| last + 1),
        name: step.name.clone(),
        output: StepOutput { exit_code: -1, ..StepOutput::default() },
        snapshot_id: None,
        duration_ms: 0,
        timestamp: now,
        input: step.clone(),
        error: Some(error),
    }
}

/// Executions under way, by session.
#[derive(Default)]
pub(super) struct Busy {
    sessions: Mutex<HashMap<String, usize>>,
}

impl Busy {
    fn begin(self: &Arc<Self>, session: &Session, max: usize) -> Result<Occupied> {
        let mut sessions = self.sessions.lock();
        let count = sessions.entry(session.uid.clone()).or_default();
        if *count >= max {
            return Err(Failure::crowded(format!("session {:?} has {max} executions under way", session.id), 1));
        }
        *count += 1;
        Ok(Occupied { busy: Arc::clone(self), uid: session.uid.clone() })
    }
}

/// An execution that is counted as long as this lives.
struct Occupied {
    busy: Arc<Busy>,
    uid: String,
}

impl Drop for Occupied {
    fn drop(&mut self) {
        let mut sessions = self.busy.sessions.lock();
        if let Some(count) = sessions.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                sessions.remove(&self.uid);
            }
        }
    }
}
