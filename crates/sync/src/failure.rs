//! What to do about a write that failed.

use std::fmt;
use std::time::Duration;

use crate::jitter;

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The same write may succeed soon.
    Temporary,
    /// The same write fails until someone changes something.
    Permanent,
    /// What the write was based on is gone: it may succeed after looking again.
    Recoverable,
}

/// The status of no answer at all: unreachable, reset, timed out.
pub const NO_ANSWER: u16 = 0;

impl Class {
    /// The class of an answer of a Kubernetes API: its HTTP status, and `reason` and `message` of its Status.
    pub fn of_status(code: u16, reason: &str, message: &str) -> Self {
        match reason {
            "Conflict" | "AlreadyExists" | "TooManyRequests" | "ServerTimeout" | "Timeout" | "InternalError"
            | "ServiceUnavailable" => return Self::Temporary,
            "Gone" | "Expired" => return Self::Recoverable,
            "Forbidden" if says(message, &PASSING_REFUSALS) => return Self::Temporary,
            _ => {}
        }
        match code {
            404 if says(message, &UNKNOWN_KIND) => Self::Permanent,
            404 | 410 => Self::Recoverable,
            408 | 409 | 425 | 429 => Self::Temporary,
            400..=499 => Self::Permanent,
            // No answer, a server's trouble, or something in between that no API server says: it passes.
            _ => Self::Temporary,
        }
    }

    /// Its name in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Temporary => "temporary",
            Self::Permanent => "permanent",
            Self::Recoverable => "recoverable",
        }
    }

    /// First and longest wait before such a write is tried again.
    fn waits(self) -> (Duration, Duration) {
        match self {
            Self::Temporary | Self::Recoverable => (Duration::from_millis(100), Duration::from_secs(10)),
            Self::Permanent => (Duration::from_secs(30), Duration::from_mins(10)),
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Refusals that are about the moment and not about who asks: quotas fill and empty, namespaces go and come back.
const PASSING_REFUSALS: [&str; 3] = ["exceeded quota", "status unknown for quota", "because it is being terminated"];
/// What a server says that lacks the kind, and not just the object.
const UNKNOWN_KIND: [&str; 2] = ["could not find the requested resource", "404 page not found"];

fn says(message: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| message.contains(phrase))
}

/// How much longer each wait is than the one before.
const FACTOR: u32 = 2;

/// Growing waits between attempts of one write; they start anew when the class of failure changes.
#[derive(Debug, Clone)]
pub struct Backoff {
    seed: u64,
    failed: Option<(Class, u32)>,
}

impl Backoff {
    /// None failed so far; whoever has another seed waits for other times.
    pub fn new(seed: u64) -> Self {
        Self { seed, failed: None }
    }

    /// How long to wait after one more failure of this class.
    pub fn next(&mut self, class: Class) -> Duration {
        let attempt = match self.failed {
            Some((last, attempt)) if last == class => attempt.saturating_add(1),
            _ => 0,
        };
        self.failed = Some((class, attempt));
        let (first, max) = class.waits();
        jitter::wait(first, FACTOR, max, attempt, &self.seed.to_le_bytes())
    }

    /// The write succeeded.
    pub fn reset(&mut self) {
        self.failed = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_classified() {
        use Class::{Permanent, Recoverable, Temporary};
        let quota = "pods \"a\" is forbidden: exceeded quota: small, requested: pods=1";
        let ending = "unable to create new content in namespace a because it is being terminated";
        let no_kind = "the server could not find the requested resource";
        for (code, reason, message, expected) in [
            (NO_ANSWER, "", "connection refused", Temporary),
            (400, "BadRequest", "", Permanent),
            (400, "Timeout", "", Temporary),
            (401, "Unauthorized", "", Permanent),
            (403, "Forbidden", "cannot create resource", Permanent),
            (403, "Forbidden", quota, Temporary),
            (403, "Forbidden", ending, Temporary),
            (404, "NotFound", "applications.argoproj.io \"a\" not found", Recoverable),
            (404, "NotFound", no_kind, Permanent),
            (404, "", "404 page not found", Permanent),
            (405, "MethodNotAllowed", "", Permanent),
            (408, "", "", Temporary),
            (409, "Conflict", "", Temporary),
            (409, "AlreadyExists", "", Temporary),
            (410, "Gone", "", Recoverable),
            (410, "Expired", "", Recoverable),
            (413, "RequestEntityTooLarge", "", Permanent),
            (415, "UnsupportedMediaType", "", Permanent),
            (422, "Invalid", "spec.project: Required value", Permanent),
            (429, "TooManyRequests", "", Temporary),
            (500, "InternalError", "failed calling webhook", Temporary),
            (502, "", "bad gateway", Temporary),
            (503, "ServiceUnavailable", "", Temporary),
            (504, "ServerTimeout", "", Temporary),
            (999, "", "", Temporary),
        ] {
            assert_eq!(Class::of_status(code, reason, message), expected, "{code} {reason} {message}");
        }
    }

    #[test]
    fn waits_grow_to_the_bound_of_their_class_and_start_anew() {
        for (class, first, max) in [
            (Class::Temporary, Duration::from_millis(100), Duration::from_secs(10)),
            (Class::Recoverable, Duration::from_millis(100), Duration::from_secs(10)),
            (Class::Permanent, Duration::from_secs(30), Duration::from_mins(10)),
        ] {
            for seed in 0..50 {
                let mut backoff = Backoff::new(seed);
                let mut full = first;
                for _ in 0..100 {
                    let wait = backoff.next(class);
                    assert!(wait * 10 > full * 7 && wait <= full, "{class} {full:?} {wait:?}");
                    full = (full * 2).min(max);
                }
                backoff.reset();
                assert!(backoff.next(class) <= first);
            }
        }
        let mut changing = Backoff::new(1);
        for _ in 0..20 {
            changing.next(Class::Temporary);
        }
        assert!(changing.next(Class::Permanent) <= Duration::from_secs(30), "another class starts at its first wait");
    }

    #[test]
    fn seeds_spread_the_waits() {
        let waits: std::collections::BTreeSet<Duration> =
            (0..100).map(|seed| Backoff::new(seed).next(Class::Temporary)).collect();
        assert!(waits.len() > 80, "{}", waits.len());
        assert_eq!(Backoff::new(7).next(Class::Temporary), Backoff::new(7).next(Class::Temporary));
    }
}
