//! How many requests and watches may run at once.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::failure::{Details, Failure, Result};

/// How many may run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests of one identity, watches aside.
    pub requests_per_identity: usize,
    /// Watches of all.
    pub watches: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { requests_per_identity: 400, watches: 10_000 }
    }
}

/// Counts what runs. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct InFlight {
    limits: Limits,
    counts: Arc<Mutex<Counts>>,
    metrics: Metrics,
}

#[derive(Debug, Default)]
struct Counts {
    /// Only identities with something running, so never more than there are requests.
    requests: HashMap<Arc<str>, usize>,
    watches: usize,
}

#[derive(Debug, Clone, Default)]
struct Metrics {
    requests: Gauge,
    watches: Gauge,
    rejected_requests: Counter,
    rejected_watches: Counter,
}

/// A place among the running; given back when dropped.
#[derive(Debug)]
#[must_use = "the place is given back when this is dropped"]
pub struct Place {
    of: InFlight,
    /// Whose request; none for a watch.
    identity: Option<Arc<str>>,
}

impl InFlight {
    /// With limits.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Makes the counts visible.
    pub fn register(&self, registry: &mut Registry) {
        let metrics = &self.metrics;
        registry.register("requests_in_flight", "Requests running, watches aside", metrics.requests.clone());
        registry.register("watches_in_flight", "Watches running", metrics.watches.clone());
        registry.register(
            "requests_rejected",
            "Requests refused because their identity had too many running",
            metrics.rejected_requests.clone(),
        );
        registry.register(
            "watches_rejected",
            "Watches refused because too many were running",
            metrics.rejected_watches.clone(),
        );
    }

    /// A place for a request of an identity (the user's name), or the 429 to answer.
    pub fn request(&self, identity: &str) -> Result<Place> {
        let identity: Arc<str> = identity.into();
        {
            let mut counts = self.counts.lock();
            let running = counts.requests.entry(identity.clone()).or_default();
            if *running >= self.limits.requests_per_identity {
                if *running == 0 {
                    counts.requests.remove(&identity);
                }
                self.metrics.rejected_requests.inc();
                return Err(too_many_requests());
            }
            *running += 1;
        }
        self.metrics.requests.inc();
        Ok(Place { of: self.clone(), identity: Some(identity) })
    }

    /// A place for a watch, or the 429 to answer.
    pub fn watch(&self) -> Result<Place> {
        {
            let mut counts = self.counts.lock();
            if counts.watches >= self.limits.watches {
                self.metrics.rejected_watches.inc();
                return Err(too_many_requests());
            }
            counts.watches += 1;
        }
        self.metrics.watches.inc();
        Ok(Place { of: self.clone(), identity: None })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.of.counts.lock();
        let Some(identity) = &self.identity else {
            counts.watches = counts.watches.saturating_sub(1);
            self.of.metrics.watches.dec();
            return;
        };
        if let Some(running) = counts.requests.get_mut(identity) {
            *running = running.saturating_sub(1);
            if *running == 0 {
                counts.requests.remove(identity);
            }
        }
        self.of.metrics.requests.dec();
    }
}

/// The 429, with `Retry-After`.
pub fn too_many_requests() -> Failure {
    let mut failure = Failure::new(429, "TooManyRequests", "Too many requests, please try again later.");
    failure.details = Some(Box::new(Details { retry_after_seconds: Some(1), ..Details::default() }));
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_identity_does_not_hinder_another() {
        let inflight = InFlight::new(Limits { requests_per_identity: 2, watches: 1 });
        let first = inflight.request("a").unwrap();
        let second = inflight.request("a").unwrap();
        assert_eq!(inflight.request("a").unwrap_err(), too_many_requests());
        let other = inflight.request("b").unwrap();
        drop(first);
        let third = inflight.request("a").unwrap();
        drop((second, third, other));
        assert!(inflight.counts.lock().requests.is_empty(), "identities at rest are forgotten");
        assert_eq!(inflight.metrics.requests.get(), 0);
        assert_eq!(inflight.metrics.rejected_requests.get(), 1);
    }

    #[test]
    fn watches_are_counted_apart() {
        let inflight = InFlight::new(Limits { requests_per_identity: 0, watches: 1 });
        let watch = inflight.watch().unwrap();
        assert!(inflight.watch().is_err());
        assert!(inflight.request("a").is_err());
        drop(watch);
        assert!(inflight.watch().is_ok());
        assert!(inflight.counts.lock().requests.is_empty());
    }

    #[test]
    fn refusal_tells_when_to_come_back() {
        let status = too_many_requests().to_status();
        assert_eq!(status["code"], 429);
        assert_eq!(status["reason"], "TooManyRequests");
        assert_eq!(status["details"]["retryAfterSeconds"], 1);
    }
}
