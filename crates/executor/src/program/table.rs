//! All processes that were started here, by number.

use std::collections::BTreeMap;
use std::time::Instant;

use rustix::process::Signal;
use thane_executor::message::{Failure as Sort, MAIN, Spawn};

use super::cgroup::Groups;
use super::logfile::LogFile;
use super::mark;
use super::process::Process;
use super::reap::{Reaped, Reaper};
use super::spawn::{Launcher, Refused};

/// Processes started here that run at once.
const RUNNING_MAX: usize = 256;
/// Ended ones whose output can still be read.
const ENDED_MAX: usize = 32;
/// What their output may occupy together.
const ENDED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The processes.
pub(super) struct Table {
    pub(super) processes: BTreeMap<u64, Process>,
    next: u64,
    pub(super) launcher: Launcher,
    groups: Groups,
    pub(super) reaper: Reaper,
    /// A process was started that may leave others behind, and something has run ever since.
    lingering: bool,
}

impl Table {
    pub(super) fn new(launcher: Launcher, groups: Groups, reaper: Reaper) -> Self {
        Self { processes: BTreeMap::new(), next: MAIN + 1, launcher, groups, reaper, lingering: false }
    }

    /// Starts the container's own process.
    pub(super) fn start_main(&mut self, spawn: Spawn, log: Option<LogFile>) -> Result<(), Refused> {
        self.start(MAIN, spawn, log)
    }

    /// Whether nothing runs but the container's own process, if that does.
    pub(super) fn is_quiet(&mut self) -> bool {
        if self.processes.get(&MAIN).is_some_and(Process::is_running) {
            return !self.processes.values().any(|one| one.id != MAIN && one.is_running());
        }
        let quiet = Reaper::is_alone();
        self.lingering &= !quiet;
        quiet
    }

    /// Whether something runs that nobody has ended.
    pub(super) fn is_busy(&mut self) -> bool {
        let running = self.processes.values().any(Process::is_running);
        running || (self.lingering && !self.is_quiet())
    }

    /// Ends everything but the container's own process.
    pub(super) fn reset(&mut self) {
        let first = rustix::process::getpid().is_init();
        if first && !self.processes.get(&MAIN).is_some_and(Process::is_running) {
            // A group of 1 means everyone but us.
            let _ = rustix::process::kill_process_group(rustix::process::Pid::INIT, Signal::KILL);
            return;
        }
        let others: Vec<(u64, i32)> =
            self.processes.values().filter(|one| one.id != MAIN).map(|one| (one.id, one.pid)).collect();
        for (id, pid) in others {
            self.kill(id);
            self.kill_left(id, pid);
        }
        // Those that were forgotten may have left some, too.
        mark::kill_all_but(MAIN);
    }

    /// Starts another process and says its number.
    pub(super) fn spawn(&mut self, spawn: Spawn) -> Result<u64, Refused> {
        if self.processes.values().filter(|process| process.is_running()).count() >= RUNNING_MAX {
            return Err((Sort::Exhausted, format!("{RUNNING_MAX} processes run already")));
        }
        self.collect();
        let id = self.next;
        self.start(id, spawn, None)?;
        self.next += 1;
        Ok(id)
    }

    fn start(&mut self, id: u64, spawn: Spawn, log: Option<LogFile>) -> Result<(), Refused> {
        let oom_before = self.groups.oom_kills();
        let launched = {
            let _held = self.reaper.starting();
            let group = self.groups.track(id);
            self.launcher.launch(&spawn, group, mark::of(id), id == MAIN && log.is_none())
        };
        let launched = launched.inspect_err(|_| self.groups.untrack(id))?;
        self.reaper.wake();
        self.lingering |= spawn.background;
        self.processes.insert(id, Process::new(id, spawn, launched, oom_before, log));
        Ok(())
    }

    /// Takes notice of a process that has ended, ours or inherited.
    pub(super) fn reaped(&mut self, how: Reaped) {
        let running = |process: &&mut Process| process.pid == how.pid && process.is_running();
        let Some(process) = self.processes.values_mut().find(running) else { return };
        process.reaped(how, self.groups.oom_kills());
        if !process.spawn.background {
            let id = process.id;
            self.kill_left(id, how.pid);
        }
    }

    /// Ends what a process left behind, also what has left its group.
    fn kill_left(&self, id: u64, pid: i32) {
        if let Some(group) = rustix::process::Pid::from_raw(pid) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        if !self.groups.kill(id) {
            mark::kill(id);
        }
    }

    /// Ends a process and all it started.
    pub(super) fn kill(&mut self, id: u64) {
        if let Some(process) = self.processes.get(&id) {
            let _ = process.signal(Signal::KILL, true);
            self.groups.kill(id);
        }
    }

    /// Ends those whose time is up, and settles those that have ended; says which settled.
    pub(super) fn advance(&mut self, now: Instant) -> Vec<u64> {
        let late: Vec<u64> =
            self.processes.values().filter(|one| one.deadline.is_some_and(|at| at <= now)).map(|one| one.id).collect();
        for id in late {
            if let Some(process) = self.processes.get_mut(&id) {
                process.time_out();
            }
            self.kill(id);
        }
        let settled: Vec<u64> =
            self.processes.values_mut().filter_map(|one| one.settles(now).then_some(one.id)).collect();
        for id in &settled {
            self.groups.untrack(*id);
        }
        settled
    }

    /// Forgets an ended process.
    pub(super) fn forget(&mut self, id: u64) -> bool {
        let ended = self.processes.get(&id).is_some_and(|process| process.exit().is_some());
        if ended {
            self.processes.remove(&id);
            self.groups.untrack(id);
        }
        ended
    }

    /// Forgets the oldest ended processes beyond the bounds.
    fn collect(&mut self) {
        let ended: Vec<u64> = self.processes.values().filter(|one| one.exit().is_some()).map(|one| one.id).collect();
        let mut bytes: usize = self.processes.values().map(held).sum();
        let mut count = ended.len();
        for id in ended.into_iter().filter(|id| *id != MAIN) {
            if count <= ENDED_MAX && bytes <= ENDED_BYTES_MAX {
                return;
            }
            bytes -= self.processes.get(&id).map_or(0, held);
            count -= 1;
            self.forget(id);
        }
    }
}

fn held(process: &Process) -> usize {
    process.outputs.iter().map(|output| output.ring.held()).sum()
}
