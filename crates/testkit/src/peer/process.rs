//! A child that cannot outlive us: not after a drop, not after a panic, not after SIGKILL.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// The guard holds our end of a pipe as its input. When we end, however we end, it reads end-of-file and ends its group.
const GUARD: &str = r#"folder=$1; shift
("$@" </dev/null; kill -TERM $$ 2>/dev/null) &
read -r _
[ -z "$folder" ] || rm -rf "$folder"
kill -KILL 0"#;

/// A program and everything it started, ended together.
#[derive(Debug)]
pub struct Guarded {
    guard: Child,
    group: Pid,
}

impl Guarded {
    /// Starts `program` with its output in `log`. `folder`, if given, is removed should this process be killed.
    pub fn start(program: &Path, arguments: &[String], log: &Path, folder: Option<&Path>) -> Result<Self> {
        let output = File::create(log).with_context(|| format!("creating {}", log.display()))?;
        let guard = Command::new("sh")
            .args(["-c", GUARD, "guard"])
            .arg(folder.unwrap_or(Path::new("")))
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let group = Pid::from_child(&guard);
        Ok(Self { guard, group })
    }

    /// Whether the program is still there.
    pub fn running(&mut self) -> bool {
        matches!(self.guard.try_wait(), Ok(None))
    }

    /// Sends SIGTERM to the program and what it started; `running` tells when it has ended.
    pub fn ask_to_end(&self) {
        for member in self.members() {
            // Whoever has ended meanwhile needs no telling.
            if let Some(pid) = i32::try_from(member).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::TERM);
            }
        }
    }

    /// The process ids of the group, the guard's own shell left out.
    pub fn members(&self) -> Vec<u32> {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        let group = self.group.as_raw_nonzero().get().to_string();
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
            .filter(|pid| in_group(*pid, &group) && !is_shell(*pid))
            .collect()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // The group may have ended by itself; there is nobody left to tell.
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = self.guard.wait();
        // Ports and files are free only when the last of the group is gone; nobody announces that.
        for _ in 0..500 {
            if self.members().is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn in_group(pid: u32, group: &str) -> bool {
    // Fields after the parenthesised name: state, parent, group.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    fields.next().is_some_and(|state| state != "Z") && fields.nth(1) == Some(group)
}

fn is_shell(pid: u32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    matches!(name.trim(), "sh" | "dash" | "bash")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_program_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let mut guarded =
            Guarded::start(Path::new("sleep"), &["600".to_owned()], &folder.path().join("log"), None).unwrap();
        assert!(guarded.running());
        let started = (0..500).find_map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            guarded.members().first().copied()
        });
        let group = guarded.group.as_raw_nonzero().to_string();
        drop(guarded);
        assert!(!in_group(started.unwrap(), &group));
    }

    #[test]
    fn a_program_that_ends_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let mut guarded = Guarded::start(Path::new("true"), &[], &folder.path().join("log"), None).unwrap();
        let noticed = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            !guarded.running()
        });
        assert!(noticed);
    }
}
