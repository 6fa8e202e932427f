//! Decides how far history may be dropped.

use std::collections::VecDeque;
use std::time::Duration;

use crate::options::HistoryLimits;
use crate::store::Revision;

/// Marks per bound: compaction advances in steps of about one such part.
const PARTS: u32 = 32;

/// A point in the history with when it was reached and how much log there had been by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) time: Duration,
    pub(crate) revision: Revision,
    pub(crate) log_bytes: u64,
}

/// Coarse marks along the history, enough to tell which part of it is beyond a bound.
#[derive(Debug)]
pub(crate) struct History {
    limits: HistoryLimits,
    marks: VecDeque<Mark>,
}

impl History {
    pub(crate) fn new(limits: HistoryLimits) -> Self {
        Self { limits, marks: VecDeque::new() }
    }

    /// Notes how far the history has come; keeps it only when it is far enough from the mark before.
    pub(crate) fn note(&mut self, mark: Mark) {
        let far = self.marks.back().is_none_or(|last| {
            mark.time.saturating_sub(last.time) >= self.limits.age / PARTS
                || mark.revision.saturating_sub(last.revision) >= (self.limits.revisions / u64::from(PARTS)).max(1)
                || mark.log_bytes.saturating_sub(last.log_bytes) >= (self.limits.bytes / u64::from(PARTS)).max(1)
        });
        if far && self.marks.back().is_none_or(|last| last.revision < mark.revision) {
            self.marks.push_back(mark);
        }
    }

    /// The newest revision that is beyond a bound; forgets the marks up to it.
    pub(crate) fn overdue(&mut self, present: Mark) -> Option<Revision> {
        let mut overdue = None;
        while let Some(first) = self.marks.front() {
            let beyond = present.time.saturating_sub(first.time) >= self.limits.age
                || present.revision.saturating_sub(first.revision) >= self.limits.revisions
                || present.log_bytes.saturating_sub(first.log_bytes) >= self.limits.bytes;
            if !beyond {
                break;
            }
            overdue = Some(first.revision);
            self.marks.pop_front();
        }
        overdue
    }

    /// Forgets marks that an explicit compaction made pointless.
    pub(crate) fn compacted(&mut self, revision: Revision) {
        while self.marks.front().is_some_and(|first| first.revision <= revision) {
            self.marks.pop_front();
        }
    }

    /// When the oldest mark becomes too old.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.marks.front().map(|first| first.time.saturating_add(self.limits.age))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> History {
        History::new(HistoryLimits { age: Duration::from_secs(320), revisions: 320, bytes: 3200 })
    }

    fn mark(seconds: u64, revision: u64, log_bytes: u64) -> Mark {
        Mark { time: Duration::from_secs(seconds), revision, log_bytes }
    }

    #[test]
    fn each_bound_alone_makes_history_overdue() {
        let check = |present: Mark, expected: Option<Revision>| {
            let mut history = history();
            for step in 1..=10 {
                history.note(mark(step * 10, step * 10, step * 100));
            }
            assert_eq!(history.overdue(present), expected, "{present:?}");
        };
        check(mark(329, 100, 1000), None);
        check(mark(330, 100, 1000), Some(10));
        check(mark(345, 100, 1000), Some(20));
        check(mark(9999, 100, 1000), Some(100));
        check(mark(100, 349, 1000), Some(20));
        check(mark(100, 100, 3300), Some(10));
    }

    #[test]
    fn marks_stay_few() {
        let mut history = history();
        for step in 0..100_000 {
            history.note(mark(step / 1000, step, step));
            history.overdue(mark(step / 1000, step, step));
        }
        assert!(history.marks.len() <= 3 * 33, "{}", history.marks.len());
    }

    #[test]
    fn explicit_compaction_forgets_marks() {
        let mut history = history();
        history.note(mark(1, 10, 0));
        history.note(mark(20, 40, 0));
        assert_eq!(history.next_deadline(), Some(Duration::from_secs(321)));
        history.compacted(39);
        assert_eq!(history.next_deadline(), Some(Duration::from_secs(340)));
        history.compacted(40);
        assert_eq!(history.next_deadline(), None);
    }
}
