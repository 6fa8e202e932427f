//! What is said of a peer that errs all the time.

use std::time::Duration;

use jiff::Timestamp;

/// What a peer does wrong again and again is said once in a while; everything is counted.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    said: Option<Timestamp>,
    unsaid: u64,
}

/// Time between two lines about one peer.
const SAID_AGAIN: Duration = Duration::from_secs(10);

impl Refusals {
    /// Whether the next one is worth a line, and how many before it were not.
    pub(super) fn next(&mut self, now: Timestamp) -> Option<u64> {
        let recent = |said: Timestamp| now.duration_since(said).unsigned_abs() < SAID_AGAIN;
        if self.said.is_some_and(recent) {
            self.unsaid += 1;
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}
