//! `thane step wait`: waits for the main container, keeps its artifacts and records its outputs.

use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::fs::{Mode, OFlags};
use serde_json::{Map, Value, json};
use thane_executor::step::{MAIN, PARAMETER_MAX, Places};
use thane_runtime::{Clock, SystemClock};
use tokio::io::AsyncReadExt;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};

use super::super::artifacts::archive::{Found, Packing};
use super::super::artifacts::{self, archive};
use super::super::location;
use super::super::outcome::Phase;
use super::super::pod::{list, overlapping, text};
use super::init::TEMPLATE;
use super::report::{self, Report};
use super::{Failure, Layout, Result, Told};

/// How long the main container is waited for once the pod has been told to end.
const GRACE: Duration = Duration::from_secs(25);
/// The exit code of what was killed before it could tell one.
const KILLED: i32 = 128 + 9;
/// How long after a deadline a program may still end by itself.
const KILLED_AFTER: Duration = Duration::from_secs(10);

/// Waits, keeps and records. The first thing that went wrong is returned once everything else is recorded.
pub async fn wait(told: &Told, layout: &Layout) -> Result<()> {
    let path = layout.run.join(TEMPLATE);
    let words = fs::read(&path).map_err(|error| Failure::at(&path, &error))?;
    let template: Value =
        serde_json::from_slice(&words).map_err(|error| Failure(format!("failed to unmarshal template: {error}")))?;
    let places = Places::new(&layout.run);
    let ended = ended(told, &places).await;
    // Only now, since tokens are made anew while a long step runs.
    let client = report::client()?;
    let (outputs, mut failures) = outputs(told, layout, &template, &places).await;
    let code = ended.unwrap_or_else(|failure| {
        failures.push(failure.0);
        None
    });
    let report = judged(outputs, code, &failures);
    report::send(&client, told, &report).await?;
    match failures.into_iter().next() {
        Some(first) => Err(Failure(first)),
        None => Ok(()),
    }
}

/// What is recorded, so that it can speak for the step when its pod is gone.
fn judged(mut outputs: Map<String, Value>, code: Option<i32>, failures: &[String]) -> Report {
    if let Some(code) = code {
        outputs.insert("exitCode".to_owned(), json!(code.to_string()));
    }
    let (phase, message) = match (code, failures.first()) {
        (Some(0), None) => (Some(Phase::Succeeded), String::new()),
        (Some(0), Some(why)) => (Some(Phase::Error), format!("wait: Error (exit code 64): {why}")),
        (Some(code), _) => (Some(Phase::Failed), format!("main: Error (exit code {code})")),
        (None, _) => (None, String::new()),
    };
    Report { outputs: Value::Object(outputs), phase, message }
}

/// The exit code of the main container, or none if it was not to be waited for any longer.
async fn ended(told: &Told, places: &Places) -> Result<Option<i32>> {
    let directory = places.container(MAIN);
    fs::create_dir_all(&directory).map_err(|error| Failure::at(&directory, &error))?;
    let _ = fs::set_permissions(&directory, std::os::unix::fs::PermissionsExt::from_mode(0o777));
    let watcher = watcher(&directory).map_err(|error| Failure::at(&directory, &error))?;
    let mut terminated = signal(SignalKind::terminate()).map_err(|error| Failure(format!("signals: {error}")))?;
    let clock = SystemClock::new();
    let left = told.deadline.map(|at| at.duration_since(clock.now()));
    let left = left.map(|left| left.try_into().unwrap_or(Duration::ZERO));
    let late = async {
        match left {
            Some(left) => tokio::time::sleep(left).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        code = exit_code(&watcher, places) => code.map(Some),
        _ = terminated.recv() => Ok(tokio::time::timeout(GRACE, exit_code(&watcher, places)).await.ok().transpose()?),
        () = late => {
            Failure("Step exceeded its deadline".to_owned()).leave();
            for (number, patience) in [("15", KILLED_AFTER), ("9", KILLED_AFTER)] {
                let path = places.signal(MAIN);
                fs::write(&path, number).map_err(|error| Failure::at(&path, &error))?;
                if let Ok(code) = tokio::time::timeout(patience, exit_code(&watcher, places)).await {
                    return code.map(Some);
                }
            }
            Err(Failure("Step exceeded its deadline".to_owned()))
        }
    }
}

#[expect(
    deprecated,
    reason = "it is unsound for descriptors that are not owned; this one is, and the other way is unsafe"
)]
fn watcher(directory: &Path) -> std::io::Result<AsyncFd<OwnedFd>> {
    let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&fd, directory, WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE)?;
    AsyncFd::new(fd)
}

async fn exit_code(watcher: &AsyncFd<OwnedFd>, places: &Places) -> Result<i32> {
    let path = places.exit_code(MAIN);
    let mut wrapper = None;
    let mut is_gone = false;
    loop {
        if let Ok(text) = fs::read_to_string(&path) {
            return text.trim().parse().map_err(|_| Failure(format!("{} holds no exit code", path.display())));
        }
        if is_gone {
            return Ok(KILLED);
        }
        if wrapper.is_none() {
            (wrapper, is_gone) = open_pipe(&places.alive(MAIN));
        }
        if is_gone {
            continue;
        }
        let readable = tokio::select! {
            readable = watcher.readable() => readable,
            () = gone(&mut wrapper) => {
                is_gone = true;
                continue;
            }
        };
        let mut ready = readable.map_err(|error| Failure(format!("watch for its end: {error}")))?;
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = Reader::new(watcher.get_ref(), &mut buffer);
        while events.next().is_ok() {}
        ready.clear_ready();
    }
}

/// The pipe of the wrapper, if there is one yet; true if nobody holds it any more.
fn open_pipe(path: &Path) -> (Option<pipe::Receiver>, bool) {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(fd) = rustix::fs::open(path, flags, Mode::empty()) else { return (None, false) };
    // One that was given up before we came does not become readable.
    match rustix::io::read(&fd, &mut [0; 1]) {
        Ok(0) => (None, true),
        _ => (pipe::Receiver::from_owned_fd(fd).ok(), false),
    }
}

/// Ends when the wrapper has, which holds the other end of the pipe and writes nothing.
async fn gone(wrapper: &mut Option<pipe::Receiver>) {
    match wrapper {
        Some(wrapper) => drop(wrapper.read(&mut [0; 1]).await),
        None => std::future::pending().await,
    }
}

/// Everything the step left, and what was missing.
async fn outputs(told: &Told, layout: &Layout, template: &Value, places: &Places) -> (Map<String, Value>, Vec<String>) {
    let mut outputs = Map::new();
    let mut failures = Vec::new();
    if told.wants_result {
        match fs::read(places.result(MAIN)) {
            Ok(bytes) => drop(outputs.insert("result".to_owned(), json!(String::from_utf8_lossy(&bytes)))),
            Err(error) => failures.push(format!("{}: {error}", places.result(MAIN).display())),
        }
    }
    let promised = list(&template["outputs"]["parameters"]);
    if !promised.is_empty() {
        match parameters(promised, template, layout, places) {
            Ok(found) => drop(outputs.insert("parameters".to_owned(), json!(found))),
            Err(failure) => failures.push(failure.0),
        }
    }
    let mut kept: Vec<Value> = Vec::new();
    let mut wrong = String::new();
    for artifact in list(&template["outputs"]["artifacts"]) {
        match keep(artifact, template, layout, places).await {
            Ok(found) => kept.extend(found),
            Err(failure) => wrong.extend([failure.0.as_str(), "; "]),
        }
    }
    if !wrong.is_empty() {
        failures.push(wrong);
    }
    if template["archiveLocation"]["archiveLogs"] == true {
        match logs(template, layout, places).await {
            Ok(log) => kept.push(log),
            Err(failure) => failures.push(failure.0),
        }
    }
    if !kept.is_empty() {
        outputs.insert("artifacts".to_owned(), json!(kept));
    }
    (outputs, failures)
}

fn parameters(promised: &[Value], template: &Value, layout: &Layout, places: &Places) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    for parameter in promised {
        let mut parameter = parameter.clone();
        let from = &parameter["valueFrom"];
        if let Some(path) = from["path"].as_str().filter(|path| !path.is_empty()) {
            let at = match overlapping(template, path) {
                Some(_) => layout.main.join(path.trim_start_matches('/')),
                None => places.parameter(path),
            };
            let text = match (value(&at, text(&parameter, "name")), &from["default"]) {
                (Ok(text), _) => text,
                (Err(failure), Value::Null) => return Err(failure),
                (Err(_), Value::String(default)) => default.clone(),
                (Err(_), other) => other.to_string(),
            };
            parameter["value"] = json!(text.strip_suffix('\n').unwrap_or(&text));
        }
        found.push(parameter);
    }
    Ok(found)
}

fn value(path: &Path, name: &str) -> Result<String> {
    let found = fs::metadata(path).map_err(|error| open(path, &error))?;
    if found.len() > PARAMETER_MAX {
        return Err(Failure(format!("output parameter {name} is larger than {PARAMETER_MAX} bytes")));
    }
    let bytes = fs::read(path).map_err(|error| open(path, &error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// As Argo says it.
fn open(path: &Path, error: &std::io::Error) -> Failure {
    if error.kind() == std::io::ErrorKind::NotFound {
        return Failure(format!("open {}: no such file or directory", path.display()));
    }
    Failure(format!("open {}: {error}", path.display()))
}

async fn keep(artifact: &Value, template: &Value, layout: &Layout, places: &Places) -> Result<Option<Value>> {
    let (name, path) = (text(artifact, "name"), text(artifact, "path"));
    let packing = Packing::of(artifact).unwrap_or(Packing::Tar(None));
    let file = packing.file(name, path);
    let is_seen = overlapping(template, path).is_some();
    let found = if is_seen { layout.main.join(path.trim_start_matches('/')) } else { places.artifact(path) };
    if !found.exists() {
        if artifact["optional"] == true {
            return Ok(None);
        }
        return Err(Failure(format!("open {}: no such file or directory", found.display())));
    }
    let directory = layout.temporary.join("argo/outputs/artifacts").join(name.replace('/', "_"));
    let packed = {
        let file = file.clone();
        tokio::task::spawn_blocking(move || {
            let found = if is_seen { Found::Path(&found) } else { Found::Tarred(&found) };
            archive::pack(found, packing, &directory, &file)
        })
    };
    let failed = |error: artifacts::Error| Failure(format!("artifact {name}: {error}"));
    let packed: PathBuf =
        packed.await.map_err(|error| Failure(format!("artifact {name}: {error}")))?.map_err(failed)?;
    let whole = location::relocated(artifact, &template["archiveLocation"], Some(&file)).map_err(Failure)?;
    layout.stores.save(&packed, &whole).await.map_err(failed)?;
    Ok(Some(shown(artifact, &whole)))
}

/// What is recorded: of a location that is the archive's only the key, as Argo does.
pub(crate) fn shown(artifact: &Value, whole: &Value) -> Value {
    if location::is_located(artifact) {
        return artifact.clone();
    }
    let mut shown = artifact.clone();
    if let (Some(kind), Some(key)) = (location::kind(whole), location::key(whole)) {
        shown[kind] = json!({"key": key});
        if kind == "plugin" {
            shown[kind]["name"] = whole[kind]["name"].clone();
        }
    }
    shown
}

async fn logs(template: &Value, layout: &Layout, places: &Places) -> Result<Value> {
    let artifact = json!({"name": "main-logs"});
    let whole = location::relocated(&artifact, &template["archiveLocation"], Some("main.log")).map_err(Failure)?;
    let saved = layout.stores.save(&places.logs(MAIN), &whole).await;
    saved.map_err(|error| Failure(format!("artifact main-logs: {error}")))?;
    Ok(shown(&artifact, &whole))
}

#[cfg(test)]
mod tests;
