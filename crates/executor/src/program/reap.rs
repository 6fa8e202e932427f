//! Ended processes, whoever's children they were: the first process of a namespace inherits them all.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

use rustix::process::{WaitId, WaitIdOptions, WaitOptions, waitid};

use super::{Doing, Result};

/// Ends that are gathered before they are told.
const AT_ONCE: usize = 1024;

/// How a process ended, as the kernel says it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reaped {
    pub(super) pid: i32,
    pub(super) code: i32,
    pub(super) signal: Option<i32>,
}

/// A thread that waits for processes to end and tells by a pipe.
pub(super) struct Reaper {
    /// Where the ends are told.
    pub(super) told: OwnedFd,
    /// Held while a process is started: if that fails, the one who starts it wants its end.
    starting: Arc<Mutex<()>>,
    thread: Thread,
    tell: Arc<OwnedFd>,
}

impl Reaper {
    pub(super) fn start() -> Result<Self> {
        let (told, tell) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).doing(|| "a pipe".to_owned())?;
        rustix::io::ioctl_fionbio(&told, true).doing(|| "a pipe".to_owned())?;
        let starting = Arc::new(Mutex::new(()));
        let lock = Arc::clone(&starting);
        let builder = std::thread::Builder::new().name("reaper".to_owned()).stack_size(64 * 1024);
        let tell = Arc::new(tell);
        let telling = Arc::clone(&tell);
        let handle = builder.spawn(move || run(&telling, &lock)).doing(|| "start the reaper".to_owned())?;
        Ok(Self { told, starting, thread: handle.thread().clone(), tell })
    }

    /// Another end of the pipe: a record of zeros is the signal to end.
    pub(super) fn also_tells(&self) -> Result<OwnedFd> {
        rustix::io::fcntl_dupfd_cloexec(&*self.tell, 3).doing(|| "a pipe".to_owned())
    }

    /// Whether no process is left that we or one of ours has started.
    pub(super) fn is_alone() -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        matches!(waitid(WaitId::All, options), Err(rustix::io::Errno::CHILD))
    }

    /// Keeps the reaper away while a process is started.
    pub(super) fn starting(&self) -> MutexGuard<'_, ()> {
        self.starting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is something to wait for again.
    pub(super) fn wake(&self) {
        self.thread.unpark();
    }

    /// The ends that were told since the last time.
    pub(super) fn read(&self) -> Vec<Reaped> {
        let mut ended = Vec::new();
        let mut record = [0; 12];
        while let Ok(12) = rustix::io::read(&self.told, &mut record) {
            let number = |at: usize| i32::from_ne_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
            ended.push(Reaped { pid: number(0), code: number(4), signal: Some(number(8)).filter(|one| *one != 0) });
        }
        ended
    }
}

fn run(tell: &OwnedFd, starting: &Mutex<()>) {
    loop {
        // Only looks, so that a start that fails can still wait for its own process.
        match waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(_) => {}
            Err(rustix::io::Errno::CHILD) => {
                std::thread::park();
                continue;
            }
            Err(_) => continue,
        }
        // Who reads the pipe starts processes, too: it is not written to while that has to wait.
        for record in ended(starting) {
            let _ = rustix::io::write(tell, &record);
        }
    }
}

/// The ends that are there to be had, so many that the rest can wait.
fn ended(starting: &Mutex<()>) -> Vec<[u8; 12]> {
    let _held = starting.lock().unwrap_or_else(PoisonError::into_inner);
    let mut records = Vec::new();
    while records.len() < AT_ONCE
        && let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG)
    {
        let signal = status.terminating_signal();
        let code = status.exit_status().or(signal.map(|signal| 128 + signal)).unwrap_or_default();
        let mut record = [0; 12];
        for (at, number) in [pid.as_raw_nonzero().get(), code, signal.unwrap_or_default()].into_iter().enumerate() {
            record[4 * at..4 * at + 4].copy_from_slice(&number.to_ne_bytes());
        }
        records.push(record);
    }
    records
}
