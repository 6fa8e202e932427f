//! What hub and agent are told alike about one connection.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thane_runtime::config::units::Span;
use thane_sync::link;
use thane_sync::outbox::Rate;

/// Bounds and intervals of one connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct LinkSettings {
    /// Events that may wait for the peer: one per object of a large agent. Beyond that a resync makes up for it.
    pub(crate) queue_max: usize,
    /// Events in flight at once: what fits into a round trip.
    pub(crate) window: usize,
    /// Wait for an acknowledgement before an event is sent again; it grows fourfold each time.
    pub(crate) retry_first: Span,
    /// The longest of these waits.
    pub(crate) retry_max: Span,
    /// Events that came and may wait; then the stream is not read.
    pub(crate) incoming_max: usize,
    /// Resources worked on at once.
    pub(crate) concurrency: usize,
    /// How long events are kept for a peer that is away.
    pub(crate) hold_time: Span,
    /// How often both sides compare what they have; 0s for only when they connect.
    pub(crate) resync_interval: Span,
    /// Share of objects that differ, in percent, from which everything is sent again.
    pub(crate) drift_percent: u8,
    /// Events per second that may be sent; 0 for no limit.
    pub(crate) rate_per_second: u32,
    /// Events that may be sent at once after a pause, where the rate is limited.
    pub(crate) rate_burst: u32,
}

impl Default for LinkSettings {
    fn default() -> Self {
        let link::Options { outbox, inbox, hold, compare_every, drift_percent } = link::Options::default();
        Self {
            queue_max: outbox.queue_max,
            window: outbox.window,
            retry_first: Span(outbox.retry_first),
            retry_max: Span(outbox.retry_max),
            incoming_max: inbox.queue_max,
            concurrency: inbox.concurrency,
            hold_time: Span(hold),
            resync_interval: Span(compare_every.unwrap_or_default()),
            drift_percent,
            rate_per_second: 0,
            rate_burst: 100,
        }
    }
}

impl LinkSettings {
    /// As the protocol takes them.
    pub(crate) fn options(&self) -> link::Options {
        let mut options = link::Options {
            hold: self.hold_time.0,
            compare_every: unless_zero(self.resync_interval),
            drift_percent: self.drift_percent.min(100),
            ..link::Options::default()
        };
        options.outbox.queue_max = self.queue_max.max(1);
        options.outbox.window = self.window.max(1);
        options.outbox.retry_first = self.retry_first.0;
        options.outbox.retry_max = self.retry_max.0.max(self.retry_first.0);
        options.outbox.rate = (self.rate_per_second > 0)
            .then(|| Rate { per_second: self.rate_per_second, burst: self.rate_burst.max(1) });
        options.inbox.queue_max = self.incoming_max.max(1);
        options.inbox.concurrency = self.concurrency.max(1);
        options
    }
}

/// An interval, none when it is zero.
pub(crate) fn unless_zero(span: Span) -> Option<Duration> {
    (!span.0.is_zero()).then_some(span.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_means_none_and_bounds_are_never_zero() {
        let zero = Span(Duration::ZERO);
        let settings = LinkSettings { queue_max: 0, window: 0, resync_interval: zero, ..LinkSettings::default() };
        let options = settings.options();
        assert_eq!((options.outbox.queue_max, options.outbox.window, options.compare_every), (1, 1, None));
        assert!(options.outbox.rate.is_none());
        let limited = LinkSettings { rate_per_second: 5, rate_burst: 0, ..settings };
        assert_eq!(limited.options().outbox.rate, Some(Rate { per_second: 5, burst: 1 }));
    }
}
