//! Operations: requests with a name, so that they can be made again without running anything twice. What is known of them
//! is with the steps' records, so every gateway knows it.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thane_api::wire::sandbox::{AttachRequest, StepRecord};
use tonic::Code;

use super::Shared;
use super::bodies::{ExecuteResponse, Kind, OperationInfo, Step, StepError};
use super::execute::vet;
use super::failure::{Failure, Result};
use super::keys::Caller;
use super::read::{Asked, At};
use super::records;
use super::sessions::Session;
use super::text::hex;

/// Sessions that are asked at once for an operation.
const ASKED_AT_ONCE: usize = 16;
/// Sessions that are asked at all, when it is not said which it is.
const ASKED_MAX: usize = 2000;

/// What is recorded with each step of an operation: the trace, and what the whole request was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Marker {
    #[serde(rename = "traceID")]
    trace: String,
    steps: usize,
    stop_on_error: bool,
    request: String,
}

impl Marker {
    pub(super) fn new(trace: &str, steps: &[Step], stop_on_error: bool) -> Self {
        // Steps are plain data: they can be written.
        let written = serde_json::to_vec(&(steps, stop_on_error)).unwrap_or_default();
        let request = hex(&Sha256::digest(&written)[..16]);
        Self { trace: trace.to_owned(), steps: steps.len(), stop_on_error, request }
    }

    pub(super) fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn read(trace: &str) -> Option<Self> {
        serde_json::from_str(trace).ok()
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.request == other.request
    }

    /// What the sidecar calls a step of an operation.
    pub(super) fn step(operation: &str, at: usize) -> String {
        format!("{operation}/{at}")
    }
}

/// Where an operation may be.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Where {
    #[serde(rename = "sessionID")]
    session: Option<String>,
    namespace: Option<String>,
}

/// How far an operation has come.
pub(super) async fn get(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    At(name): At,
    Asked(place): Asked<Where>,
) -> Result<axum::Json<OperationInfo>> {
    vet::operation(&name)?;
    let sessions = match &place.session {
        Some(id) => vec![shared.session(id, place.namespace.as_deref(), &caller).await?],
        None => {
            let may = |session: &Session| {
                caller.may(&session.namespace, session.owner.as_deref())
                    && !session.is_ending
                    && session.address().is_ok()
            };
            let mut sessions = shared.sessions.page(None, usize::MAX, may);
            // The newest are the likeliest; names begin with the time.
            sessions.reverse();
            sessions.truncate(ASKED_MAX);
            sessions
        }
    };
    let mut asked = stream::iter(sessions)
        .map(|session| {
            let (shared, name) = (&shared, &name);
            async move { shared.operation(&session, name).await }
        })
        .buffer_unordered(ASKED_AT_ONCE);
    let mut failed = None;
    while let Some(found) = asked.next().await {
        match found {
            Ok(Some(found)) => return Ok(axum::Json(found)),
            Ok(None) => {}
            Err(failure) => failed = Some(failure),
        }
    }
    // If only one session can have it, what is wrong with that one is what is wrong.
    Err(failed
        .filter(|_| place.session.is_some())
        .unwrap_or_else(|| Failure::absent(format!("there is no operation {name:?}"))))
}

impl Shared {
    /// What a session knows of an operation.
    async fn operation(&self, session: &Session, name: &str) -> Result<Option<OperationInfo>> {
        if !self.is_known(session, name, 0).await? {
            return Ok(None);
        }
        let mut found = BTreeMap::new();
        let mut history = self.history(session, false, 0).await?;
        while let Some(record) = history.next().await? {
            let at = record.operation.strip_prefix(name).and_then(|rest| rest.strip_prefix('/')?.parse().ok());
            if let Some(at) = at.filter(|at: &usize| *at < self.options.limits.steps_max) {
                found.insert(at, record);
            }
        }
        // What is known and not recorded runs.
        let is_running = self.is_known(session, name, found.len()).await?;
        Ok(Some(told(session, name, &found, is_running, self.options.limits.output_bytes_max)))
    }

    /// Whether a step of an operation runs or has run.
    async fn is_known(&self, session: &Session, name: &str, at: usize) -> Result<bool> {
        let sidecar = self.proven(session).await?;
        let request = AttachRequest { operation: Marker::step(name, at), ..AttachRequest::default() };
        match sidecar.steps().attach(request).await {
            Ok(_) => Ok(true),
            Err(status) if status.code() == Code::NotFound => Ok(false),
            Err(status) => Err(self.verdict(session, status).await),
        }
    }
}

fn told(
    session: &Session,
    name: &str,
    found: &BTreeMap<usize, StepRecord>,
    is_running: bool,
    mut budget: usize,
) -> OperationInfo {
    let first = found.values().next();
    let last = found.values().next_back();
    let marker = first.and_then(|record| Marker::read(&record.trace));
    let stopped = marker.as_ref().is_some_and(|marker| marker.stop_on_error)
        && last.is_some_and(|last| last.exit_code != 0 || last.failure.is_some());
    let is_done = stopped || marker.as_ref().is_some_and(|marker| found.len() >= marker.steps);
    let status = match (is_running, is_done) {
        (true, _) => "running",
        (false, true) => "done",
        (false, false) => "error",
    };
    let results: Vec<_> = found
        .values()
        .map(|record| {
            let result = records::result(record, budget);
            budget = budget.saturating_sub(result.output.stdout.len() + result.output.stderr.len());
            result
        })
        .collect();
    let total_duration_ms = found.values().map(|record| record.duration_ms).sum();
    let unfinished = "its request ended before its last step: make it again to go on";
    OperationInfo {
        operation_id: name.to_owned(),
        session_id: session.id.clone(),
        status: status.to_owned(),
        result: Some(ExecuteResponse { session_id: session.id.clone(), results, total_duration_ms }),
        error: (status == "error").then(|| StepError { kind: Kind::Infra, message: unfinished.to_owned() }),
        started_at: first.map(|record| records::time(record.started_at_ms)),
        finished_at: last
            .filter(|_| status == "done")
            .map(|record| records::time(record.started_at_ms.saturating_add(record.duration_ms))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_tell_requests_apart_and_traces_are_no_markers() {
        let step = |word: &str| Step { command: vec![word.to_owned()], ..Step::default() };
        let one = Marker::new("t", &[step("a")], false);
        assert_eq!(Marker::read(&one.write()), Some(one.clone()));
        assert!(one.is_same(&Marker::new("other trace", &[step("a")], false)));
        assert!(!one.is_same(&Marker::new("t", &[step("a")], true)));
        assert!(!one.is_same(&Marker::new("t", &[step("a"), step("b")], false)));
        assert_eq!(Marker::read("a trace"), None);
    }
}
