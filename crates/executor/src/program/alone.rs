//! The first process of a container that others have made: it serves, and leaves everything else as it found it.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::fs::{CWD, Mode, OFlags};
use thane_executor::plan::{Cgroups, LogLimits, Main};

use super::cgroup::Groups;
use super::init::listen;
use super::reap::Reaper;
use super::serve::{Server, Settings};
use super::spawn::Launcher;
use super::table::Table;
use super::{Doing, Failure, Result, sys};

/// How it is started.
pub(super) const USAGE: &str = "thane-executor serve --directory DIR [--workdir DIR] [-- COMMAND...]";

/// Where a container sees how many of its processes were ended for want of memory, in either version.
const OOM: [&str; 2] = ["/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"];

/// What it is told.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    directory: PathBuf,
    work: String,
    command: Vec<String>,
}

/// Serves until it is told to end.
pub(super) fn serve(arguments: impl Iterator<Item = String>) -> ExitCode {
    match options(arguments).and_then(|options| prepare(&options)) {
        Ok(server) => server.run(),
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "thane-executor: {failure}");
            ExitCode::from(2)
        }
    }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options> {
    let mut options = Options::default();
    while let Some(word) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| Failure(format!("{word} needs a value; {USAGE}")));
        match word.as_str() {
            "--directory" => options.directory = value()?.into(),
            "--workdir" => options.work = value()?,
            "--" => {
                options.command = arguments.collect();
                break;
            }
            other => return Err(Failure(format!("{other:?} is unknown; {USAGE}"))),
        }
    }
    if options.directory.as_os_str().is_empty() {
        return Err(Failure(format!("--directory is missing; {USAGE}")));
    }
    Ok(options)
}

fn prepare(options: &Options) -> Result<Server> {
    let directory = open(&options.directory)?;
    // An earlier life of the container may have left its own.
    let _ = rustix::fs::unlinkat(&directory, thane_executor::plan::SOCKET, rustix::fs::AtFlags::empty());
    // Who shares the directory's group may talk to it, whatever user that is.
    let listener = listen(&directory, 0o660)?;
    // What processes leave behind comes to us, also where we are not the first of a namespace.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .doing(|| "look after what processes leave".to_owned())?;
    let reaper = Reaper::start()?;
    sys::tell_on_terminate(reaper.also_tells()?).doing(|| "wait for the signal to end".to_owned())?;
    let work = if options.work.is_empty() { "/".to_owned() } else { options.work.clone() };
    // Where it cannot be made, starting a command says so.
    let _ = std::fs::create_dir_all(&work);
    let env: BTreeMap<String, String> = std::env::vars().collect();
    // Nothing is open here that processes could not open themselves.
    let launcher =
        Launcher { confinement: None, score: None, env, directory: work, open_files: None, hidden: Vec::new() };
    let oom = OOM.map(PathBuf::from).into_iter().filter(|path| path.exists()).collect();
    let table = Table::new(launcher, Groups::open(&Cgroups { oom, ..Cgroups::default() })?, reaper);
    let main = Some(options.command.clone()).filter(|command| !command.is_empty());
    let main = main.map(|command| Main { command, terminal: false, stdin: false });
    let settings = Settings { main, log: LogLimits::default(), passed_on: true, owner: None };
    Server::new(settings, table, listener, directory)
}

fn open(path: &Path) -> Result<OwnedFd> {
    std::fs::create_dir_all(path).doing(|| path.display().to_string())?;
    // It may be anybody's, as a volume is; then it is as open as it is meant to be.
    let _ = std::fs::set_permissions(path, PermissionsExt::from_mode(0o2770));
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::PATH;
    rustix::fs::openat(CWD, path, flags, Mode::empty()).doing(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let read = |words: &[&str]| options(words.iter().map(|word| (*word).to_owned())).map_err(|failure| failure.0);
        let known = read(&["--directory", "/run/x", "--workdir", "/w", "--", "sleep", "--directory"]).unwrap();
        let command = vec!["sleep".to_owned(), "--directory".to_owned()];
        assert_eq!(known, Options { directory: "/run/x".into(), work: "/w".to_owned(), command });
        for wrong in [&[] as &[&str], &["--directory"], &["x"], &["--directory", ""]] {
            assert!(read(wrong).unwrap_err().contains(USAGE), "{wrong:?}");
        }
    }
}
