//! What is kept on disk about pods, so that the next process can go on with them.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thane_executor::exit::{self, Exit};
use thane_executor::log;
use thane_executor::plan::{LAST_WORD, Started};

use crate::files;
use crate::program::Living;
use crate::state::{ContainerState, Ended, Now, Running};

const LAST_WORD_MAX: u64 = 4096;
const LOG_TAIL: usize = 2048;
/// The log that is read for it: its lines may be short, and each has its time.
const LOG_READ_MAX: u64 = 1 << 20;
/// How a container ended, in words of its executor's.
const EXIT_MAX: u64 = 64 * 1024;
/// As runtimes give it when nobody knows how a container ended.
const UNKNOWN_CODE: i32 = 137;

/// A pod that was set up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PodRecord {
    /// The process that holds its namespaces.
    pub(crate) holder: Started,
    /// Its address.
    pub(crate) address: std::net::Ipv4Addr,
    /// Whether it uses the machine's network.
    pub(crate) host_network: bool,
}

/// A container that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerRecord {
    /// Its first process.
    pub(crate) started: Started,
    /// Since when.
    pub(crate) since: Timestamp,
    /// The image it was made from.
    pub(crate) image_id: String,
    /// Its id.
    pub(crate) id: String,
}

/// The directory of a pod.
#[derive(Debug, Clone)]
pub(crate) struct PodDirectory {
    pub(crate) path: PathBuf,
}

/// The directory of one start of a container.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    path: PathBuf,
}

impl PodDirectory {
    pub(crate) fn new(pods: &Path, uid: &str) -> Self {
        Self { path: pods.join(uid) }
    }

    /// Where its volumes are.
    pub(crate) fn volumes(&self) -> PathBuf {
        self.path.join("volumes")
    }

    /// A file of its `/etc`.
    pub(crate) fn etc(&self, name: &str) -> PathBuf {
        self.path.join("etc").join(name)
    }

    /// A layer with these files, below what containers whose files are kept write.
    pub(crate) fn base(&self) -> PathBuf {
        self.path.join("base")
    }

    /// Where others record what they did in a container.
    pub(crate) fn records(&self, container: &str) -> PathBuf {
        self.path.join("records").join(container)
    }

    pub(crate) fn read(&self) -> Option<PodRecord> {
        read(&self.path.join("pod.json"))
    }

    pub(crate) fn write(&self, record: &PodRecord) -> io::Result<()> {
        write(&self.path.join("pod.json"), record)
    }

    /// The directory of a start of a container.
    pub(crate) fn attempt(&self, container: &str, number: u32) -> Attempt {
        Attempt { path: self.container(container).join(number.to_string()) }
    }

    fn container(&self, container: &str) -> PathBuf {
        self.path.join("containers").join(container)
    }

    /// Whether a container of it was ever started.
    pub(crate) fn has_started(&self) -> bool {
        std::fs::read_dir(self.path.join("containers")).is_ok_and(|mut entries| entries.next().is_some())
    }

    /// The number of the last start of a container.
    pub(crate) fn last_attempt(&self, container: &str) -> Option<u32> {
        let entries = std::fs::read_dir(self.container(container)).ok()?;
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).max()
    }

    /// What became of a container, and its first process if that still lives.
    pub(crate) fn adopt(&self, container: &str) -> Option<(ContainerState, Option<Living>)> {
        let number = self.last_attempt(container)?;
        let attempt = self.attempt(container, number);
        let record = attempt.read()?;
        let before = number.checked_sub(1).map(|before| self.attempt(container, before));
        let last = before.and_then(|before| Some(before.ended(&before.read()?, false)));
        let mut state =
            ContainerState { restarts: number, image_id: record.image_id.clone(), last, ..ContainerState::default() };
        // An end that is on disk is final, even if its process is still on its way out.
        let living = Living::find(&record.started).filter(|_| attempt.exit().is_none());
        state.now = match &living {
            Some(_) => Now::Running(Running {
                id: record.id,
                since: record.since,
                started: false,
                ready: false,
                stopping: false,
            }),
            None => Now::Ended(attempt.ended(&record, false)),
        };
        Some((state, living))
    }

    /// Forgets starts that nobody can ask for any more.
    pub(crate) fn forget_before(&self, container: &str, number: u32) -> io::Result<()> {
        match number.checked_sub(2) {
            Some(old) => files::remove_tree(&self.attempt(container, old).path),
            None => Ok(()),
        }
    }
}

impl Attempt {
    /// What its executor and we share.
    pub(crate) fn run(&self) -> PathBuf {
        self.path.join("run")
    }

    /// What it has written.
    pub(crate) fn upper(&self) -> PathBuf {
        self.path.join("upper")
    }

    /// Scratch space of its overlay.
    pub(crate) fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes what it has written, wherever in its directory that went.
    pub(crate) fn remove_written(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(crate::layers::is_written) {
                files::remove_tree(&entry.path())?;
            }
        }
        Ok(())
    }

    pub(crate) fn read(&self) -> Option<ContainerRecord> {
        read(&self.path.join("record.json"))
    }

    pub(crate) fn write(&self, record: &ContainerRecord) -> io::Result<()> {
        write(&self.path.join("record.json"), record)
    }

    /// Whether its end is on disk.
    pub(crate) fn has_ended(&self) -> bool {
        self.exit().is_some()
    }

    fn exit(&self) -> Option<Exit> {
        serde_json::from_slice(&files::end_of_given(&self.run().join(exit::FILE), EXIT_MAX).ok()?).ok()
    }

    /// How it ended; `from_log` takes the end of its log for a last word if it left none.
    pub(crate) fn ended(&self, record: &ContainerRecord, from_log: bool) -> Ended {
        let Some(exit) = self.exit() else {
            return Ended {
                id: record.id.clone(),
                code: UNKNOWN_CODE,
                signal: None,
                reason: "ContainerStatusUnknown".to_owned(),
                message: "the container's first process was ended from outside".to_owned(),
                started: record.since,
                finished: record.since,
            };
        };
        let finished = Timestamp::from_nanosecond(i128::from(exit.finished_ns)).unwrap_or(record.since);
        let reason = match &exit {
            Exit { failure: Some(_), .. } => "StartError",
            Exit { code: 0, .. } => "Completed",
            Exit { oom: true, .. } => "OOMKilled",
            _ => "Error",
        };
        let said = exit.failure.clone().or_else(|| self.last_word());
        let message = said.or_else(|| (from_log && exit.code != 0).then(|| self.log_tail())).unwrap_or_default();
        Ended {
            id: record.id.clone(),
            code: exit.code,
            signal: exit.signal,
            reason: reason.to_owned(),
            message,
            started: record.since,
            finished,
        }
    }

    fn last_word(&self) -> Option<String> {
        let kept = files::end_of_given(&self.run().join(LAST_WORD), LAST_WORD_MAX).ok()?;
        Some(String::from_utf8_lossy(&kept).into_owned()).filter(|text| !text.is_empty())
    }

    fn log_tail(&self) -> String {
        let bytes = files::end_of_given(&self.run().join(log::FILE), LOG_READ_MAX).unwrap_or_default();
        let mut text = Vec::new();
        for line in bytes.split(|byte| *byte == b'\n').filter_map(log::parse) {
            text.extend_from_slice(line.text);
            if line.whole {
                text.push(b'\n');
            }
        }
        String::from_utf8_lossy(&text[text.len().saturating_sub(LOG_TAIL)..]).into_owned()
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    thane_runtime::files::write_private(path, &serde_json::to_vec(value).map_err(io::Error::other)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_from_disk() {
        let folder = tempfile::tempdir().unwrap();
        let attempt = PodDirectory::new(folder.path(), "u").attempt("c", 0);
        std::fs::create_dir_all(attempt.run()).unwrap();
        let started = Started { pid: 0, ticks: 0 };
        let record = ContainerRecord {
            started,
            since: Timestamp::UNIX_EPOCH,
            image_id: String::new(),
            id: "thane://x".to_owned(),
        };
        assert_eq!(attempt.ended(&record, false).reason, "ContainerStatusUnknown");
        for (exit, reason) in [
            (r#"{"code": 0, "finished_ns": 5}"#, "Completed"),
            (r#"{"code": 3, "finished_ns": 5}"#, "Error"),
            (r#"{"code": 137, "signal": 9, "oom": true, "finished_ns": 5}"#, "OOMKilled"),
            (r#"{"code": 0, "oom": true, "finished_ns": 5}"#, "Completed"),
            (r#"{"code": 128, "finished_ns": 5, "failure": "no such program"}"#, "StartError"),
        ] {
            std::fs::write(attempt.run().join(exit::FILE), exit).unwrap();
            assert_eq!(attempt.ended(&record, false).reason, reason);
        }
        std::fs::write(attempt.run().join(log::FILE), "1970-01-01T00:00:00.000000000Z stdout F oh\n").unwrap();
        std::fs::write(attempt.run().join(exit::FILE), r#"{"code": 3, "finished_ns": 5}"#).unwrap();
        assert_eq!(attempt.ended(&record, true).message, "oh\n");
        std::fs::write(attempt.run().join(LAST_WORD), "last").unwrap();
        assert_eq!(attempt.ended(&record, true).message, "last");
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "treasure").unwrap();
        std::fs::remove_file(attempt.run().join(LAST_WORD)).unwrap();
        std::os::unix::fs::symlink(&secret, attempt.run().join(LAST_WORD)).unwrap();
        assert_eq!(attempt.ended(&record, false).message, "", "a link in its place is not followed");
        attempt.write(&record).unwrap();
        let (state, living) = PodDirectory::new(folder.path(), "u").adopt("c").unwrap();
        assert!(living.is_none() && state.ended().is_some_and(|ended| ended.code == 3));
    }
}
