//! What the server counts of its requests.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// Verbs with a name of their own; a client may invent methods, and must not fill the memory with them.
const VERBS: &[&str] = &[
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "post",
    "put",
    "head",
    "options",
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    verb: &'static str,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Verb {
    verb: &'static str,
}

/// Requests by verb and answer.
#[derive(Debug)]
pub(crate) struct RequestMetrics {
    requests: Family<Outcome, Counter>,
    duration: Family<Verb, Histogram>,
    /// Streams to ports of pods for which there was no room.
    pub(crate) streams_refused: Counter,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.000_1, 2.0, 16))),
            streams_refused: Counter::default(),
        }
    }
}

impl RequestMetrics {
    /// Makes the counts visible.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("requests", "Requests answered, by verb and status code", self.requests.clone());
        registry.register_with_unit(
            "request_duration",
            "Time from request to answer; of a watch, to its first byte",
            Unit::Seconds,
            self.duration.clone(),
        );
        let help = "Streams to ports of pods for which there was no room";
        registry.register("port_streams_refused", help, self.streams_refused.clone());
    }

    /// Counts an answer.
    pub(crate) fn answered(&self, verb: &str, code: u16, took: Duration) {
        let verb = VERBS.iter().find(|known| **known == verb).copied().unwrap_or("other");
        self.requests.get_or_create(&Outcome { verb, code }).inc();
        self.duration.get_or_create(&Verb { verb }).observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invented_methods_share_a_name() {
        let metrics = RequestMetrics::default();
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        metrics.answered("list", 200, Duration::from_millis(1));
        metrics.answered("list", 200, Duration::from_millis(1));
        metrics.answered("brew", 405, Duration::ZERO);
        metrics.answered("steep", 405, Duration::ZERO);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"requests_total{verb="list",code="200"} 2"#,
            r#"requests_total{verb="other",code="405"} 2"#,
            r#"request_duration_seconds_count{verb="list"} 2"#,
        ] {
            assert!(text.contains(line), "{line} missing in\n{text}");
        }
    }
}
