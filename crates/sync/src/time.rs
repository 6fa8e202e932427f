//! The time a step happens at, given by whoever runs it.

use std::time::Duration;

use jiff::Timestamp;

/// One moment, on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Time since an arbitrary start, which never goes back: for waits and ages.
    pub monotonic: Duration,
    /// The wall clock, which may jump: for stamps that others read, never for decisions.
    pub wall: Timestamp,
}
