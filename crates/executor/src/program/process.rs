//! One process: its streams, its bounds, its end.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use thane_executor::exit::{Exit, TIMED_OUT};
use thane_executor::message::{ProcessInfo, Spawn};

use super::logfile::LogFile;
use super::reap::Reaped;
use super::ring::Ring;
use super::spawn::Launched;
use super::{now_ns, written};

/// Input that waits for a process to read it.
pub(super) const INPUT_MAX: usize = 4 * 1024 * 1024;
/// How long output is waited for once the process has ended.
const LAST_OUTPUT: Duration = Duration::from_secs(1);
const PIECE: usize = 64 * 1024;
/// What is read of a stream at the very end.
const DRAINED: usize = 512 * 1024;
/// Bytes of a command that are told, as they are written in JSON.
const COMMAND_MAX: usize = 2048;

/// A process and what is known of it.
pub(super) struct Process {
    pub(super) id: u64,
    pub(super) pid: i32,
    pub(super) spawn: Spawn,
    pub(super) stdin: Option<OwnedFd>,
    pub(super) input: VecDeque<u8>,
    pub(super) input_ends: bool,
    pub(super) outputs: [Output; 2],
    pub(super) deadline: Option<Instant>,
    timed_out: bool,
    oom_before: u64,
    exit: Option<Exit>,
    settled_by: Option<Instant>,
    settled: bool,
    pub(super) log: Option<LogFile>,
}

/// One of its output streams.
#[derive(Default)]
pub(super) struct Output {
    pub(super) fd: Option<OwnedFd>,
    pub(super) ring: Ring,
}

impl Process {
    pub(super) fn new(id: u64, spawn: Spawn, launched: Launched, oom_before: u64, log: Option<LogFile>) -> Self {
        let [stdout, stderr] = launched.outputs.map(|fd| Output { fd, ring: Ring::default() });
        let deadline = spawn.timeout_ms.map(|limit| Instant::now() + Duration::from_millis(limit));
        Self {
            id,
            pid: launched.pid,
            spawn,
            stdin: launched.stdin,
            input: VecDeque::new(),
            input_ends: false,
            outputs: [stdout, stderr],
            deadline,
            timed_out: false,
            oom_before,
            exit: None,
            settled_by: None,
            settled: false,
            log,
        }
    }

    /// Reads what it wrote; at most so much that others get their turn.
    pub(super) fn read(&mut self, stream: usize) {
        let output = &mut self.outputs[stream];
        let Some(fd) = &output.fd else { return };
        let mut buffer = vec![0; PIECE];
        match rustix::io::read(fd, &mut buffer) {
            Ok(count) if count > 0 => {
                output.ring.push(&buffer[..count]);
                if let Some(log) = &mut self.log {
                    log.write(stream, &buffer[..count]);
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            // A terminal whose last user has gone says so with an error.
            Ok(_) | Err(_) => {
                output.fd = None;
                if let Some(log) = &mut self.log {
                    log.finish(stream);
                }
            }
        }
    }

    fn drain(&mut self, stream: usize) {
        for _ in 0..DRAINED / PIECE {
            let before = self.outputs[stream].ring.end();
            self.read(stream);
            if self.outputs[stream].ring.end() == before {
                return;
            }
        }
    }

    /// Writes input it has room for.
    pub(super) fn write(&mut self) {
        while let Some(fd) = &self.stdin {
            let (head, _) = self.input.as_slices();
            if head.is_empty() {
                if self.input_ends {
                    self.close_input();
                }
                return;
            }
            match rustix::io::write(fd, head) {
                Ok(count) => drop(self.input.drain(..count)),
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => {
                    self.input.clear();
                    self.stdin = None;
                }
            }
        }
    }

    /// A terminal ends its input with a character, a pipe by being closed.
    fn close_input(&mut self) {
        if self.spawn.terminal.is_some() {
            if let Some(fd) = &self.stdin {
                let _ = rustix::io::write(fd, &[4]);
            }
            self.input_ends = false;
        } else {
            self.stdin = None;
        }
    }

    /// Sends a signal, if it is still there.
    pub(super) fn signal(&self, signal: Signal, group: bool) -> rustix::io::Result<()> {
        let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.exit.is_none()) else { return Err(Errno::SRCH) };
        if group { kill_process_group(pid, signal) } else { kill_process(pid, signal) }
    }

    /// Its time is up.
    pub(super) fn time_out(&mut self) {
        self.timed_out = true;
        self.deadline = None;
    }

    /// It has ended.
    pub(super) fn reaped(&mut self, how: Reaped, oom_now: u64) {
        let code = if self.timed_out { TIMED_OUT } else { how.code };
        self.exit = Some(Exit {
            code,
            signal: how.signal,
            oom: oom_now > self.oom_before,
            timed_out: self.timed_out,
            finished_ns: now_ns(),
            failure: None,
        });
        self.deadline = None;
        self.stdin = None;
        self.input.clear();
        let patience = if self.spawn.background { Duration::ZERO } else { LAST_OUTPUT };
        self.settled_by = Some(Instant::now() + patience);
    }

    /// Whether it has ended and all its output is known; told once.
    pub(super) fn settles(&mut self, now: Instant) -> bool {
        let Some(by) = self.settled_by.filter(|_| !self.settled) else { return false };
        let ended = self.outputs.iter().all(|output| output.fd.is_none());
        if !ended && self.spawn.background {
            // What it left running keeps its streams; what is there by now is its own.
            for stream in 0..2 {
                self.read(stream);
            }
        }
        if !ended && now < by {
            return false;
        }
        if !self.spawn.background {
            for stream in 0..2 {
                // What it had written by its end is its own, however slowly that is read.
                self.drain(stream);
                if self.outputs[stream].fd.take().is_some()
                    && let Some(log) = &mut self.log
                {
                    log.finish(stream);
                }
            }
        }
        self.settled = true;
        true
    }

    /// Until when something has to be looked at.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.deadline.or(self.settled_by.filter(|_| !self.settled))
    }

    /// How it ended, once all its output is known.
    pub(super) fn exit(&self) -> Option<&Exit> {
        self.exit.as_ref().filter(|_| self.settled)
    }

    /// Whether it still runs.
    pub(super) fn is_running(&self) -> bool {
        self.exit.is_none()
    }

    /// As others see it.
    pub(super) fn info(&self) -> ProcessInfo {
        ProcessInfo {
            process: self.id,
            tag: self.spawn.tag.clone(),
            pid: self.pid,
            command: shown(&self.spawn.command),
            background: self.spawn.background,
            stdout: self.outputs[0].ring.end(),
            stderr: self.outputs[1].ring.end(),
            exit: self.exit().cloned(),
        }
    }
}

/// As much of a command as can be told: all processes together have to fit into a frame.
fn shown(command: &[String]) -> Vec<String> {
    let mut left = COMMAND_MAX;
    let mut words = Vec::new();
    for word in command {
        let mut kept = String::new();
        for letter in word.chars() {
            let length = written(letter);
            if length > left {
                left = 0;
                break;
            }
            left -= length;
            kept.push(letter);
        }
        words.push(kept);
        // Quotes and a comma: an empty word has a length, too.
        left = left.saturating_sub(3);
        if left == 0 {
            break;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_of_a_command_is_told_as_has_room() {
        let command = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(shown(&command(&["a", "", "b"])), ["a", "", "b"]);
        assert_eq!(shown(&command(&[&"x".repeat(5000), "y"])), ["x".repeat(COMMAND_MAX)]);
        for word in ["", "\u{1}", "\"", "\u{e4}\n"] {
            let told = shown(&vec![word.repeat(3); 500_000]);
            assert!(serde_json::to_vec(&told).unwrap().len() <= COMMAND_MAX + 10, "{word:?}");
        }
    }
}
