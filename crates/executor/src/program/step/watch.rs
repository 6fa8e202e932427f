//! Signals that others ask for by a file, and the end of a sidecar when `main` has ended.

use std::fs;
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::process::{Pid, Signal, kill_process_group};
use thane_executor::step::{MAIN, Places};

use super::super::{Doing, Result};
use super::open_to_all;

/// How long a sidecar may take to end, unless the pod says otherwise.
const GRACE: Duration = Duration::from_secs(30);

/// Watches until the wrapper ends.
pub(super) fn start(places: &Places, name: &str, pid: i32, ends_with_main: bool) -> Result<()> {
    let Some(pid) = Pid::from_raw(pid) else { return Ok(()) };
    let (signal, main) = (places.signal(name), places.exit_code(MAIN));
    let watcher = inotify::init(CreateFlags::CLOEXEC).doing(|| "watch for signals".to_owned())?;
    let flags = WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO;
    let mut directories = vec![places.container(name)];
    if ends_with_main {
        let of_main = places.container(MAIN);
        open_to_all(&of_main).doing(|| "failed to create ctr directory".to_owned())?;
        directories.push(of_main);
    }
    for directory in &directories {
        inotify::add_watch(&watcher, directory.as_path(), flags).doing(|| "watch for signals".to_owned())?;
    }
    let run = move || {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = Reader::new(&watcher, &mut buffer);
        loop {
            if let Some(wanted) = wanted(&signal) {
                let _ = kill_process_group(pid, wanted);
            }
            if ends_with_main && main.exists() {
                end(pid);
                return;
            }
            match events.next() {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    };
    let started = std::thread::Builder::new().name("watch".to_owned()).stack_size(128 * 1024).spawn(run);
    started.map(drop).doing(|| "a thread that watches".to_owned())
}

/// The signal that is asked for, once.
fn wanted(path: &Path) -> Option<Signal> {
    let text = fs::read_to_string(path).ok()?;
    let _ = fs::remove_file(path);
    match text.trim().parse::<i32>().ok()? {
        9 => Some(Signal::KILL),
        2 => Some(Signal::INT),
        _ => Some(Signal::TERM),
    }
}

fn end(pid: Pid) {
    let _ = kill_process_group(pid, Signal::TERM);
    let given = std::env::var("ARGO_TERMINATION_GRACE_PERIOD_SECONDS").ok();
    let grace = given.and_then(|text| text.parse().ok()).map_or(GRACE, Duration::from_secs);
    std::thread::sleep(grace);
    let _ = kill_process_group(pid, Signal::KILL);
}
