//! What a pod and a container are to be, worked out by whoever starts them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The socket in a container's run directory.
pub const SOCKET: &str = "exec.sock";
/// The directory in it that the root file system is built on.
pub const ROOT: &str = "root";
/// The file in it that the container may leave a last word in.
pub const LAST_WORD: &str = "termination-log";

/// The ids of users and groups that containers have on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdRange {
    /// What 0 inside is outside.
    pub base: u32,
    /// How many there are.
    pub count: u32,
}

/// Namespaces that the containers of a pod share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodPlan {
    /// Its host name.
    pub hostname: String,
    /// Who its users are outside.
    pub ids: IdRange,
    /// Whether it uses the machine's own network.
    pub host_network: bool,
    /// Volumes in memory, each of at most so many bytes.
    #[serde(default)]
    pub memory: Vec<Option<u64>>,
}

/// The first descriptor of a pod's holder that is a volume in memory; the others follow.
pub const MEMORY: usize = 100;

/// The number of a process's root mount, from the kernel's table of its mounts.
pub fn root_mount(mounts: &str) -> Option<u64> {
    mounts
        .lines()
        .filter(|line| line.split(' ').nth(4) == Some("/"))
        .find_map(|line| line.split(' ').next()?.parse().ok())
}

/// A program that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Its process id on the host.
    pub pid: i32,
    /// When it started, in the kernel's ticks: with the id it names one process for good.
    pub ticks: u64,
}

/// What the program says about how it went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It runs.
    Started(Started),
    /// It does not, and why.
    Failed(String),
}

/// A container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerPlan {
    /// The run directory: socket, log, exit record, last word. Owned by the mapped root.
    pub directory: PathBuf,
    /// The process that holds the pod's namespaces.
    pub holder: Started,
    /// Who its users are outside.
    pub ids: IdRange,
    /// Whether it uses the machine's own network.
    pub host_network: bool,
    /// Its root file system.
    pub root: Root,
    /// What is mounted in it, in this order.
    pub mounts: Vec<Mount>,
    /// Where its processes are counted and bounded.
    pub cgroups: Cgroups,
    /// Its own command; without one it waits for requests.
    pub main: Option<Main>,
    /// Environment of every process.
    pub env: BTreeMap<String, String>,
    /// Where processes start; made if it is missing.
    pub working_directory: String,
    /// Who processes run as.
    pub user: User,
    /// Capabilities processes keep, by bit.
    pub capabilities: u64,
    /// No file may be longer than this.
    #[serde(default)]
    pub file_bytes_max: Option<u64>,
    /// How soon the kernel ends its processes for want of memory.
    pub oom_score: i32,
    /// How much of its output is kept.
    pub log: LogLimits,
    /// How many files a process may have open until it asks for more; without it, as many as whoever starts it.
    #[serde(default)]
    pub open_files: Option<u64>,
}

/// Another root file system for a container that runs and in which nothing but its first process does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchPlan {
    /// Its first process.
    pub init: Started,
    /// The process that holds the pod's namespaces.
    pub holder: Started,
    /// Who its users are outside.
    pub ids: IdRange,
    /// What it gets.
    pub root: Root,
    /// The mount of the root it is to leave: if it has another, this was done before.
    pub leaves: u64,
    /// Held while it is done, so that two never do it at once.
    pub lock: PathBuf,
}

/// What is tried before there are containers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbePlan {
    /// A process that holds namespaces.
    pub holder: Started,
    /// The root to put together.
    pub root: Root,
}

/// A root file system: layers, and a directory that takes what is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// Lower layers, topmost first.
    pub lowers: Vec<Lower>,
    /// What was written; owned by the mapped root.
    pub upper: PathBuf,
    /// Scratch space of the overlay, beside the upper directory.
    pub work: PathBuf,
    /// Nothing can be written.
    pub read_only: bool,
}

/// A lower layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lower {
    /// Where.
    pub path: PathBuf,
    /// Whether its owners on disk are those of the image and must be mapped.
    pub mapped: bool,
}

/// Something mounted in a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Where, inside.
    pub target: String,
    /// What.
    pub source: Source,
    /// Nothing can be written.
    pub read_only: bool,
}

/// What is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A directory or file of the host.
    Bind(PathBuf),
    /// Something below a directory whose content is anybody's work; made if it is missing.
    Below {
        /// The directory.
        root: PathBuf,
        /// The path in it; links in it lead nowhere else.
        path: String,
    },
    /// One of the pod's volumes in memory, or something in it, made if it is missing.
    Memory {
        /// Which.
        number: usize,
        /// The path in it; links in it lead nowhere else.
        path: String,
    },
}

/// Where a container's processes are counted and bounded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroups {
    /// Directories to make, in this order, with what is written in them.
    pub directories: Vec<CgroupDirectory>,
    /// The container's own groups: the roots it sees.
    pub join: Vec<PathBuf>,
    /// Where the executor stays (version 2 allows no process beside groups).
    pub settle: Vec<PathBuf>,
    /// Controllers to pass on once it has settled.
    pub pass_on: Vec<PathBuf>,
    /// Directories to make after that: what is written in them is there only then (version 2).
    #[serde(default)]
    pub later: Vec<CgroupDirectory>,
    /// Where the processes it starts go (version 1).
    pub work: Vec<PathBuf>,
    /// Under which each process it starts gets a group of its own (version 2).
    pub track: Option<PathBuf>,
    /// Files that count processes ended for want of memory.
    pub oom: Vec<PathBuf>,
}

/// A control group to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupDirectory {
    /// Where.
    pub path: PathBuf,
    /// Files and what is written in them; a file that is missing is passed over.
    pub settings: Vec<(String, String)>,
    /// Given to the container's root.
    pub delegated: bool,
}

/// A container's own command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Main {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Whether it has a terminal.
    pub terminal: bool,
    /// Whether it gets input.
    pub stdin: bool,
}

/// Who processes run as.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Other groups.
    pub groups: Vec<u32>,
}

/// How much of a container's output is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLimits {
    /// A file longer than this is put aside.
    pub bytes_max: u64,
    /// How many are kept, the present one included.
    pub files_max: u32,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { bytes_max: 10 * 1024 * 1024, files_max: 3 }
    }
}
