//! The only source of time, so that a simulation can drive it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;

/// A source of wall-clock and monotonic time.
pub trait Clock: Send + Sync {
    /// The wall-clock time, which may jump.
    fn now(&self) -> Timestamp;
    /// Time since an arbitrary start, which never goes back.
    fn monotonic(&self) -> Duration;
}

/// A clock that parts of a process share.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clock.
#[derive(Debug, Clone)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A system clock whose monotonic time starts at zero now.
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }

    /// A system clock ready to be shared.
    pub fn shared() -> SharedClock {
        Arc::new(Self::new())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the seam everyone else reads time through")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}

/// A clock that stands still until told otherwise.
#[derive(Debug, Clone)]
pub struct ManualClock {
    state: Arc<Mutex<Reading>>,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    now: Timestamp,
    monotonic: Duration,
}

impl ManualClock {
    /// A clock that shows `now`.
    pub fn new(now: Timestamp) -> Self {
        Self { state: Arc::new(Mutex::new(Reading { now, monotonic: Duration::ZERO })) }
    }

    /// Moves wall-clock and monotonic time forward together; stops at the end of representable time.
    pub fn advance(&self, by: Duration) {
        let mut state = self.state.lock();
        state.monotonic = state.monotonic.saturating_add(by);
        state.now = state.now.saturating_add(by).unwrap_or(Timestamp::MAX);
    }

    /// Sets the wall clock alone, as an administrator or NTP would.
    pub fn jump_to(&self, now: Timestamp) {
        self.state.lock().now = now;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.state.lock().now
    }

    fn monotonic(&self) -> Duration {
        self.state.lock().monotonic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_clock_moves_only_when_told() {
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
        let shared: SharedClock = Arc::new(clock.clone());
        assert_eq!((shared.now(), shared.monotonic()), (Timestamp::UNIX_EPOCH, Duration::ZERO));
        clock.advance(Duration::from_secs(90));
        assert_eq!(shared.now().as_second(), 90);
        clock.jump_to(Timestamp::UNIX_EPOCH);
        assert_eq!((shared.now().as_second(), shared.monotonic().as_secs()), (0, 90));
        clock.advance(Duration::MAX);
        assert_eq!(shared.now(), Timestamp::MAX);
    }

    #[test]
    fn system_clock_does_not_go_back() {
        let clock = SystemClock::new();
        let first = clock.monotonic();
        assert!(clock.monotonic() >= first);
        assert!(clock.now() > Timestamp::UNIX_EPOCH);
    }
}
