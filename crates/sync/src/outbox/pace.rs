//! How fast events may be sent.

use std::time::Duration;

use super::Rate;

/// A leaky bucket kept as one moment: when it will be empty.
#[derive(Debug)]
pub(super) struct Pace {
    /// Time between two events in the long run; zero without a limit.
    interval: Duration,
    /// How far ahead of an even pace the sender may be.
    lead: Duration,
    /// When the next event would go at an even pace.
    even: Duration,
}

impl Pace {
    pub(super) fn new(rate: Option<Rate>) -> Self {
        let interval = rate.map_or(Duration::ZERO, |rate| Duration::from_secs(1) / rate.per_second.max(1));
        let lead = rate.map_or(Duration::ZERO, |rate| interval.saturating_mul(rate.burst.max(1) - 1));
        Self { interval, lead, even: Duration::ZERO }
    }

    /// The time from which one more event may be sent.
    pub(super) fn free_at(&self) -> Duration {
        self.even.saturating_sub(self.lead)
    }

    pub(super) fn allows(&self, now: Duration) -> bool {
        self.free_at() <= now
    }

    /// Counts one event.
    pub(super) fn take(&mut self, now: Duration) {
        self.even = self.even.max(now).saturating_add(self.interval);
    }
}
