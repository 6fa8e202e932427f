//! The audit log: one line of JSON for each write, in the shape of `audit.k8s.io/v1` at level Metadata.
//!
//! [`Record::event`] builds the line, [`AuditLog::record`] queues it, and [`AuditWriter::run`] is the task that appends to
//! the file.

mod writer;

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::authz::{Action, User};
use crate::review::user_info;

pub use writer::{AuditFile, AuditWriter};

/// How many lines wait for the disk.
const QUEUE: usize = 1024;
/// How long a request waits for a place in the queue.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is known of a finished request.
#[derive(Debug, Clone)]
pub struct Record<'a> {
    /// Id of the request, the one sent as `Audit-Id`.
    pub id: &'a str,
    /// Path and query.
    pub uri: &'a str,
    /// What was asked for.
    pub action: &'a Action,
    /// Who really asked.
    pub user: &'a User,
    /// As whom, if as someone else.
    pub impersonated: Option<&'a User>,
    /// Addresses it came from, the client's first.
    pub sources: &'a [IpAddr],
    /// The client's `User-Agent`.
    pub user_agent: &'a str,
    /// The object that was written, for its uid and resourceVersion; its name too where the path has none.
    pub object: Option<&'a Value>,
    /// HTTP status of the answer.
    pub code: u16,
    /// The reason of a failure, such as `Conflict`.
    pub reason: &'a str,
    /// Why it was allowed or not: [`crate::authz::Decision::reason`].
    pub decision: &'a str,
    /// When it came.
    pub received: Timestamp,
    /// When it was answered.
    pub finished: Timestamp,
}

impl Record<'_> {
    /// The event.
    pub fn event(&self) -> Value {
        let mut event = json!({
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": self.id,
            "stage": "ResponseComplete",
            "requestURI": self.uri,
            "verb": self.action.verb,
            "user": user_info(self.user),
            "responseStatus": self.status(),
            "requestReceivedTimestamp": crate::time::micros(self.received),
            "stageTimestamp": crate::time::micros(self.finished),
            "annotations": {
                "authorization.k8s.io/decision": if self.code == 403 { "forbid" } else { "allow" },
                "authorization.k8s.io/reason": self.decision,
            },
        });
        if let Some(user) = self.impersonated {
            event["impersonatedUser"] = user_info(user);
        }
        if !self.sources.is_empty() {
            event["sourceIPs"] = self.sources.iter().map(ToString::to_string).collect();
        }
        if !self.user_agent.is_empty() {
            event["userAgent"] = self.user_agent.into();
        }
        if self.action.path.is_none() {
            event["objectRef"] = self.reference();
        }
        event
    }

    fn status(&self) -> Value {
        let mut status = json!({ "metadata": {}, "code": self.code });
        if self.code >= 400 {
            status["status"] = "Failure".into();
            if !self.reason.is_empty() {
                status["reason"] = self.reason.into();
            }
        }
        status
    }

    fn reference(&self) -> Value {
        let of =
            |key: &str| self.object.and_then(|object| object.get("metadata")?.get(key)?.as_str()).unwrap_or_default();
        let action = self.action;
        let name = if action.name.is_empty() { of("name") } else { &action.name };
        let mut out = Map::new();
        for (key, text) in [
            ("resource", action.resource.as_str()),
            ("namespace", &action.namespace),
            ("name", name),
            ("uid", of("uid")),
            ("apiGroup", &action.group),
            ("apiVersion", &action.version),
            ("resourceVersion", of("resourceVersion")),
            ("subresource", &action.subresource),
        ] {
            if !text.is_empty() {
                out.insert(key.into(), text.into());
            }
        }
        Value::Object(out)
    }
}

/// What the answer to a write says about the object, as far as a record needs it.
pub(crate) fn written(answer: &[u8]) -> Option<Value> {
    #[derive(Deserialize, Serialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Default, Deserialize, Serialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Metadata {
        name: String,
        uid: String,
        resource_version: String,
    }
    // The rest is skipped, not kept: an object may be large.
    let object: Object = serde_json::from_slice(answer).ok()?;
    serde_json::to_value(object).ok()
}

/// What the log counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metrics {
    written: Counter,
    waited: Counter,
    lost: Counter,
}

/// Where requests leave their events. Clones share the queue.
#[derive(Debug, Clone)]
pub struct AuditLog {
    queue: mpsc::Sender<Vec<u8>>,
    metrics: Metrics,
}

/// The event could not be queued in time: the disk is too slow, or the writer has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("audit log does not keep up")]
pub struct AuditLost;

impl AuditLog {
    /// The log, and the writer to run as a task.
    pub fn new(file: AuditFile) -> (Self, AuditWriter) {
        let (queue, events) = mpsc::channel(QUEUE);
        let metrics = Metrics::default();
        (Self { queue, metrics: metrics.clone() }, AuditWriter::new(file, events, metrics))
    }

    /// Makes the counts visible.
    pub fn register(&self, registry: &mut Registry) {
        let metrics = &self.metrics;
        registry.register("audit_events", "Events written to the audit log", metrics.written.clone());
        registry.register("audit_waits", "Requests that waited for the audit log", metrics.waited.clone());
        registry.register("audit_events_lost", "Events that could not be written", metrics.lost.clone());
    }

    /// Queues an event. When the queue is full the request waits, but not for ever; what is lost is counted and told.
    pub async fn record(&self, event: &Value) -> Result<(), AuditLost> {
        self.place().await.map(|place| place.fill(event))
    }

    /// A place in the queue for an event that is still to be worded; waits for it as [`AuditLog::record`] does.
    pub(crate) async fn place(&self) -> Result<Place<'_>, AuditLost> {
        if let Ok(permit) = self.queue.try_reserve() {
            return Ok(Place(permit));
        }
        self.metrics.waited.inc();
        match tokio::time::timeout(PATIENCE, self.queue.reserve()).await {
            Ok(Ok(permit)) => Ok(Place(permit)),
            _ => {
                self.metrics.lost.inc();
                Err(AuditLost)
            }
        }
    }
}

/// A place in the queue.
pub(crate) struct Place<'a>(mpsc::Permit<'a, Vec<u8>>);

impl Place<'_> {
    /// Queues an event there.
    pub(crate) fn fill(self, event: &Value) {
        let mut line = event.to_string().into_bytes();
        line.push(b'\n');
        self.0.send(line);
    }
}

#[cfg(test)]
mod tests;
