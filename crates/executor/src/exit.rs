//! How a process ended, and the record of it that outlives everyone.

use serde::{Deserialize, Serialize};

/// The file of a container's run directory that says how it ended.
pub const FILE: &str = "exit.json";
/// The exit code of a step that took too long.
pub const TIMED_OUT: i32 = 124;
/// The exit code of a container that could not be started.
pub const NOT_STARTED: i32 = 128;

/// How a process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Its code; 128 and the signal's number if one ended it, 124 if it took too long.
    pub code: i32,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Whether the kernel ended something in the container for want of memory while it ran.
    #[serde(default)]
    pub oom: bool,
    /// Whether its time was up.
    #[serde(default)]
    pub timed_out: bool,
    /// When it ended, in nanoseconds since 1970.
    pub finished_ns: u64,
    /// Why it could not be started at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}
