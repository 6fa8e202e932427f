//! What is said over REST. Envelopes are in camel case and results in snake case, as upstream has them.

mod pools;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

pub use super::failure::{ErrorBody, Kind};
pub use pools::{CreateManagedSession, CreatePool, ExperimentDeleted, PatchPool, PoolCondition, PoolCreated, PoolInfo};

/// Clients that say `null` mean that they say nothing.
fn null_as_default<'de, D, T>(reader: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(reader)?.unwrap_or_default())
}

/// A session that is wanted.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateSession {
    /// The pool it comes from.
    pub pool_ref: String,
    /// The pool's namespace; `default` unless said.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Whether whoever asked means to come back to it.
    #[serde(default)]
    pub keep_alive: Option<bool>,
    /// Without a command or a stream for so long it goes; 0: never.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub idle_timeout_seconds: Option<i32>,
    /// After so long it goes; 0: never.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub max_lifetime_seconds: Option<i32>,
    /// The environment of every step.
    #[serde(default, deserialize_with = "null_as_default")]
    pub env: BTreeMap<String, String>,
    /// Files that are there before the first step.
    #[serde(default, deserialize_with = "null_as_default")]
    pub files: Vec<NewFile>,
    /// What to do when none is idle.
    #[serde(default, deserialize_with = "null_as_default")]
    pub on_empty: WhenEmpty,
    /// How long to wait for one.
    #[serde(default)]
    pub wait_seconds: Option<u32>,
}

/// A file of a new session.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewFile {
    /// Where.
    pub path: String,
    /// What is in it, in base64.
    #[serde(default)]
    pub content: String,
    /// Its mode as a number or in octal digits; 0644 unless said.
    #[serde(default)]
    pub mode: Option<FileMode>,
}

/// Bits of a file's mode.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FileMode {
    /// As a number.
    Bits(u32),
    /// In octal digits.
    Octal(String),
}

/// What to do when no sandbox is idle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WhenEmpty {
    /// Wait for one, in turn.
    #[default]
    Wait,
    /// Make one at once.
    Cold,
    /// Say so.
    Fail,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// What it is called.
    pub id: String,
    /// Its Sandbox.
    pub sandbox_name: String,
    /// The namespace of both.
    pub namespace: String,
    /// The pool it came from.
    pub pool_ref: String,
    /// Where its sidecar listens.
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    /// Its pod.
    pub pod_name: String,
    /// When it was made, in RFC 3339.
    pub created_at: String,
    /// How far its Sandbox has come.
    pub phase: String,
    /// Where its steps start.
    pub work_dir: String,
    /// The experiment it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment_id: Option<String>,
    /// Whether its pool was made for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub managed: bool,
}

/// Steps to run, one after the other.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecuteRequest {
    /// The steps.
    pub steps: Vec<Step>,
    /// The trace they belong to.
    #[serde(default, rename = "traceID")]
    pub trace_id: Option<String>,
    /// Names this request: the same again has the same results, without running anything twice.
    #[serde(default, rename = "operationID")]
    pub operation_id: Option<String>,
    /// Whether to leave the rest when a step fails.
    #[serde(default, deserialize_with = "null_as_default")]
    pub stop_on_error: bool,
}

/// A command.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// What whoever asks calls it.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Environment of its own.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Where it starts.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub work_dir: String,
    /// After so long it is ended, with exit code 124.
    #[serde(default, alias = "timeout", skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    /// Whether what it started may go on after it.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// What it reads.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub stdin: String,
    /// Neither recorded nor kept as a snapshot.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub unrecorded: bool,
}

/// What became of steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecuteResponse {
    /// The session.
    #[serde(rename = "sessionID")]
    pub session_id: String,
    /// One for each step that was begun.
    pub results: Vec<StepResult>,
    /// How long all took.
    pub total_duration_ms: i64,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepResult {
    /// Its number in the session, never used again; -1 when it was not recorded. Of one that could not be run after others: what it would have had.
    pub index: i64,
    /// What whoever asked calls it.
    pub name: String,
    /// What it said.
    pub output: StepOutput,
    /// What brings back the files as they were after it.
    pub snapshot_id: Option<String>,
    /// How long it took.
    pub duration_ms: i64,
    /// When it began, in RFC 3339.
    pub timestamp: String,
    /// What was asked.
    pub input: Step,
    /// Why it did not end by itself.
    pub error: Option<StepError>,
}

/// What a step said, up to a MiB of each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepOutput {
    /// As text; what is no UTF-8 is replaced.
    pub stdout: String,
    /// As text; what is no UTF-8 is replaced.
    pub stderr: String,
    /// How it ended.
    pub exit_code: i32,
    /// Exactly, in base64, where it is no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<String>,
    /// Exactly, in base64, where it is no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<String>,
    /// Whether there was more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stdout_truncated: bool,
    /// Whether there was more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stderr_truncated: bool,
}

/// Why a step did not end by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepError {
    /// Whose fault it is.
    pub kind: Kind,
    /// What happened.
    pub message: String,
}

/// A piece of output, as an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputEvent {
    /// The step's number.
    pub index: i64,
    /// The piece, as text or in base64.
    pub data: String,
    /// `base64` where it is in that, because it is no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
}

/// Where to go back to.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct RestoreRequest {
    /// A step's snapshot; `-1` is the sandbox as it was made.
    #[serde(rename = "snapshotID")]
    pub snapshot_id: String,
}

/// Where a session is again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreResponse {
    /// Always `restored`.
    pub status: String,
    /// The snapshot.
    #[serde(rename = "snapshotID")]
    pub snapshot_id: String,
    /// How many steps were run again because files are not kept there.
    pub steps_replayed: usize,
}

/// Sessions that begin where another was.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct ForkRequest {
    /// A step's snapshot; `-1` is the sandbox as it was made.
    #[serde(rename = "snapshotID")]
    pub snapshot_id: String,
    /// How many; 1 unless said.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub count: Option<u32>,
}

/// Sessions that were made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForkResponse {
    /// The sessions.
    pub sessions: Vec<SessionInfo>,
}

/// A step of a trajectory, one per line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrajectoryEntry {
    /// The session.
    pub session_id: String,
    /// The step's number.
    pub step: i64,
    /// The step it began after; -1 is the sandbox as it was made.
    pub parent: i64,
    /// Whether it led to the present files.
    pub live: bool,
    /// What was asked.
    pub action: Step,
    /// What came of it.
    pub observation: StepOutput,
    /// What brings back the files as they were after it.
    pub snapshot_id: Option<String>,
    /// When it began, in RFC 3339.
    pub timestamp: String,
    /// How long it took.
    pub duration_ms: i64,
    /// Why it did not end by itself.
    pub error: Option<StepError>,
}

/// How far an operation has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationInfo {
    /// Its name.
    #[serde(rename = "operationID")]
    pub operation_id: String,
    /// The session it belongs to.
    #[serde(rename = "sessionID")]
    pub session_id: String,
    /// `running`, `done` or `error`.
    pub status: String,
    /// What came of it, so far.
    pub result: Option<ExecuteResponse>,
    /// Why it will not be finished.
    pub error: Option<StepError>,
    /// When its first step began, in RFC 3339.
    pub started_at: Option<String>,
    /// When its last step ended, in RFC 3339.
    pub finished_at: Option<String>,
}

/// A path in a sandbox.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct FilePath {
    /// The path.
    pub path: String,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UploadResponse {
    /// Where it is.
    pub path: String,
    /// How long it is.
    pub size_bytes: i64,
    /// Its SHA-256, in hexadecimal digits.
    pub sha256: String,
}

/// What goes over the WebSocket of a shell, in both directions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShellMessage {
    /// `input`, `signal` or `resize` from the client; `output`, `exit` or `error` to it.
    #[serde(rename = "type")]
    pub kind: String,
    /// Text of input, output and errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// A signal's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Lines of the terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<i32>,
    /// Columns of the terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cols: Option<i32>,
    /// How the shell ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// How the gateway is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// `ok`, or `starting` until the sessions there are have been seen.
    pub status: String,
    /// Sessions there are.
    pub sessions: usize,
    /// Sidecars it is connected to.
    pub sidecars: usize,
}
