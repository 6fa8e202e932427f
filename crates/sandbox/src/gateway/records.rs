//! Steps as their sidecar records them, and as they are shown.

use jiff::Timestamp;
use thane_api::wire::sandbox::step_failure;
use thane_api::wire::sandbox::{StepFailure, StepRecord};

use super::bodies::{Kind, Step, StepError, StepOutput, StepResult, TrajectoryEntry};
use super::text::whole;

/// What is shown of each stream.
pub(super) const OUTPUT_MAX: usize = 1 << 20;

/// What brings back the files as they were after a step: its number, where they are kept.
fn snapshot_id(record: &StepRecord) -> Option<String> {
    (!record.snapshot.is_empty()).then(|| record.index.to_string())
}

pub(super) fn kind(failure: &StepFailure) -> Kind {
    match failure.kind() {
        step_failure::Kind::User => Kind::User,
        step_failure::Kind::Timeout => Kind::Timeout,
        step_failure::Kind::Oom => Kind::Oom,
        // Who does not say whose fault it was does not blame the command.
        step_failure::Kind::Infra | step_failure::Kind::Unspecified => Kind::Infra,
    }
}

fn error(record: &StepRecord) -> Option<StepError> {
    record.failure.as_ref().map(|failure| StepError { kind: kind(failure), message: failure.message.clone() })
}

pub(super) fn time(ms: i64) -> String {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH).to_string()
}

fn input(record: &StepRecord) -> Step {
    Step {
        name: record.name.clone(),
        command: record.command.clone(),
        env: record.env.clone().into_iter().collect(),
        work_dir: record.working_dir.clone(),
        timeout_seconds: seconds(record.timeout_ms),
        background: record.background,
        stdin: String::from_utf8_lossy(&record.stdin).into_owned(),
        unrecorded: false,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a timeout of 2^53 ms is none")]
fn seconds(ms: i64) -> Option<f64> {
    (ms > 0).then(|| ms as f64 / 1000.0)
}

fn output(record: &StepRecord, max: usize) -> StepOutput {
    let stdout = whole(&record.stdout, record.stdout_bytes, max.min(OUTPUT_MAX));
    let stderr = whole(&record.stderr, record.stderr_bytes, max.saturating_sub(stdout.text.len()).min(OUTPUT_MAX));
    StepOutput {
        stdout: stdout.text,
        stderr: stderr.text,
        exit_code: record.exit_code,
        stdout_base64: stdout.base64,
        stderr_base64: stderr.base64,
        stdout_truncated: stdout.is_cut,
        stderr_truncated: stderr.is_cut,
    }
}

/// A step as a result, with at most so much of its output.
pub(super) fn result(record: &StepRecord, max: usize) -> StepResult {
    StepResult {
        index: record.index,
        name: record.name.clone(),
        output: output(record, max),
        snapshot_id: snapshot_id(record),
        duration_ms: record.duration_ms,
        timestamp: time(record.started_at_ms),
        input: input(record),
        error: error(record),
    }
}

/// A step as a line of a trajectory.
pub(super) fn entry(session: &str, record: &StepRecord) -> TrajectoryEntry {
    TrajectoryEntry {
        session_id: session.to_owned(),
        step: record.index,
        parent: record.parent,
        live: record.live,
        action: input(record),
        observation: output(record, usize::MAX),
        snapshot_id: snapshot_id(record),
        timestamp: time(record.started_at_ms),
        duration_ms: record.duration_ms,
        error: error(record),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_upstreams_fields() {
        let record = StepRecord {
            index: 3,
            name: "n".to_owned(),
            command: vec!["sh".to_owned()],
            exit_code: 124,
            stdout: bytes::Bytes::from_static(b"hi\xff"),
            stdout_bytes: 3,
            duration_ms: 5,
            started_at_ms: 1_700_000_000_000,
            snapshot: "layer".to_owned(),
            timeout_ms: 1500,
            failure: Some(StepFailure { kind: step_failure::Kind::Timeout.into(), message: "too long".to_owned() }),
            ..StepRecord::default()
        };
        let shown = serde_json::to_value(result(&record, usize::MAX)).unwrap();
        let expected = serde_json::json!({
            "index": 3, "name": "n", "snapshot_id": "3", "duration_ms": 5, "timestamp": "2023-11-14T22:13:20Z",
            "output": {"stdout": "hi\u{fffd}", "stderr": "", "exit_code": 124, "stdout_base64": "aGn/"},
            "input": {"name": "n", "command": ["sh"], "timeoutSeconds": 1.5},
            "error": {"kind": "timeout", "message": "too long"},
        });
        assert_eq!(shown, expected);
        let plain = StepRecord { failure: None, snapshot: String::new(), ..record };
        let shown = serde_json::to_value(result(&plain, 0)).unwrap();
        assert_eq!((&shown["error"], &shown["snapshot_id"]), (&serde_json::Value::Null, &serde_json::Value::Null));
        assert_eq!(shown["output"]["stdout_truncated"], true);
    }
}
