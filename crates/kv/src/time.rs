//! Where the store's sense of time comes from.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A clock that never goes back. Leases and the age of history are measured with it.
pub trait Time: Send + Sync + 'static {
    /// Time passed since some fixed moment.
    fn now(&self) -> Duration;
}

/// The machine's monotonic clock.
#[derive(Debug)]
pub struct SystemTime(Instant);

impl SystemTime {
    /// A clock that starts at zero now.
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Default for SystemTime {
    fn default() -> Self {
        Self::new()
    }
}

impl Time for SystemTime {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A clock that stands still until it is told to move, for simulation and tests.
#[derive(Debug, Default)]
pub struct ManualTime(AtomicU64);

impl ManualTime {
    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanos, Ordering::SeqCst);
    }
}

impl Time for ManualTime {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }
}
