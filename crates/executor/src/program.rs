//! `hold` makes a pod's namespaces, `create` a container, `switch` another root for it; `holder` and `init` are what the
//! first two start; `probe` tries what a root takes. `serve` is the first process of a container that others have made, `step` one around a workflow's program.

mod alone;
mod cgroup;
mod confine;
mod connection;
mod create;
mod files;
mod hold;
mod init;
mod inside;
mod logfile;
mod mark;
mod probe;
mod process;
mod reap;
mod ring;
mod root;
mod seccomp;
mod serve;
mod spawn;
mod step;
mod switch;
mod sys;
mod table;

use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use thane_executor::plan::{Outcome, Started};

/// Something that could not be done, in words.
type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why, from the outside in.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Adds what was being done to an error.
trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: std::fmt::Display> Doing<T> for std::result::Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Failure(format!("{}: {error}", what())))
    }
}

/// Runs what is asked for.
pub(crate) fn run(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    match arguments.next().as_deref() {
        Some("hold") => reported(hold::hold(), true),
        Some("holder") => ended(&hold::holder()),
        Some("create") => reported(create::create(), true),
        Some("init") => init::init(),
        Some("switch") => reported(switch::switch(), false),
        Some("probe") => reported(probe::probe(), false),
        Some("serve") => alone::serve(arguments),
        Some("step") => step::step(arguments),
        _ => {
            let usage = "thane-executor hold|create|switch|probe, with a plan on standard input";
            let _ = writeln!(std::io::stderr(), "usage: {usage}, or {}, or {}", alone::USAGE, step::USAGE);
            ExitCode::from(2)
        }
    }
}

/// Tells who started us how it went, with what process, which is new unless it was there before.
fn reported(result: Result<Started>, is_new: bool) -> ExitCode {
    let (outcome, code) = match result {
        Ok(started) => (Outcome::Started(started), ExitCode::SUCCESS),
        Err(failure) => (Outcome::Failed(failure.0), ExitCode::FAILURE),
    };
    let told = serde_json::to_writer(std::io::stdout(), &outcome);
    if told.is_ok() {
        return code;
    }
    if let Outcome::Started(started) = outcome
        && is_new
    {
        // Whoever wanted it is gone, and nobody else will ever know of it.
        let pid = rustix::process::Pid::from_raw(started.pid);
        let _ = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
    }
    ExitCode::FAILURE
}

fn ended(result: &Result<()>) -> ExitCode {
    if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The plan on standard input.
fn plan<T: DeserializeOwned>() -> Result<T> {
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text).doing(|| "read the plan".to_owned())?;
    serde_json::from_slice(&text).doing(|| "understand the plan".to_owned())
}

/// The process, with the time it started at.
fn started(pid: i32) -> Result<Started> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).doing(|| path.clone())?;
    // The name in parentheses may hold anything; the start is the twentieth field after it.
    let ticks = text.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19)?.parse().ok());
    let ticks = ticks.ok_or_else(|| Failure(format!("{path} has no start time")))?;
    Ok(Started { pid, ticks })
}

/// Bytes that a letter takes in JSON.
fn written(letter: char) -> usize {
    match letter {
        '"' | '\\' => 2,
        '\0'..='\u{1f}' => 6,
        _ => letter.len_utf8(),
    }
}

/// Nanoseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the executor is a program of its own and cannot be simulated")]
fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
