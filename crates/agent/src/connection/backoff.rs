//! How long to wait before the next attempt.

use std::time::Duration;

/// Doubles the longest wait with each failure, and waits any part of it, so that agents do not come back all at once.
#[derive(Debug, Clone)]
pub(super) struct Backoff {
    first: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, failures: 0 }
    }

    /// A connection lasted: the next failure is the first again.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// The next wait; `share` is a random number from 0 to 1.
    pub(super) fn next(&mut self, share: f64) -> Duration {
        let longest = self.first.saturating_mul(2_u32.saturating_pow(self.failures)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        longest.mul_f64(if (0.0..=1.0).contains(&share) { share } else { 1.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_bound() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));
        let waits: Vec<u64> = (0..9).map(|_| backoff.next(1.0).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        for _ in 0..100 {
            assert_eq!(backoff.next(0.5), Duration::from_secs(30));
        }
        backoff.reset();
        assert_eq!((backoff.next(0.25), backoff.next(0.0)), (Duration::from_millis(250), Duration::ZERO));
        assert!(backoff.next(f64::NAN) <= Duration::from_mins(1));
    }
}
