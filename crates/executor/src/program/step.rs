//! The wrapper around a step's program: runs it, keeps what it wrote, passes signals on, and leaves its outputs where
//! the container beside it finds them.

mod capture;
mod outputs;
mod search;
mod watch;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::process::{WaitOptions, getpid};
use thane_executor::step::{CONTAINER, FAILED, MAIN, Places, StepPlan};

use super::{Doing, Failure, Result, sys};

/// How it is started.
pub(super) const USAGE: &str = "thane-executor step [--directory DIR] -- COMMAND...";
/// Where the containers of a step share their files.
const SHARED: &str = "/var/run/argo";
/// Where a container leaves its last words.
const LAST_WORD: &str = "/dev/termination-log";
/// The variable with a file of further arguments.
const ARGUMENTS: &str = "ARGO_CONTAINER_ARGS_FILE";
/// The longest single argument the kernel takes.
const ARGUMENT_MAX: usize = 128 * 1024;
/// How long the output of what a program left running is waited for.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// What it is told.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    directory: String,
    command: Vec<String>,
}

/// Runs the program and ends as it did.
pub(super) fn step(arguments: impl Iterator<Item = String>) -> ExitCode {
    let options = match options(arguments) {
        Ok(options) => options,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "thane-executor: {failure}");
            return ExitCode::from(2);
        }
    };
    let places = Places::new(&options.directory);
    let name = std::env::var(CONTAINER).ok().filter(|name| !name.is_empty()).unwrap_or_else(|| MAIN.to_owned());
    // Held until the end, however that comes.
    let _alive = alive(&places, &name);
    let code = wrapped(&options, &places, &name).unwrap_or_else(|failure| {
        let _ = writeln!(std::io::stderr(), "{failure}");
        let _ = fs::write(LAST_WORD, failure.to_string());
        FAILED
    });
    // Whoever waits for it would wait for ever otherwise.
    if let Err(failure) = tell(&places, &name, code) {
        let _ = writeln!(std::io::stderr(), "thane-executor: {failure}");
    }
    ExitCode::from(code)
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options> {
    let mut options = Options { directory: SHARED.to_owned(), command: Vec::new() };
    while let Some(word) = arguments.next() {
        match word.as_str() {
            "--directory" => {
                let value = arguments.next().ok_or_else(|| Failure(format!("{word} needs a value; {USAGE}")))?;
                options.directory = value;
            }
            "--" => {
                options.command = arguments.collect();
                break;
            }
            other => return Err(Failure(format!("{other:?} is unknown; {USAGE}"))),
        }
    }
    Ok(options)
}

fn wrapped(options: &Options, places: &Places, name: &str) -> Result<u8> {
    let own = places.container(name);
    open_to_all(&own).doing(|| "failed to create ctr directory".to_owned())?;
    let plan = fs::read(places.plan()).doing(|| "failed to read template".to_owned())?;
    let plan: StepPlan = serde_json::from_slice(&plan).doing(|| "failed to unmarshal template".to_owned())?;
    let mut words = options.command.clone();
    if let Ok(path) = std::env::var(ARGUMENTS) {
        words.extend(further(&path)?);
    }
    let (program, arguments) = words.split_first().ok_or_else(|| Failure(USAGE.to_owned()))?;
    let found = search::program(program).doing(|| "failed to find name in PATH".to_owned())?;
    let mut command = Command::new(&found);
    command.args(arguments).stdin(Stdio::inherit());
    let keeps = name == MAIN && (plan.result || plan.logs);
    if keeps {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    sys::pass_on_signals().doing(|| "pass signals on".to_owned())?;
    let mut child = sys::spawn(&mut command, Vec::new(), || Ok(rustix::process::setpgid(None, None)?))
        .doing(|| format!("failed to start command: fork/exec {}", found.display()))?;
    let pid = i32::try_from(child.id()).doing(|| "its process id".to_owned())?;
    sys::signals_go_to(pid);
    let captured = keeps.then(|| capture::start(&mut child, &plan, places, name)).transpose()?;
    let ends_with_main = plan.sidecars.iter().any(|sidecar| sidecar == name);
    watch::start(places, name, pid, ends_with_main)?;
    let code = waited(pid)?;
    sys::signals_go_to(0);
    if let Some(captured) = captured {
        captured.finish(LAST_OUTPUT)?;
    }
    if name == MAIN {
        outputs::save(&plan, places)?;
    }
    Ok(code)
}

/// Waits for the program, and for whatever it leaves to the first process meanwhile.
fn waited(pid: i32) -> Result<u8> {
    loop {
        // What is left to us is only ours to reap where we are first. "None" would be our own group, where the program is not.
        let ended = if getpid().as_raw_nonzero().get() == 1 {
            rustix::process::wait(WaitOptions::empty())
        } else {
            rustix::process::waitpid(rustix::process::Pid::from_raw(pid), WaitOptions::empty())
        };
        let ended = match ended {
            Err(rustix::io::Errno::INTR) => continue,
            other => other.doing(|| "wait for the command".to_owned())?,
        };
        let Some((who, status)) = ended else { continue };
        if who.as_raw_nonzero().get() == pid {
            let code = status.exit_status().or(status.terminating_signal().map(|signal| 128 + signal));
            return Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED));
        }
    }
}

/// Arguments that were too large to be in the pod; those too large for a command line become files.
fn further(path: &str) -> Result<Vec<String>> {
    let text = fs::read(path).doing(|| format!("failed to read container args file {path}"))?;
    let words: Vec<String> = serde_json::from_slice(&text).doing(|| "failed to unmarshal container args".to_owned())?;
    let shorten = |(index, word): (usize, String)| {
        if word.len() <= ARGUMENT_MAX {
            return Ok(word);
        }
        let path = format!("/tmp/argo_arg_{index}.txt");
        fs::write(&path, word).doing(|| format!("failed to write large arg {index} to file"))?;
        Ok(format!("@{path}"))
    };
    words.into_iter().enumerate().map(shorten).collect()
}

/// A directory that every user of the pod's containers may write to.
fn open_to_all(path: &Path) -> std::io::Result<()> {
    fs::create_dir_all(path)?;
    for path in [Some(path), path.parent()].into_iter().flatten() {
        // Another container may have made it, as another user; then it is open already.
        let _ = fs::set_permissions(path, PermissionsExt::from_mode(0o777));
    }
    Ok(())
}

/// A pipe with our end open; without one, only an end that we can tell of is noticed.
fn alive(places: &Places, name: &str) -> std::io::Result<fs::File> {
    let path = places.alive(name);
    open_to_all(&places.container(name))?;
    let new = path.with_extension("new");
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(rustix::fs::CWD, &new, rustix::fs::FileType::Fifo, mode, 0)?;
    let _ = fs::set_permissions(&new, PermissionsExt::from_mode(0o666));
    let held = fs::File::options().read(true).write(true).open(&new)?;
    fs::rename(&new, &path)?;
    Ok(held)
}

/// The exit code appears at once and whole.
fn tell(places: &Places, name: &str, code: u8) -> Result<()> {
    let path = places.exit_code(name);
    let new = path.with_extension("new");
    fs::write(&new, code.to_string()).doing(|| "failed to write exit code".to_owned())?;
    let _ = fs::set_permissions(&new, PermissionsExt::from_mode(0o644));
    fs::rename(&new, &path).doing(|| "failed to write exit code".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let read = |words: &[&str]| options(words.iter().map(|word| (*word).to_owned())).map_err(|failure| failure.0);
        let known = read(&["--directory", "/x", "--", "echo", "--directory"]).unwrap();
        assert_eq!(known.directory, "/x");
        assert_eq!(known.command, ["echo", "--directory"]);
        assert_eq!(read(&["--", "a"]).unwrap().directory, SHARED);
        for wrong in [&["--directory"] as &[&str], &["x"]] {
            assert!(read(wrong).unwrap_err().contains(USAGE), "{wrong:?}");
        }
    }
}
