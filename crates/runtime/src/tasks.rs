//! Named, supervised tasks in groups that stop in order.

mod group;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use group::Group;

/// Failures that may wait for the supervisor; a task that fails beyond it waits to report.
const FAILURES_MAX: usize = 64;

/// A group of tasks; clones are the same group.
#[derive(Clone)]
pub struct Tasks {
    group: Arc<Group>,
}

/// The receiving end of failures of a whole tree of groups.
pub struct Supervisor {
    failures: mpsc::Receiver<Failure>,
}

/// A task that ended as it should not have.
#[derive(Debug, thiserror::Error)]
#[error("task {task} {cause}")]
pub struct Failure {
    /// The task's path: groups and its name, joined by slashes.
    pub task: String,
    /// Whether the process cannot go on without it.
    pub essential: bool,
    /// What happened.
    pub cause: Cause,
}

/// How a task failed.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// It panicked.
    #[error("panicked: {0}")]
    Panic(String),
    /// It returned an error.
    #[error("failed: {0:#}")]
    Error(anyhow::Error),
    /// It was essential and ended without being asked to.
    #[error("ended unasked")]
    Ended,
}

/// One running task, as `/debug/tasks` shows it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Running {
    /// The task's path.
    pub task: String,
    /// Seconds since it started.
    pub running_seconds: u64,
}

/// What a task may return.
pub trait Outcome: Send + 'static {
    /// The error, if the task failed.
    fn into_error(self) -> Option<anyhow::Error>;
}

impl Outcome for () {
    fn into_error(self) -> Option<anyhow::Error> {
        None
    }
}

impl<E: Into<anyhow::Error> + Send + 'static> Outcome for Result<(), E> {
    fn into_error(self) -> Option<anyhow::Error> {
        self.err().map(Into::into)
    }
}

impl Tasks {
    /// The root of a tree of groups, and where its failures are told.
    pub fn root(name: &'static str) -> (Self, Supervisor) {
        let (sender, failures) = mpsc::channel(FAILURES_MAX);
        let group = Group::root(name.to_owned(), sender);
        (Self { group }, Supervisor { failures })
    }

    /// A group that stops before this one and before children made earlier.
    #[must_use]
    pub fn child(&self, name: impl Into<String>) -> Self {
        Self { group: self.group.child(&name.into()) }
    }

    /// Starts a task; its failure is reported and the process goes on.
    pub fn spawn<F>(&self, name: &'static str, future: F)
    where
        F: Future<Output: Outcome> + Send + 'static,
    {
        self.group.spawn(name, false, future);
    }

    /// Starts a task the process cannot do without: any end before shutdown is a failure.
    pub fn spawn_essential<F>(&self, name: &'static str, future: F)
    where
        F: Future<Output: Outcome> + Send + 'static,
    {
        self.group.spawn(name, true, future);
    }

    /// Runs blocking work on a thread of its own; shutdown waits for it but cannot interrupt it.
    pub fn spawn_blocking<T: Outcome>(&self, name: &'static str, work: impl FnOnce() -> T + Send + 'static) {
        self.group.spawn(name, false, async move {
            match tokio::task::spawn_blocking(work).await {
                Ok(outcome) => outcome.into_error().map_or(Ok(()), Err),
                Err(error) if error.is_panic() => Err(anyhow::anyhow!("panicked: {}", message(&*error.into_panic()))),
                Err(error) => Err(error.into()),
            }
        });
    }

    /// Completes when the group is asked to stop.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.group.token().cancelled()
    }

    /// The group's token, for code that must hold one.
    pub fn token(&self) -> CancellationToken {
        self.group.token().clone()
    }

    /// Whether the group has been asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.group.token().is_cancelled()
    }

    /// Every running task of this group and its children, in order of path.
    pub fn running(&self) -> Vec<Running> {
        let mut running = self.group.running();
        running.sort_by(|a, b| a.task.cmp(&b.task));
        running
    }

    /// Stops children, newest first, then this group's own tasks, all within `grace`.
    ///
    /// Gives back the paths of tasks that did not end in time; those are aborted.
    pub async fn shutdown(&self, grace: Duration) -> Vec<String> {
        self.group.shutdown(tokio::time::Instant::now() + grace).await
    }
}

impl Supervisor {
    /// The next failure; none when every group is gone.
    pub async fn failed(&mut self) -> Option<Failure> {
        self.failures.recv().await
    }

    /// Waits for the failure of an essential task, dropping others, which have been logged.
    pub async fn essential_failed(&mut self) -> Option<Failure> {
        while let Some(failure) = self.failures.recv().await {
            if failure.essential {
                return Some(failure);
            }
        }
        None
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
