//! Steps in warm sandboxes: no pod is made, so one starts in milliseconds.

mod fit;
mod inputs;
mod outputs;

use std::path::PathBuf;

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use thane_executor::step::RESULT_MAX;

pub use fit::{pool, unfit};

use super::names::SCRIPT;
use super::outcome::Phase;
use super::pod::{list, text};
use super::request::Identity;

/// A sandbox that is one step's until it is let go.
pub trait Room: Send + Sync {
    /// Writes files, with their directories. The same again changes nothing.
    fn stage(&self, files: Vec<Staged>) -> BoxFuture<'_, Result<(), String>>;
    /// Runs the step's command to its end. One that was begun before is followed, or told again, and never run twice.
    fn run<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, Result<Ended, String>>;
    /// Reads at most so much of a file; nothing if there is none.
    fn read<'a>(&'a self, path: &'a str, max: u64) -> BoxFuture<'a, Result<Option<Vec<u8>>, String>>;
    /// What is at a path.
    fn find<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Found, String>>;
    /// Keeps what the step said, for people who ask when the sandbox is gone.
    fn keep<'a>(&'a self, log: &'a [u8]) -> BoxFuture<'a, ()>;
    /// Gives it back; nobody else gets it.
    fn release(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// Who has sandboxes.
pub trait StepRunner: Send + Sync {
    /// The image that a pool's sandboxes have.
    fn image<'a>(&'a self, namespace: &'a str, pool: &'a str) -> BoxFuture<'a, Result<String, String>>;
    /// One of a pool, for this step alone: the same one if it has one. None if it had one that is gone.
    fn claim<'a>(&'a self, wanted: &'a Wanted) -> BoxFuture<'a, Result<Option<Box<dyn Room>>, String>>;
    /// The directory of artifacts of a namespace, if it is on this machine; the claim for it has been made.
    fn artifacts<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Option<PathBuf>, String>>;
    /// Gives back whatever steps of a Workflow that has ended still have.
    fn sweep<'a>(&'a self, namespace: &'a str, workflow: &'a str) -> BoxFuture<'a, Result<(), String>>;
}

/// For which step a sandbox is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Its workflow.
    pub workflow: Identity,
    /// The id of its node.
    pub node_id: String,
    /// The pool.
    pub pool: String,
    /// Whether it has run in one before: then only that one is its sandbox, and no other is made.
    pub was_running: bool,
}

/// A file that a step finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// Where.
    pub path: String,
    /// What is in it.
    pub content: Vec<u8>,
    /// Who may do what with it.
    pub mode: u32,
}

/// What is at a path in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Absent,
    /// A file.
    File,
    /// A directory, with the names in it and whether each is one.
    Directory(Vec<(String, bool)>),
}

/// A command in a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// Program and arguments.
    pub words: Vec<String>,
    /// Variables besides the sandbox's own.
    pub env: Vec<(String, String)>,
    /// Where it starts, if not where the sandbox says.
    pub directory: Option<String>,
}

/// How a command ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code.
    pub code: i32,
    /// At least the last 256 kB of its standard output.
    pub stdout: Vec<u8>,
    /// The end of all that it said.
    pub log: Vec<u8>,
}

/// What a step in a sandbox has come to: the fields of a task result.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// How it ended.
    pub phase: Phase,
    /// Why.
    pub message: String,
    /// Argo's Outputs.
    pub outputs: Value,
    /// The end of what it said.
    pub log: Vec<u8>,
}

/// A step that is to be run in a sandbox.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Its template, with a place for every artifact.
    pub template: &'a Value,
    /// The directory of artifacts.
    pub artifacts: Option<&'a std::path::Path>,
    /// Whether somebody reads its result.
    pub wants_result: bool,
}

impl Ran {
    /// Something around the command went wrong.
    pub fn error(message: String) -> Self {
        Self { phase: Phase::Error, message, outputs: Value::Null, log: Vec::new() }
    }

    /// It did not end in time, or was not wanted any more.
    pub fn failed(message: &str) -> Self {
        Self { phase: Phase::Failed, message: message.to_owned(), outputs: Value::Null, log: Vec::new() }
    }
}

/// Runs a step in its sandbox.
pub async fn run(room: &dyn Room, asked: &Asked<'_>) -> Ran {
    in_room(room, asked).await.unwrap_or_else(Ran::error)
}

async fn in_room(room: &dyn Room, asked: &Asked<'_>) -> Result<Ran, String> {
    let template = asked.template;
    let is_script = template["script"].is_object();
    let body = if is_script { &template["script"] } else { &template["container"] };
    let mut staged = inputs::staged(asked).await?;
    if is_script {
        let content = text(body, "source").as_bytes().to_vec();
        staged.push(Staged { path: SCRIPT.to_owned(), content, mode: 0o755 });
    }
    if !staged.is_empty() {
        room.stage(staged).await?;
    }
    let ended = room.run(&command(body, is_script)).await?;
    let mut outputs = Map::new();
    outputs.insert("exitCode".to_owned(), json!(ended.code.to_string()));
    if asked.wants_result {
        let kept = ended.stdout.strip_suffix(b"\n").unwrap_or(&ended.stdout);
        let kept = &kept[kept.len().saturating_sub(RESULT_MAX)..];
        outputs.insert("result".to_owned(), json!(String::from_utf8_lossy(kept)));
    }
    let (mut phase, mut message) = match ended.code {
        0 => (Phase::Succeeded, String::new()),
        code => (Phase::Failed, format!("main: Error (exit code {code})")),
    };
    let left = [
        ("parameters", outputs::parameters(room, list(&template["outputs"]["parameters"])).await),
        ("artifacts", outputs::artifacts(room, asked).await),
    ];
    for (name, found) in left {
        match found {
            Ok(found) if found.is_empty() => {}
            Ok(found) => drop(outputs.insert(name.to_owned(), json!(found))),
            Err(why) if phase == Phase::Succeeded => (phase, message) = (Phase::Error, why),
            Err(_) => {}
        }
    }
    Ok(Ran { phase, message, outputs: Value::Object(outputs), log: ended.log })
}

fn command(body: &Value, is_script: bool) -> Command {
    let texts = |name: &str| list(&body[name]).iter().filter_map(Value::as_str).map(str::to_owned);
    let mut words: Vec<String> = texts("command").chain(texts("args")).collect();
    if is_script {
        words.push(SCRIPT.to_owned());
    }
    let env = list(&body["env"]).iter().map(|one| (text(one, "name").to_owned(), text(one, "value").to_owned()));
    let directory = Some(text(body, "workingDir")).filter(|path| !path.is_empty()).map(str::to_owned);
    Command { words, env: env.collect(), directory }
}

#[cfg(test)]
mod tests;
