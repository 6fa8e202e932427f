//! Work to do: each piece at most once, failed ones again after a pause that grows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

/// A piece of work. It names what to look at, never what was seen: whoever does it reads the state again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    /// A `CustomResourceDefinition` changed.
    Definition(String),
    /// The certificate authority changed.
    Authority,
    /// A namespace may lack its default objects.
    Defaults(String),
    /// A namespace is going away.
    Terminate(String),
    /// An object may have lost its owners.
    Dependent(Bytes),
    /// An object waits for its dependents.
    Owner(Bytes),
}

const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The queue. Its size is bounded by the number of objects, since each is in it at most once per kind of work.
#[derive(Default)]
pub(super) struct Queue {
    ready: VecDeque<Work>,
    is_ready: BTreeSet<Work>,
    /// When each waiting piece is due and how long it paused last.
    waiting: BTreeMap<Work, (Instant, Duration)>,
    pauses: BTreeMap<Work, Duration>,
}

impl Queue {
    pub(super) fn push(&mut self, work: Work) {
        self.waiting.remove(&work);
        if self.is_ready.insert(work.clone()) {
            self.ready.push_back(work);
        }
    }

    pub(super) fn pop(&mut self, now: Instant) -> Option<Work> {
        let due: Vec<Work> =
            self.waiting.iter().filter(|(_, (at, _))| *at <= now).map(|(work, _)| work.clone()).collect();
        for work in due {
            self.push(work);
        }
        let work = self.ready.pop_front()?;
        self.is_ready.remove(&work);
        Some(work)
    }

    /// Whether something waits for nothing but its turn.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting.values().map(|(at, _)| *at).min()
    }

    pub(super) fn done(&mut self, work: &Work) {
        self.pauses.remove(work);
    }

    pub(super) fn failed(&mut self, work: Work, now: Instant) {
        let pause = self.pauses.get(&work).map_or(PAUSE_MIN, |last| (*last * 2).min(PAUSE_MAX));
        self.pauses.insert(work.clone(), pause);
        self.waiting.insert(work, (now + pause, pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_once_and_failures_pause_longer_each_time() {
        let mut queue = Queue::default();
        let start = Instant::now();
        queue.push(Work::Authority);
        queue.push(Work::Authority);
        assert_eq!(queue.pop(start), Some(Work::Authority));
        assert_eq!(queue.pop(start), None);
        queue.failed(Work::Authority, start);
        assert_eq!(queue.pop(start), None);
        assert_eq!(queue.next_due(), Some(start + PAUSE_MIN));
        assert_eq!(queue.pop(start + PAUSE_MIN), Some(Work::Authority));
        queue.failed(Work::Authority, start);
        assert_eq!(queue.next_due(), Some(start + PAUSE_MIN * 2));
    }
}
