//! Starting processes inside.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use thane_executor::message::{Failure as Sort, Size, Spawn};

use super::confine::Confinement;
use super::{inside, mark, sys};

/// The longest argument list, as the kernel has it for one string; everything together is bounded by the frame.
const ARGUMENTS_MAX: usize = 100_000;

/// What every process gets.
pub(super) struct Launcher {
    /// None where whoever made the container has confined it.
    pub(super) confinement: Option<Arc<Confinement>>,
    /// How soon the kernel ends them for want of memory: before us, so that somebody is left to say so.
    pub(super) score: Option<Score>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) directory: String,
    /// The soft limit of open files, where it is not ours.
    pub(super) open_files: Option<u64>,
    /// What we have open of the machine, which no path a process is started by may go through.
    pub(super) hidden: Vec<RawFd>,
}

/// A started process and our ends of its streams.
pub(super) struct Launched {
    pub(super) pid: i32,
    pub(super) stdin: Option<OwnedFd>,
    pub(super) outputs: [Option<OwnedFd>; 2],
}

/// Why a process did not start.
pub(super) type Refused = (Sort, String);

impl Launcher {
    /// Starts a process; `group` is the file it joins its control group by, `mark` what it is found by without one.
    /// With `passed_on` it writes where we do.
    pub(super) fn launch(
        &self,
        spawn: &Spawn,
        group: Option<OwnedFd>,
        mark: u64,
        passed_on: bool,
    ) -> Result<Launched, Refused> {
        let Some((program, arguments)) = spawn.command.split_first() else {
            return Err((Sort::Invalid, "there is no command".to_owned()));
        };
        check(spawn)?;
        let directory = spawn.directory.as_deref().unwrap_or(&self.directory);
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(&self.env).envs(&spawn.env);
        // Opened here: in the process that is to be, what we have open would be a way out.
        let place = match directory {
            "" => None,
            path => Some(inside::directory(Path::new(path)).map_err(|error| refused(program, directory, &error))?),
        };
        let (stdin, outputs) = match spawn.terminal {
            Some(size) => terminal(&mut command, size),
            None => pipes(&mut command, spawn.stdin, passed_on),
        }
        .map_err(|error| (Sort::Other, format!("open its streams: {error}")))?;
        let (confinement, terminal) = (self.confinement.clone(), spawn.terminal.is_some());
        let raised = self.score.as_ref().map(Score::raise);
        let open_files = self.open_files;
        let started = sys::spawn(&mut command, self.hidden.clone(), move || {
            mark::set(mark);
            open_files.map_or(Ok(()), limit_open_files)?;
            if let Some(place) = &place {
                sys::enter_directory(place.as_fd())?;
            }
            match &confinement {
                Some(confinement) => confinement.enter(group.as_ref(), terminal),
                None => unconfined(terminal),
            }
        });
        drop(raised);
        let child = started.map_err(|error| refused(program, directory, &error))?;
        Ok(Launched { pid: i32::try_from(child.id()).unwrap_or_default(), stdin, outputs })
    }
}

/// Our own score, which children inherit: it is raised while one is started.
pub(super) struct Score {
    file: std::fs::File,
    of_children: i32,
}

/// Lowers our score again when it is dropped.
struct Raised<'a>(&'a Score);

impl Score {
    /// The least by which children go before us.
    const LEAST: i32 = 200;

    /// Opened while we still may; where we may not, the machine's own choice stands.
    pub(super) fn open(wanted: i32) -> Option<Self> {
        let file = std::fs::OpenOptions::new().write(true).open("/proc/self/oom_score_adj").ok()?;
        Some(Self { file, of_children: wanted.max(Self::LEAST) })
    }

    fn raise(&self) -> Raised<'_> {
        self.set(self.of_children);
        Raised(self)
    }

    fn set(&self, score: i32) {
        // Raising is always allowed, and so is going back to where we began.
        let _ = rustix::io::pwrite(&self.file, score.to_string().as_bytes(), 0);
    }
}

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.set(0);
    }
}

/// Sets the soft limit of open files; the hard one stays, and with it how far a program may lift its own.
fn limit_open_files(soft: u64) -> std::io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(limit.maximum.map_or(soft, |hard| soft.min(hard)));
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// What even an unconfined process is: a session of its own that gains nothing.
fn unconfined(terminal: bool) -> std::io::Result<()> {
    rustix::process::setsid()?;
    if terminal {
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
    }
    Ok(rustix::thread::set_no_new_privs(true)?)
}

fn check(spawn: &Spawn) -> Result<(), Refused> {
    let texts = spawn.command.iter().chain(spawn.env.iter().flat_map(|(name, value)| [name, value]));
    let mut count = 0;
    for text in texts.chain(&spawn.directory) {
        count += 1;
        if text.contains('\0') {
            return Err((Sort::Invalid, "arguments and environment cannot contain NUL".to_owned()));
        }
    }
    if count > ARGUMENTS_MAX {
        return Err((Sort::Invalid, format!("more than {ARGUMENTS_MAX} arguments and variables")));
    }
    match spawn.env.keys().find(|name| name.is_empty() || name.contains('=')) {
        Some(name) => Err((Sort::Invalid, format!("{name:?} is no name of a variable"))),
        None => Ok(()),
    }
}

fn refused(program: &str, directory: &str, error: &std::io::Error) -> Refused {
    let sort = match error.kind() {
        std::io::ErrorKind::NotFound => Sort::NotFound,
        std::io::ErrorKind::PermissionDenied => Sort::Denied,
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::OutOfMemory => Sort::Exhausted,
        std::io::ErrorKind::ArgumentListTooLong | std::io::ErrorKind::InvalidInput => Sort::Invalid,
        _ => Sort::Other,
    };
    let place = if directory.is_empty() || directory == "/" { String::new() } else { format!(" in {directory:?}") };
    (sort, format!("start {program:?}{place}: {error}"))
}

type Streams = (Option<OwnedFd>, [Option<OwnedFd>; 2]);

fn pipes(command: &mut Command, input: bool, passed_on: bool) -> rustix::io::Result<Streams> {
    let stdin = if input {
        let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
        command.stdin(Stdio::from(theirs));
        Some(unblocked(ours)?)
    } else {
        command.stdin(Stdio::null());
        None
    };
    if passed_on {
        command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
        return Ok((stdin, [None, None]));
    }
    let (stdout, out) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stderr, errors) = pipe_with(PipeFlags::CLOEXEC)?;
    command.stdout(Stdio::from(out)).stderr(Stdio::from(errors));
    Ok((stdin, [Some(unblocked(stdout)?), Some(unblocked(stderr)?)]))
}

fn terminal(command: &mut Command, size: Size) -> rustix::io::Result<Streams> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let theirs = ioctl_tiocgptpeer(&ours, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    resize(&ours, size)?;
    let copy = |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, 3);
    command.stdin(Stdio::from(copy(&theirs)?)).stdout(Stdio::from(copy(&theirs)?)).stderr(Stdio::from(theirs));
    let ours = unblocked(ours)?;
    Ok((Some(copy(&ours)?), [Some(ours), None]))
}

/// Sets the size of a terminal.
pub(super) fn resize(terminal: impl AsFd, size: Size) -> rustix::io::Result<()> {
    tcsetwinsize(terminal, Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 })
}

fn unblocked(fd: OwnedFd) -> rustix::io::Result<OwnedFd> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    Ok(fd)
}
