//! One group of tasks: what runs in it, and how it stops.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Cause, Failure, Outcome, Running, message};

/// What a group still gets when groups stopped before it used up the grace: enough to flush.
const LAST_CHANCE: Duration = Duration::from_millis(250);

pub(super) struct Group {
    path: String,
    token: CancellationToken,
    tracker: TaskTracker,
    failures: mpsc::Sender<Failure>,
    // Set before the token is cancelled: children stop first, and a task may end with them.
    stopping: AtomicBool,
    state: Mutex<State>,
    // Strong, so that a group without tasks of its own still leads to its children.
    _parent: Option<Arc<Group>>,
}

#[derive(Default)]
struct State {
    next_id: u64,
    running: BTreeMap<u64, Entry>,
    // Weak, so that a group per connection goes away with its last task and handle.
    children: Vec<Weak<Group>>,
}

struct Entry {
    name: &'static str,
    started: Instant,
    abort: Option<AbortHandle>,
}

impl Group {
    pub(super) fn root(path: String, failures: mpsc::Sender<Failure>) -> Arc<Self> {
        Self::new(path, CancellationToken::new(), failures, None)
    }

    fn new(
        path: String,
        token: CancellationToken,
        failures: mpsc::Sender<Failure>,
        parent: Option<Arc<Self>>,
    ) -> Arc<Self> {
        let tracker = TaskTracker::new();
        let (stopping, state) = (AtomicBool::new(false), Mutex::default());
        Arc::new(Self { path, token, tracker, failures, stopping, state, _parent: parent })
    }

    pub(super) fn child(self: &Arc<Self>, name: &str) -> Arc<Self> {
        let path = format!("{}/{name}", self.path);
        let child = Self::new(path, self.token.child_token(), self.failures.clone(), Some(Arc::clone(self)));
        let mut state = self.state.lock();
        state.children.retain(|known| known.strong_count() > 0);
        state.children.push(Arc::downgrade(&child));
        child
    }

    pub(super) fn token(&self) -> &CancellationToken {
        &self.token
    }

    pub(super) fn spawn<F>(self: &Arc<Self>, name: &'static str, essential: bool, future: F)
    where
        F: Future<Output: Outcome> + Send + 'static,
    {
        let id = self.enter(name);
        let left = Leave { group: Arc::clone(self), id };
        let supervised = async move {
            let outcome = AssertUnwindSafe(future).catch_unwind().await;
            left.group.report(name, essential, outcome).await;
            drop(left);
        };
        let handle = self.tracker.spawn(supervised);
        if let Some(entry) = self.state.lock().running.get_mut(&id) {
            entry.abort = Some(handle.abort_handle());
        }
    }

    fn enter(&self, name: &'static str) -> u64 {
        let mut state = self.state.lock();
        let id = state.next_id;
        state.next_id += 1;
        state.running.insert(id, Entry { name, started: Instant::now(), abort: None });
        id
    }

    async fn report<O: Outcome>(&self, name: &str, essential: bool, outcome: std::thread::Result<O>) {
        let Some(cause) = self.cause(essential, outcome) else { return };
        let failure = Failure { task: format!("{}/{name}", self.path), essential, cause };
        tracing::error!(task = failure.task, essential, cause = %failure.cause, "task failed");
        // A supervisor that does not listen must not keep the task from ending.
        tokio::select! {
            _ = self.failures.send(failure) => {}
            () = self.token.cancelled() => {}
        }
    }

    fn cause<O: Outcome>(&self, essential: bool, outcome: std::thread::Result<O>) -> Option<Cause> {
        match outcome.map(O::into_error) {
            Err(panic) => Some(Cause::Panic(message(&*panic))),
            Ok(Some(error)) => Some(Cause::Error(error)),
            Ok(None) => {
                let asked = self.token.is_cancelled() || self.stopping.load(Ordering::Acquire);
                (essential && !asked).then_some(Cause::Ended)
            }
        }
    }

    pub(super) fn running(&self) -> Vec<Running> {
        let now = Instant::now();
        let mut running: Vec<Running> = self
            .state
            .lock()
            .running
            .values()
            .map(|entry| Running {
                task: format!("{}/{}", self.path, entry.name),
                running_seconds: now.saturating_duration_since(entry.started).as_secs(),
            })
            .collect();
        for child in self.children() {
            running.extend(child.running());
        }
        running
    }

    fn children(&self) -> Vec<Arc<Self>> {
        self.state.lock().children.iter().filter_map(Weak::upgrade).collect()
    }

    pub(super) fn shutdown(&self, deadline: Instant) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async move {
            self.stopping.store(true, Ordering::Release);
            let mut late = Vec::new();
            for child in self.children().into_iter().rev() {
                late.extend(child.shutdown(deadline).await);
            }
            self.token.cancel();
            self.tracker.close();
            let deadline = deadline.max(Instant::now() + LAST_CHANCE);
            if tokio::time::timeout_at(deadline, self.tracker.wait()).await.is_err() {
                late.extend(self.abort());
            }
            late
        })
    }

    fn abort(&self) -> Vec<String> {
        let aborted: Vec<(&str, Option<AbortHandle>)> =
            self.state.lock().running.values().map(|entry| (entry.name, entry.abort.clone())).collect();
        let mut late = Vec::with_capacity(aborted.len());
        for (name, handle) in aborted {
            late.push(format!("{}/{name}", self.path));
            if let Some(handle) = handle {
                handle.abort();
            }
        }
        late
    }
}

/// Takes a task off the list however it ends, also when it is aborted.
struct Leave {
    group: Arc<Group>,
    id: u64,
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.group.state.lock().running.remove(&self.id);
    }
}
