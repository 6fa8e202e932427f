//! Which Workflows have to be looked at, now and later; each by one worker at a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use thane_runtime::SharedClock;
use tokio::sync::Notify;

/// A Workflow: namespace and name.
pub(super) type Key = (String, String);

/// The longest sleep; whatever is later is looked at again by then.
const NAP_MAX: Duration = Duration::from_hours(1);

/// Workflows to look at. There are no more entries than Workflows.
pub(super) struct Queue {
    clock: SharedClock,
    inner: Mutex<Inner>,
    ready: Notify,
    alarm: Notify,
}

#[derive(Default)]
struct Inner {
    waiting: VecDeque<Key>,
    queued: BTreeSet<Key>,
    working: BTreeSet<Key>,
    /// Asked for while a worker had it.
    again: BTreeSet<Key>,
    later: BTreeSet<(Duration, Key)>,
    due: BTreeMap<Key, Duration>,
}

impl Inner {
    fn push(&mut self, key: Key) -> bool {
        if self.working.contains(&key) {
            self.again.insert(key);
            return false;
        }
        if self.queued.insert(key.clone()) {
            self.waiting.push_back(key);
            return true;
        }
        false
    }
}

impl Queue {
    pub(super) fn new(clock: SharedClock) -> Self {
        Self { clock, inner: Mutex::new(Inner::default()), ready: Notify::new(), alarm: Notify::new() }
    }

    /// Has a Workflow looked at.
    pub(super) fn push(&self, key: Key) {
        if self.inner.lock().push(key) {
            self.ready.notify_one();
        }
    }

    /// Has a Workflow looked at after a while, or earlier.
    pub(super) fn push_after(&self, key: Key, wait: Duration) {
        let at = self.clock.monotonic().saturating_add(wait);
        let mut inner = self.inner.lock();
        if inner.due.get(&key).is_some_and(|due| *due <= at) {
            return;
        }
        if let Some(before) = inner.due.insert(key.clone(), at) {
            inner.later.remove(&(before, key.clone()));
        }
        inner.later.insert((at, key));
        drop(inner);
        self.alarm.notify_one();
    }

    #[cfg(test)]
    pub(super) fn is_for_later(&self, key: &Key) -> bool {
        self.inner.lock().due.contains_key(key)
    }

    /// The next Workflow, which is this worker's until [`Queue::done`].
    pub(super) async fn next(&self) -> Key {
        loop {
            let ready = self.ready.notified();
            {
                let mut inner = self.inner.lock();
                if let Some(key) = inner.waiting.pop_front() {
                    inner.queued.remove(&key);
                    inner.working.insert(key.clone());
                    if !inner.waiting.is_empty() {
                        self.ready.notify_one();
                    }
                    return key;
                }
            }
            ready.await;
        }
    }

    /// The worker is done with a Workflow.
    pub(super) fn done(&self, key: &Key) {
        let mut inner = self.inner.lock();
        inner.working.remove(key);
        if inner.again.remove(key) && inner.push(key.clone()) {
            self.ready.notify_one();
        }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.inner.lock().waiting.len()
    }

    /// Moves what was for later to now when its time comes.
    pub(super) async fn ring(&self) {
        loop {
            let alarm = self.alarm.notified();
            let now = self.clock.monotonic();
            let nap = {
                let mut inner = self.inner.lock();
                while let Some((at, key)) = inner.later.first().cloned().filter(|(at, _)| *at <= now) {
                    inner.later.remove(&(at, key.clone()));
                    inner.due.remove(&key);
                    if inner.push(key) {
                        self.ready.notify_one();
                    }
                }
                inner.later.first().map_or(NAP_MAX, |(at, _)| at.saturating_sub(now).min(NAP_MAX))
            };
            tokio::select! {
                () = alarm => {}
                () = tokio::time::sleep(nap) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use thane_runtime::SystemClock;

    use super::*;

    fn key(name: &str) -> Key {
        ("ns".to_owned(), name.to_owned())
    }

    #[tokio::test]
    async fn each_has_one_worker_and_nothing_is_lost() {
        let queue = Queue::new(SystemClock::shared());
        queue.push(key("a"));
        queue.push(key("a"));
        queue.push(key("b"));
        assert_eq!((queue.len(), queue.next().await), (2, key("a")));
        queue.push(key("a"));
        assert_eq!((queue.len(), queue.next().await), (1, key("b")));
        queue.done(&key("a"));
        assert_eq!(queue.next().await, key("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_for_later_comes_later() {
        let queue = std::sync::Arc::new(Queue::new(SystemClock::shared()));
        queue.push_after(key("a"), Duration::from_millis(20));
        queue.push_after(key("a"), Duration::from_millis(1));
        queue.push_after(key("a"), Duration::from_secs(100));
        let next = async {
            tokio::select! {
                () = queue.ring() => key("never"),
                next = queue.next() => next,
            }
        };
        assert_eq!(next.await, key("a"));
        assert!(queue.inner.lock().later.is_empty());
    }
}
