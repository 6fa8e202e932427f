//! The seam between an API server and whoever runs its pods: logs, commands and ports of containers.

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use jiff::Timestamp;
use tokio::sync::mpsc;

use crate::net::BoxIo;

/// Messages between the two sides of a command that may wait.
pub const SESSION_QUEUE: usize = 16;

/// A container of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerAt {
    /// The pod's unique id.
    pub uid: String,
    /// The container's name.
    pub container: String,
}

/// Which part of a log is wanted, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Of the container before the present one.
    pub previous: bool,
    /// Go on until the container ends.
    pub follow: bool,
    /// With the time in front of each line.
    pub timestamps: bool,
    /// Only so many lines at the end.
    pub tail_lines: Option<u64>,
    /// Only so many bytes.
    pub limit_bytes: Option<u64>,
    /// Only what was said from then on.
    pub since: Option<Timestamp>,
}

/// A command to run in a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecOptions {
    /// Program and arguments; none to be connected to the container's own process.
    pub command: Vec<String>,
    /// Whether it gets input.
    pub stdin: bool,
    /// Whether it has a terminal.
    pub terminal: bool,
}

/// What goes to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecInput {
    /// Input.
    Stdin(Bytes),
    /// No more input comes.
    CloseStdin,
    /// Its terminal has another size.
    Resize {
        /// Lines.
        rows: u16,
        /// Columns.
        cols: u16,
    },
}

/// What comes from a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecOutput {
    /// Output.
    Stdout(Bytes),
    /// Errors.
    Stderr(Bytes),
    /// It has ended with this code. Nothing comes after.
    Exited(i32),
    /// It is no longer known how it goes. Nothing comes after.
    Lost(String),
}

/// A command that runs. It is ended when both ends are dropped.
#[derive(Debug)]
pub struct ExecSession {
    /// To it.
    pub input: mpsc::Sender<ExecInput>,
    /// From it.
    pub output: mpsc::Receiver<ExecOutput>,
}

/// Why something of a container cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// There is no such container here.
    #[error("{0}")]
    NotFound(String),
    /// It cannot be done with what is there.
    #[error("{0}")]
    Refused(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// Reaches into pods.
pub trait PodAccess: Send + Sync {
    /// A container's log, piece by piece.
    fn logs(
        &self,
        of: ContainerAt,
        options: LogOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Bytes>, AccessError>>;

    /// Runs a command in a container.
    fn exec(&self, of: ContainerAt, options: ExecOptions) -> BoxFuture<'_, Result<ExecSession, AccessError>>;

    /// Connects to a port of a pod, as its own processes would.
    fn dial<'a>(&'a self, uid: &'a str, port: u16) -> BoxFuture<'a, Result<BoxIo, AccessError>>;
}
