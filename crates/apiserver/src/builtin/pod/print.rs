//! A pod as a row: one word for what its containers do.

use jiff::Timestamp;
use serde_json::Value;

use super::super::Column;
use super::super::access::{flag, items, number, present, text};
use super::super::columns::{AGE, NAME, age, column, name, or_else, wide};
use crate::{metadata, table};

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    column("Ready", "How many of its containers are ready."),
    column("Status", "What its containers do, in a word."),
    column("Restarts", "How often its containers were restarted, and when last."),
    AGE,
    wide("IP", "Its address."),
    wide("Node", "Where it runs."),
    wide("Nominated Node", "Where it may run once others are gone."),
    wide("Readiness Gates", "How many of its further conditions hold."),
];

pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let sidecars = items(pod, "/spec/initContainers").iter().filter(|container| is_sidecar(container)).count();
    let total = items(pod, "/spec/containers").len() + sidecars;
    let summary = summarise(pod);
    let restarts = match (summary.restarts, &summary.last_restart) {
        (0, _) | (_, None) => summary.restarts.to_string(),
        (count, Some(last)) => format!("{count} ({} ago)", table::age(&last.to_string(), now)),
    };
    let address = items(pod, "/status/podIPs").first().map_or("", |address| text(address, "/ip"));
    vec![
        name(pod),
        format!("{}/{total}", summary.ready).into(),
        summary.reason.into(),
        restarts.into(),
        age(pod, now),
        if address.is_empty() { "<none>" } else { address }.into(),
        or_else(pod, "/spec/nodeName", "<none>").into(),
        or_else(pod, "/status/nominatedNodeName", "<none>").into(),
        gates(pod).into(),
    ]
}

struct Summary {
    reason: String,
    ready: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

fn summarise(pod: &Value) -> Summary {
    let mut summary = starting(pod);
    let initialising = initialise(pod, &mut summary);
    if !initialising || condition(pod, "Initialized") == "True" {
        run(pod, &mut summary);
    }
    if metadata::deletion_timestamp(pod).is_some() {
        if text(pod, "/status/reason") == "NodeLost" {
            "Unknown".clone_into(&mut summary.reason);
        } else if !matches!(text(pod, "/status/phase"), "Failed" | "Succeeded") {
            "Terminating".clone_into(&mut summary.reason);
        }
    }
    summary
}

fn starting(pod: &Value) -> Summary {
    let gated = items(pod, "/status/conditions")
        .iter()
        .any(|condition| text(condition, "/type") == "PodScheduled" && text(condition, "/reason") == "SchedulingGated");
    let reason = match (gated, text(pod, "/status/reason")) {
        (true, _) => "SchedulingGated",
        (false, "") => text(pod, "/status/phase"),
        (false, reason) => reason,
    };
    Summary { reason: reason.to_owned(), ready: 0, restarts: 0, last_restart: None }
}

/// Looks at the init containers up to the first that is not done; tells whether there is one.
fn initialise(pod: &Value, summary: &mut Summary) -> bool {
    let containers = items(pod, "/spec/initContainers");
    for (at, status) in items(pod, "/status/initContainerStatuses").iter().enumerate() {
        summary.restarts += number(status, "/restartCount");
        summary.last_restart = summary.last_restart.max(last_end(status));
        let own = containers.iter().find(|container| text(container, "/name") == text(status, "/name"));
        let terminated = present(status, "/state/terminated");
        if terminated.is_some_and(|end| number(end, "/exitCode") == 0) {
            continue;
        }
        if own.is_some_and(is_sidecar) && flag(status, "/started") {
            summary.ready += usize::from(flag(status, "/ready"));
            continue;
        }
        let waiting = text(status, "/state/waiting/reason");
        summary.reason = match terminated {
            Some(end) => format!("Init:{}", ending(end)),
            None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
            None => format!("Init:{at}/{}", containers.len()),
        };
        return true;
    }
    false
}

fn run(pod: &Value, summary: &mut Summary) {
    let containers = items(pod, "/spec/initContainers");
    (summary.restarts, summary.last_restart) = (0, None);
    for status in items(pod, "/status/initContainerStatuses") {
        let own = containers.iter().find(|container| text(container, "/name") == text(status, "/name"));
        if own.is_some_and(is_sidecar) {
            summary.restarts += number(status, "/restartCount");
            summary.last_restart = summary.last_restart.max(last_end(status));
        }
    }
    let mut running = false;
    for status in items(pod, "/status/containerStatuses").iter().rev() {
        summary.restarts += number(status, "/restartCount");
        summary.last_restart = summary.last_restart.max(last_end(status));
        let waiting = text(status, "/state/waiting/reason");
        if !waiting.is_empty() {
            waiting.clone_into(&mut summary.reason);
        } else if let Some(end) = present(status, "/state/terminated") {
            summary.reason = ending(end);
        } else if flag(status, "/ready") && present(status, "/state/running").is_some() {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.reason == "Completed" && running {
        let word = if condition(pod, "Ready") == "True" { "Running" } else { "NotReady" };
        word.clone_into(&mut summary.reason);
    }
}

fn ending(end: &Value) -> String {
    match (text(end, "/reason"), number(end, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number(end, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn last_end(status: &Value) -> Option<Timestamp> {
    text(status, "/lastState/terminated/finishedAt").parse().ok()
}

fn is_sidecar(container: &Value) -> bool {
    text(container, "/restartPolicy") == "Always"
}

fn condition<'a>(pod: &'a Value, kind: &str) -> &'a str {
    let found = items(pod, "/status/conditions").iter().find(|condition| text(condition, "/type") == kind);
    found.map_or("", |condition| text(condition, "/status"))
}

fn gates(pod: &Value) -> String {
    let gates = items(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates.iter().filter(|gate| condition(pod, text(gate, "/conditionType")) == "True").count();
    format!("{open}/{}", gates.len())
}
