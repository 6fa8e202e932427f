//! What is said on the executor's socket.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::exit::Exit;

/// The process of the container's own command.
pub const MAIN: u64 = 1;

/// A request with the number its answer carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Chosen by who asks.
    pub id: u64,
    /// What is asked.
    #[serde(flatten)]
    pub request: Request,
}

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// Whether it lives.
    Ping,
    /// Where processes start if nothing else is said.
    About,
    /// Environment that every later process gets, besides its own.
    Bind {
        /// Names and values.
        env: BTreeMap<String, String>,
    },
    /// Start a process.
    Spawn(Spawn),
    /// Follow a process from these offsets; what is no longer kept is left out.
    Attach {
        /// Which.
        process: u64,
        /// Bytes of its output that are known already.
        #[serde(default)]
        stdout: u64,
        /// The same of its errors.
        #[serde(default)]
        stderr: u64,
    },
    /// Follow it no longer.
    Detach {
        /// Which.
        process: u64,
    },
    /// No more input comes.
    CloseStdin {
        /// Which.
        process: u64,
    },
    /// Send a signal.
    Signal {
        /// Which.
        process: u64,
        /// The signal's number.
        signal: i32,
        /// To its whole group.
        #[serde(default)]
        group: bool,
    },
    /// Its terminal has another size.
    Resize {
        /// Which.
        process: u64,
        /// Lines.
        rows: u16,
        /// Columns.
        cols: u16,
    },
    /// Which processes there are.
    List,
    /// A finished process is of no interest any more.
    Forget {
        /// Which.
        process: u64,
    },
    /// End all processes but the container's own; answered when they are gone.
    Reset {
        /// How long that may take.
        patience_ms: u64,
    },
    /// Answered when no process is left but the first; refused at once if one may stay, or when patience ends.
    Settle {
        /// How long what was ended may take to go.
        patience_ms: u64,
    },
    /// End the container: its own process is asked, and killed when its time is up.
    Stop {
        /// How long it may take.
        grace_ms: u64,
        /// The signal it is asked by; SIGTERM if none is said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
    },
    /// Write the bytes of the data frames that came before with this request's number.
    WriteFile {
        /// Where; missing directories are made.
        path: String,
        /// Permissions of a new file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
        /// At the end of what is there.
        #[serde(default)]
        append: bool,
    },
    /// Put a file in the place of another, whose permissions and owner it takes over, or nowhere before.
    Rename {
        /// Which.
        from: String,
        /// What it becomes.
        to: String,
    },
    /// Read a piece of a file; it comes as data frames with this request's number.
    ReadFile {
        /// Which.
        path: String,
        /// From where.
        #[serde(default)]
        offset: u64,
        /// At most so many bytes.
        length: u64,
    },
    /// What is at a path.
    Stat {
        /// Which.
        path: String,
    },
    /// What a directory holds.
    ListDirectory {
        /// Which.
        path: String,
        /// Only names after this one.
        #[serde(default)]
        after: String,
    },
    /// Remove a file, or a directory with all it holds.
    Remove {
        /// Which.
        path: String,
    },
}

/// A process to start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spawn {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Environment besides what is bound.
    pub env: BTreeMap<String, String>,
    /// Working directory; the container's if none is said.
    pub directory: Option<String>,
    /// A name others find it by.
    pub tag: String,
    /// A terminal of this size.
    pub terminal: Option<Size>,
    /// Whether it gets input.
    pub stdin: bool,
    /// It and all it started are killed after so long.
    pub timeout_ms: Option<u64>,
    /// What it leaves running is left alone when it ends.
    pub background: bool,
    /// Follow it from the start on this connection.
    pub attach: bool,
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub cols: u16,
}

/// What the executor says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Said {
    /// An answer.
    Reply {
        /// The request's number.
        id: u64,
        /// The answer.
        reply: Reply,
    },
    /// A process that is followed has ended; all its output was sent before.
    Exited {
        /// Which.
        process: u64,
        /// How.
        exit: Exit,
    },
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Reply {
    /// It is done.
    Done,
    /// What was asked about.
    About {
        /// Where processes start.
        directory: String,
    },
    /// A process was started.
    Spawned {
        /// Its number.
        process: u64,
        /// Its process id, inside.
        pid: i32,
    },
    /// The processes there are.
    Processes {
        /// All of them, oldest first.
        processes: Vec<ProcessInfo>,
    },
    /// What is at a path.
    File {
        /// It.
        file: FileInfo,
    },
    /// What a directory holds.
    Directory {
        /// By name.
        entries: Vec<FileInfo>,
        /// Whether others come after the last.
        more: bool,
    },
    /// It cannot be done.
    Failed {
        /// Which sort of failure.
        failure: Failure,
        /// What happened.
        message: String,
    },
}

/// A sort of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The request makes no sense.
    Invalid,
    /// There is no such process, program or file.
    NotFound,
    /// It may not be done.
    Denied,
    /// A bound is reached.
    Exhausted,
    /// Anything else.
    Other,
}

/// A process as others see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// Its number.
    pub process: u64,
    /// The name others find it by.
    pub tag: String,
    /// Its process id, inside.
    pub pid: i32,
    /// What runs.
    pub command: Vec<String>,
    /// Whether what it leaves running is left alone.
    pub background: bool,
    /// Bytes of output so far.
    pub stdout: u64,
    /// Bytes of errors so far.
    pub stderr: u64,
    /// How it ended, if it has.
    pub exit: Option<Exit>,
}

/// A file as others see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    /// Its name.
    pub name: String,
    /// Whether it is a directory.
    pub directory: bool,
    /// Its size.
    pub size: u64,
    /// Its permissions.
    pub mode: u32,
    /// When it was changed, in nanoseconds since 1970.
    pub modified_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_flat_and_forgiving() {
        let call: Call = serde_json::from_str(r#"{"id": 7, "type": "spawn", "command": ["a"]}"#).unwrap();
        let spawn = Spawn { command: vec!["a".to_owned()], ..Spawn::default() };
        assert_eq!(call, Call { id: 7, request: Request::Spawn(spawn) });
        let call: Call = serde_json::from_str(r#"{"id": 1, "type": "ping"}"#).unwrap();
        assert_eq!(call.request, Request::Ping);
        let text = serde_json::to_string(&Call { id: 1, request: Request::List }).unwrap();
        assert_eq!(text, r#"{"id":1,"type":"list"}"#);
    }
}
