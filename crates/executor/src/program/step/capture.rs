//! What a program writes, passed on and kept.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Child;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use thane_executor::step::{Places, RESULT_MAX, StepPlan};

use super::super::{Doing, Result};

const PIECE: usize = 64 * 1024;

/// The end of what was written; one byte more than is kept, since a newline at the very end does not count.
#[derive(Default)]
struct Tail(VecDeque<u8>);

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(RESULT_MAX + 1)..];
        let over = (self.0.len() + bytes.len()).saturating_sub(RESULT_MAX + 1);
        self.0.drain(..over);
        self.0.extend(bytes);
    }
}

/// Output that is being kept.
pub(super) struct Captured {
    tail: Arc<Mutex<Tail>>,
    ended: Receiver<()>,
    streams: usize,
    result: Option<PathBuf>,
}

/// Starts to pass on and keep both streams of a program.
pub(super) fn start(child: &mut Child, plan: &StepPlan, places: &Places, name: &str) -> Result<Captured> {
    let logs = if plan.logs {
        let file = File::create(places.logs(name)).doing(|| "failed to open combined".to_owned())?;
        Some(Arc::new(Mutex::new(file)))
    } else {
        None
    };
    let tail = Arc::new(Mutex::new(Tail::default()));
    let (end, ended) = sync_channel(2);
    let mut streams = 0;
    if let Some(stdout) = child.stdout.take() {
        let (kept, logs, end) = (Arc::clone(&tail), logs.clone(), end.clone());
        streams += 1;
        thread("stdout", move || {
            copy(stdout, std::io::stdout(), Some(&kept), logs.as_deref());
            let _ = end.send(());
        })?;
    }
    if let Some(stderr) = child.stderr.take() {
        streams += 1;
        thread("stderr", move || {
            copy(stderr, std::io::stderr(), None, logs.as_deref());
            let _ = end.send(());
        })?;
    }
    Ok(Captured { tail, ended, streams, result: plan.result.then(|| places.result(name)) })
}

fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = std::thread::Builder::new().name(name.to_owned()).stack_size(128 * 1024).spawn(run);
    started.map(drop).doing(|| format!("a thread for {name}"))
}

fn copy(mut from: impl Read, mut to: impl Write, tail: Option<&Mutex<Tail>>, logs: Option<&Mutex<File>>) {
    let mut buffer = vec![0; PIECE];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => {
                // Where nobody reads our own output any more, what is kept still counts.
                let _ = to.write_all(&buffer[..count]).and_then(|()| to.flush());
                if let Some(tail) = tail {
                    tail.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..count]);
                }
                if let Some(logs) = logs {
                    let _ = logs.lock().unwrap_or_else(PoisonError::into_inner).write_all(&buffer[..count]);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

impl Captured {
    /// Keeps what there is once both streams have ended, or when what the program left running has had its time.
    pub(super) fn finish(self, patience: Duration) -> Result<()> {
        let until = Instant::now() + patience;
        for _ in 0..self.streams {
            if self.ended.recv_timeout(until.saturating_duration_since(Instant::now())).is_err() {
                break;
            }
        }
        let Some(path) = self.result else { return Ok(()) };
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.0.back() == Some(&b'\n') {
            tail.0.pop_back();
        }
        let over = tail.0.len().saturating_sub(RESULT_MAX);
        tail.0.drain(..over);
        fs::write(&path, tail.0.make_contiguous()).doing(|| "failed to write stdout".to_owned())
    }
}
