//! A mark that a process and all it starts carry wherever they go, for where there are no control groups to find them by:
//! the time a real-time process may run without a pause, which is for ever in any case.

use std::io;
use std::path::Path;

use rustix::process::{Pid, Resource, Rlimit, Signal, getpid, kill_process, setrlimit};

/// Longer than any machine runs, in microseconds.
const FOR_EVER: u64 = 1 << 62;
/// As `/proc` calls it.
const LINE: &str = "Max realtime timeout";
/// What is killed may have started others meanwhile: so often it is looked again.
const ROUNDS_MAX: usize = 8;

/// The mark of a process we start. Others like us may be beside us, so it says who we are.
pub(super) fn of(process: u64) -> u64 {
    ours() | (process & 0xffff_ffff)
}

fn ours() -> u64 {
    let pid = u64::try_from(getpid().as_raw_nonzero().get()).unwrap_or_default();
    FOR_EVER | (pid << 32)
}

/// Marks this process, which has just been forked. Where it cannot be marked it is found by its group alone.
pub(super) fn set(mark: u64) {
    let _ = setrlimit(Resource::Rttime, Rlimit { current: Some(mark), maximum: Some(mark) });
}

/// Kills all that carry the mark of a process.
pub(super) fn kill(process: u64) {
    kill_those(|mark| mark == of(process));
}

/// Kills all that carry one of our marks but that of a process.
pub(super) fn kill_all_but(process: u64) {
    kill_those(|mark| mark & !0xffff_ffff == ours() && mark != of(process));
}

fn kill_those(wanted: impl Fn(u64) -> bool) {
    for _ in 0..ROUNDS_MAX {
        let mut found = false;
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let marked = read(&entry.path()).is_ok_and(|mark| mark.is_some_and(&wanted));
            if marked && let Some(pid) = Pid::from_raw(pid).filter(|pid| *pid != getpid()) {
                found |= kill_process(pid, Signal::KILL).is_ok();
            }
        }
        if !found {
            return;
        }
    }
}

fn read(process: &Path) -> io::Result<Option<u64>> {
    Ok(parse(&std::fs::read_to_string(process.join("limits"))?))
}

/// The second of the two numbers, which nobody can raise.
fn parse(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(LINE))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_where_there_are_some() {
        let limits = "Limit      Soft Limit  Hard Limit  Units\nMax cpu time  1 2 seconds\nMax realtime timeout   5  4611686022722355207  us\n";
        assert_eq!(parse(limits), Some(4_611_686_022_722_355_207));
        assert_eq!(parse("Max realtime timeout      unlimited            unlimited            us"), None);
        assert_eq!(parse(""), None);
        assert!(of(1) != of(2) && of(3) > FOR_EVER);
        assert!(read(Path::new("/proc/self")).unwrap().is_none(), "nobody has marked us");
    }
}
