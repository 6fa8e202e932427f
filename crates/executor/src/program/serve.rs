//! The loop of the first process: requests in, output out, ends noticed.

mod answer;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, openat, renameat};
use rustix::process::{Pid, Signal, kill_process_group};
use thane_executor::exit::{self, Exit, NOT_STARTED};
use thane_executor::message::{Failure as Sort, MAIN, Reply, Size, Spawn};
use thane_executor::plan::{LogLimits, Main, User};

use super::connection::{Connection, WINDOW};
use super::logfile::LogFile;
use super::process::Process;
use super::table::Table;
use super::{Doing, Result, now_ns};

/// Connections at once; further ones are closed.
const CONNECTIONS_MAX: usize = 64;
/// What the container's own process gets when we are told to end: less than a kubelet gives by default.
const TERMINATION_GRACE: u64 = 25_000;

/// Everything the first process knows.
pub(super) struct Server {
    settings: Settings,
    table: Table,
    listener: UnixListener,
    directory: Arc<OwnedFd>,
    connections: BTreeMap<u64, Connection>,
    next: u64,
    /// Asked to end: when patience ends.
    stopping: Option<Instant>,
    killed: bool,
    /// Who waits until nothing runs.
    settling: Vec<Settling>,
}

/// What it is told once.
pub(super) struct Settings {
    /// The container's own command.
    pub(super) main: Option<Main>,
    /// How much of its output is kept.
    pub(super) log: LogLimits,
    /// Its output goes where ours does, and not to the log.
    pub(super) passed_on: bool,
    /// Whose files that are written for others are; ours if none is said.
    pub(super) owner: Option<User>,
}

/// A request that is answered when nothing runs.
struct Settling {
    connection: u64,
    id: u64,
    until: Instant,
}

/// What can be waited for.
#[derive(Clone, Copy)]
enum Source {
    Listener,
    Reaper,
    Connection(u64),
    Output(u64, usize),
    Input(u64),
}

impl Server {
    pub(super) fn new(settings: Settings, table: Table, listener: UnixListener, directory: OwnedFd) -> Result<Self> {
        let connections = BTreeMap::new();
        // What is written later is written by the mapped root: better known now than at the end.
        openat(&directory, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .doing(|| "read the run directory".to_owned())?;
        let (directory, settling) = (Arc::new(directory), Vec::new());
        Ok(Self { settings, table, listener, directory, connections, next: 0, stopping: None, killed: false, settling })
    }

    /// Serves until the container's own process has ended, or until it is told to end.
    pub(super) fn run(mut self) -> ExitCode {
        let exit = match self.start_main() {
            Ok(()) => self.serve(),
            Err((sort, message)) => {
                let code = if matches!(sort, Sort::NotFound | Sort::Denied) { NOT_STARTED } else { 1 };
                Exit { code, finished_ns: now_ns(), failure: Some(message), ..Exit::default() }
            }
        };
        self.record(&exit);
        self.last_words();
        ExitCode::from(u8::try_from(exit.code).unwrap_or(1))
    }

    fn start_main(&mut self) -> Result<(), (Sort, String)> {
        let Some(main) = self.settings.main.clone() else { return Ok(()) };
        let spawn = Spawn {
            command: main.command,
            tag: "main".to_owned(),
            terminal: main.terminal.then_some(Size { rows: 24, cols: 80 }),
            stdin: main.stdin,
            ..Spawn::default()
        };
        if self.settings.passed_on {
            return self.table.start_main(spawn, None);
        }
        let log = LogFile::open(Arc::clone(&self.directory), self.settings.log);
        let log = log.map_err(|failure| (Sort::Other, failure.to_string()))?;
        self.table.start_main(spawn, Some(log))
    }

    fn serve(&mut self) -> Exit {
        loop {
            for (source, ready) in self.wait() {
                self.handle(source, ready);
            }
            let now = Instant::now();
            let settled = self.table.advance(now);
            if settled.contains(&MAIN)
                && let Some(exit) = self.table.processes.get(&MAIN).and_then(Process::exit)
            {
                // On disk before anybody is told.
                return exit.clone();
            }
            self.settle(now);
            self.pump();
            let main_runs = self.table.processes.get(&MAIN).is_some_and(Process::is_running);
            if self.stopping.is_some_and(|until| until <= now) && !self.killed {
                self.end_everything();
                if !self.table.processes.contains_key(&MAIN) {
                    return Exit { finished_ns: now_ns(), ..Exit::default() };
                }
            }
            if !main_runs && self.table.processes.contains_key(&MAIN) && !self.killed {
                // The container's own process has ended, and with it everything else.
                self.end_everything();
            }
        }
    }

    fn end_everything(&mut self) {
        self.killed = true;
        if rustix::process::getpid().is_init() {
            // A group of 1 means everyone but us.
            let _ = kill_process_group(Pid::INIT, Signal::KILL);
            return;
        }
        for id in self.table.processes.keys().copied().collect::<Vec<_>>() {
            self.table.kill(id);
        }
    }

    /// Answers who waits until nothing runs.
    fn settle(&mut self, now: Instant) {
        if self.settling.is_empty() {
            return;
        }
        let quiet = self.table.is_quiet();
        let (over, waiting) = std::mem::take(&mut self.settling).into_iter().partition(|one| quiet || one.until <= now);
        self.settling = waiting;
        let over: Vec<Settling> = over;
        for one in over {
            let Some(connection) = self.connections.get_mut(&one.connection) else { continue };
            let late = || Reply::Failed { failure: Sort::Exhausted, message: "processes are still there".to_owned() };
            connection.reply(one.id, if quiet { Reply::Done } else { late() });
        }
    }

    /// Waits for something to happen, and says what.
    fn wait(&self) -> Vec<(Source, PollFlags)> {
        let sources = self.sources();
        let mut fds: Vec<PollFd<'_>> =
            sources.iter().map(|(_, fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
        let wake = self.table.processes.values().filter_map(Process::wake_at);
        let settling = self.settling.iter().map(|one| one.until);
        let wake = wake.chain(settling).chain(self.stopping.filter(|_| !self.killed)).min();
        let patience = wake.map(|at| at.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
        let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
        match poll(&mut fds, patience.as_ref()) {
            Ok(_) => {}
            Err(_) => return Vec::new(),
        }
        let ready = sources.iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        ready.map(|((source, _, _), fd)| (*source, fd.revents())).collect()
    }

    fn sources(&self) -> Vec<(Source, BorrowedFd<'_>, PollFlags)> {
        let mut sources = vec![
            (Source::Listener, self.listener.as_fd(), PollFlags::IN),
            (Source::Reaper, self.table.reaper.told.as_fd(), PollFlags::IN),
        ];
        for (id, connection) in &self.connections {
            let mut flags = PollFlags::empty();
            // Who does not read answers is not asked for more.
            flags.set(PollFlags::IN, connection.out.len() < WINDOW && self.input_has_room(connection));
            flags.set(PollFlags::OUT, !connection.out.is_empty());
            sources.push((Source::Connection(*id), connection.socket.as_fd(), flags));
        }
        for (id, process) in &self.table.processes {
            for (index, output) in process.outputs.iter().enumerate() {
                if let Some(fd) = output.fd.as_ref().filter(|_| self.has_room(*id, index, output.ring.end())) {
                    sources.push((Source::Output(*id, index), fd.as_fd(), PollFlags::IN));
                }
            }
            if let Some(fd) = process.stdin.as_ref().filter(|_| !process.input.is_empty()) {
                sources.push((Source::Input(*id), fd.as_fd(), PollFlags::OUT));
            }
        }
        sources
    }

    /// Whether everyone who follows a stream has kept up with it.
    fn has_room(&self, process: u64, stream: usize, end: u64) -> bool {
        let mut known =
            self.connections.values().filter_map(|one| one.follows.get(&process)).map(|known| known[stream]);
        known.all(|known| end.saturating_sub(known) < WINDOW as u64)
    }

    /// Whether the processes it follows have taken most of their input.
    fn input_has_room(&self, connection: &Connection) -> bool {
        let waiting = |id: &u64| self.table.processes.get(id).map_or(0, |process| process.input.len());
        connection.follows.keys().map(waiting).all(|bytes| bytes < super::process::INPUT_MAX / 2)
    }

    fn handle(&mut self, source: Source, ready: PollFlags) {
        match source {
            Source::Listener => self.accept(),
            Source::Reaper => {
                for how in self.table.reaper.read() {
                    // No process has the number 0: we ourselves were told to end.
                    if how.pid == 0 {
                        answer::stop(self, TERMINATION_GRACE, None);
                    } else {
                        self.table.reaped(how);
                    }
                }
            }
            Source::Connection(id) => {
                if ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                    self.hear(id);
                }
            }
            Source::Output(id, stream) => {
                if let Some(process) = self.table.processes.get_mut(&id) {
                    process.read(stream);
                }
            }
            Source::Input(id) => {
                if let Some(process) = self.table.processes.get_mut(&id) {
                    process.write();
                }
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((socket, _)) = self.listener.accept() {
            if self.connections.len() < CONNECTIONS_MAX && socket.set_nonblocking(true).is_ok() {
                self.next += 1;
                self.connections.insert(self.next, Connection::new(socket));
            }
        }
    }

    fn hear(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        for frame in connection.read() {
            answer::answer(self, id, frame);
        }
    }

    /// Moves output to those who follow, sends, and forgets who has gone.
    fn pump(&mut self) {
        for connection in self.connections.values_mut() {
            // Until the socket is full or nothing is left: only a full socket wakes us again.
            loop {
                let followed: Vec<u64> = connection.follows.keys().copied().collect();
                let mut more = false;
                for id in followed {
                    match self.table.processes.get(&id) {
                        Some(process) => more |= connection.pump(process),
                        None => drop(connection.follows.remove(&id)),
                    }
                }
                connection.flush();
                if !more || connection.broken || !connection.out.is_empty() {
                    break;
                }
            }
        }
        self.connections.retain(|_, connection| !connection.broken);
    }

    /// Leaves on disk how it ended.
    fn record(&self, exit: &Exit) {
        let temporary = format!("{}.new", exit::FILE);
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let Ok(file) = openat(&self.directory, &temporary, flags, Mode::from_raw_mode(0o640)) else { return };
        let mut file = std::fs::File::from(file);
        if serde_json::to_writer(&mut file, exit).is_ok() && file.sync_all().is_ok() {
            let _ = renameat(&self.directory, &temporary, &self.directory, exit::FILE);
        }
    }

    /// What was to be said is said, as far as somebody listens.
    fn last_words(&mut self) {
        let until = Instant::now() + Duration::from_secs(1);
        loop {
            self.pump();
            let waiting = self.connections.values().any(|one| !one.out.is_empty() || one.follows.contains_key(&MAIN));
            if !waiting || Instant::now() >= until {
                return;
            }
            let patience = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
            let mut fds: Vec<PollFd<'_>> =
                self.connections.values().map(|one| PollFd::new(&one.socket, PollFlags::OUT)).collect();
            let _ = poll(&mut fds, Some(&patience));
        }
    }
}
