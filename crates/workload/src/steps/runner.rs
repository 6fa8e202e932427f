//! Steps in warm sandboxes: no pod is made, so one starts in milliseconds.

use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use thane_executor::step::{PARAMETER_MAX, RESULT_MAX};

use super::names::{POOL, SCRIPT};
use super::outcome::Phase;
use super::pod::{list, text};

/// A sandbox that is one step's until it is let go.
pub trait Room: Send + Sync {
    /// Writes a file, with its directories.
    fn write<'a>(&'a self, path: &'a str, content: Vec<u8>, mode: u32) -> BoxFuture<'a, Result<(), String>>;
    /// Reads at most so much of a file; nothing if there is none.
    fn read<'a>(&'a self, path: &'a str, max: u64) -> BoxFuture<'a, Result<Option<Vec<u8>>, String>>;
    /// Runs a command to its end.
    fn run<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, Result<Ended, String>>;
    /// Gives it back; nobody else gets it.
    fn release(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// Who has sandboxes.
pub trait StepRunner: Send + Sync {
    /// One of a pool, for this step alone.
    fn claim<'a>(&'a self, namespace: &'a str, pool: &'a str) -> BoxFuture<'a, Result<Box<dyn Room>, String>>;
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
    /// How long it may take.
    pub timeout: Option<Duration>,
}

/// How a command ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code.
    pub code: i32,
    /// At least the last 256 kB of its standard output.
    pub stdout: Vec<u8>,
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
}

/// The pool a step asks for, on its template or else on the Workflow.
pub fn pool<'a>(template: &'a Value, annotations: &'a Value) -> Option<&'a str> {
    let own = template["metadata"]["annotations"][POOL].as_str();
    own.or_else(|| annotations[POOL].as_str()).filter(|pool| !pool.is_empty())
}

/// Why a step needs a pod although it asks for a sandbox; nothing if it does not. The pool's sandboxes have that image.
pub fn unfit(template: &Value, image: &str) -> Option<String> {
    let body = if template["container"].is_object() { &template["container"] } else { &template["script"] };
    if !body.is_object() {
        return Some("only containers and scripts run in sandboxes".to_owned());
    }
    let has = |value: &Value| value.as_array().is_some_and(|items| !items.is_empty());
    let is_raw = |one: &Value| one["raw"].is_object();
    let own = text(body, "image");
    if !own.is_empty() && own != image {
        return Some(format!("its image is {own:?}, the pool's is {image:?}"));
    }
    for (found, what) in [
        (has(&template["volumes"]) || has(&body["volumeMounts"]), "volumes"),
        (has(&template["sidecars"]), "sidecars"),
        (has(&template["initContainers"]), "init containers"),
        (has(&template["outputs"]["artifacts"]), "output artifacts"),
        (list(&template["inputs"]["artifacts"]).iter().any(|one| !is_raw(one)), "input artifacts that are not raw"),
        (
            has(&body["envFrom"]) || list(&body["env"]).iter().any(|one| one["valueFrom"].is_object()),
            "variables from elsewhere",
        ),
        (!text(template, "podSpecPatch").is_empty(), "a podSpecPatch"),
        (template["daemon"] == true, "to run as a daemon"),
    ] {
        if found {
            return Some(format!("it has {what}"));
        }
    }
    if list(&body["command"]).is_empty() {
        return Some("it names no command".to_owned());
    }
    None
}

/// Runs a step in a sandbox of a pool; the sandbox is let go whatever happens.
pub async fn run(
    runner: &dyn StepRunner,
    namespace: &str,
    pool: &str,
    template: &Value,
    timeout: Option<Duration>,
    wants_result: bool,
) -> Ran {
    let room = match runner.claim(namespace, pool).await {
        Ok(room) => room,
        Err(why) => return error(why),
    };
    let ran = in_room(room.as_ref(), template, timeout, wants_result).await;
    room.release().await;
    ran.unwrap_or_else(error)
}

fn error(message: String) -> Ran {
    Ran { phase: Phase::Error, message, outputs: Value::Null }
}

async fn in_room(
    room: &dyn Room,
    template: &Value,
    timeout: Option<Duration>,
    wants_result: bool,
) -> Result<Ran, String> {
    for artifact in list(&template["inputs"]["artifacts"]) {
        let mode = artifact["mode"].as_u64().and_then(|mode| u32::try_from(mode).ok()).unwrap_or(0o644);
        let content = text(&artifact["raw"], "data").as_bytes().to_vec();
        room.write(text(artifact, "path"), content, mode).await?;
    }
    let is_script = template["script"].is_object();
    let body = if is_script { &template["script"] } else { &template["container"] };
    if is_script {
        room.write(SCRIPT, text(body, "source").as_bytes().to_vec(), 0o755).await?;
    }
    let ended = room.run(&command(body, is_script, timeout)).await?;
    let mut outputs = Map::new();
    outputs.insert("exitCode".to_owned(), json!(ended.code.to_string()));
    if wants_result {
        let kept = ended.stdout.strip_suffix(b"\n").unwrap_or(&ended.stdout);
        let kept = &kept[kept.len().saturating_sub(RESULT_MAX)..];
        outputs.insert("result".to_owned(), json!(String::from_utf8_lossy(kept)));
    }
    let (mut phase, mut message) = match ended.code {
        0 => (Phase::Succeeded, String::new()),
        code => (Phase::Failed, format!("main: Error (exit code {code})")),
    };
    match parameters(room, list(&template["outputs"]["parameters"])).await {
        Ok(found) if found.is_empty() => {}
        Ok(found) => drop(outputs.insert("parameters".to_owned(), json!(found))),
        Err(why) if phase == Phase::Succeeded => (phase, message) = (Phase::Error, why),
        Err(_) => {}
    }
    Ok(Ran { phase, message, outputs: Value::Object(outputs) })
}

fn command(body: &Value, is_script: bool, timeout: Option<Duration>) -> Command {
    let texts = |name: &str| list(&body[name]).iter().filter_map(Value::as_str).map(str::to_owned);
    let mut words: Vec<String> = texts("command").chain(texts("args")).collect();
    if is_script {
        words.push(SCRIPT.to_owned());
    }
    let env = list(&body["env"]).iter().map(|one| (text(one, "name").to_owned(), text(one, "value").to_owned()));
    let directory = Some(text(body, "workingDir")).filter(|path| !path.is_empty()).map(str::to_owned);
    Command { words, env: env.collect(), directory, timeout }
}

async fn parameters(room: &dyn Room, promised: &[Value]) -> Result<Vec<Value>, String> {
    let mut found = Vec::new();
    for parameter in promised {
        let mut parameter = parameter.clone();
        if let Some(path) = parameter["valueFrom"]["path"].as_str().filter(|path| !path.is_empty()) {
            let default = parameter["valueFrom"]["default"].as_str();
            let value = match (room.read(path, PARAMETER_MAX + 1).await?, default) {
                (Some(bytes), _) if bytes.len() as u64 > PARAMETER_MAX => {
                    let name = text(&parameter, "name");
                    return Err(format!("output parameter {name} is larger than {PARAMETER_MAX} bytes"));
                }
                (Some(bytes), _) => String::from_utf8_lossy(&bytes).into_owned(),
                (None, Some(default)) => default.to_owned(),
                (None, None) => return Err(format!("open {path}: no such file or directory")),
            };
            parameter["value"] = json!(value.strip_suffix('\n').unwrap_or(&value));
        }
        found.push(parameter);
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
