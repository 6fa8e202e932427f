//! What the gateway counts, under upstream's names; labels are only what is bounded.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use thane_api::wire::sandbox::{StepFailure, StepRecord, step_failure};

/// Pools that have a label of their own; the rest share one, so that nobody fills the memory with names.
const POOLS_MAX: usize = 200;
const OTHER: &str = "other";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepOutcome {
    step_type: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepKind {
    step_type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Method {
    method: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolLabel {
    pool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolOutcome {
    pool: String,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    route: &'static str,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabel {
    route: &'static str,
}

/// Counts; clones share them.
#[derive(Debug, Clone)]
pub(super) struct Metrics {
    pub(super) active_sessions: Gauge,
    pub(super) connections: Gauge,
    pub(super) connections_full: Counter,
    requests: Family<Answered, Counter>,
    request_seconds: Family<RouteLabel, Histogram>,
    step_seconds: Family<StepKind, Histogram>,
    step_results: Family<StepOutcome, Counter>,
    call_seconds: Family<Method, Histogram>,
    restore_seconds: Histogram,
    restore_results: Family<Outcome, Counter>,
    allocation_seconds: Family<PoolLabel, Histogram>,
    allocation_results: Family<PoolOutcome, Counter>,
    pools: Arc<parking_lot::Mutex<std::collections::BTreeSet<String>>>,
}

fn quick() -> Histogram {
    Histogram::new([0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0])
}

fn slow() -> Histogram {
    Histogram::new([0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0])
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            active_sessions: Gauge::default(),
            connections: Gauge::default(),
            connections_full: Counter::default(),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(quick),
            step_seconds: Family::new_with_constructor(slow),
            step_results: Family::default(),
            call_seconds: Family::new_with_constructor(quick),
            restore_seconds: slow(),
            restore_results: Family::default(),
            allocation_seconds: Family::new_with_constructor(quick),
            allocation_results: Family::default(),
            pools: Arc::default(),
        }
    }
}

impl Metrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let gateway = registry.sub_registry_with_prefix("arl_gateway");
        gateway.register("active_sessions", "Sessions there are", self.active_sessions.clone());
        gateway.register("connections", "Open connections of clients", self.connections.clone());
        gateway.register("connections_full", "Times the bound on connections was hit", self.connections_full.clone());
        gateway.register("http_requests", "Requests answered, by route and status", self.requests.clone());
        gateway.register("http_request_seconds", "Until the head of an answer", self.request_seconds.clone());
        gateway.register("step_duration_seconds", "How long steps took", self.step_seconds.clone());
        gateway.register("step_result", "Steps by what became of them", self.step_results.clone());
        gateway.register(
            "sidecar_call_seconds",
            "Calls to sidecars, until their first answer",
            self.call_seconds.clone(),
        );
        gateway.register("restore_duration_seconds", "How long restores took", self.restore_seconds.clone());
        gateway.register("restore_result", "Restores by what became of them", self.restore_results.clone());
        gateway.register("pod_allocation_seconds", "How long claims took", self.allocation_seconds.clone());
        gateway.register("pod_allocation_result", "Claims by what became of them", self.allocation_results.clone());
    }

    pub(super) fn answered(&self, route: &'static str, code: u16, took: Duration) {
        self.requests.get_or_create(&Answered { route, code }).inc();
        self.request_seconds.get_or_create(&RouteLabel { route }).observe(took.as_secs_f64());
    }

    pub(super) fn called(&self, method: &'static str, took: Duration) {
        self.call_seconds.get_or_create(&Method { method }).observe(took.as_secs_f64());
    }

    pub(super) fn stepped(&self, record: &StepRecord) {
        let step_type = if record.background { "background" } else { "command" };
        let failure = record.failure.as_ref().map(StepFailure::kind);
        let result = match failure {
            None if record.exit_code == 0 => "success",
            None => "error",
            Some(step_failure::Kind::Timeout) => "timeout",
            Some(step_failure::Kind::Oom) => "oom",
            Some(step_failure::Kind::Infra) => "infra",
            Some(step_failure::Kind::User | step_failure::Kind::Unspecified) => "user",
        };
        self.step_results.get_or_create(&StepOutcome { step_type, result }).inc();
        let took = Duration::from_millis(u64::try_from(record.duration_ms).unwrap_or_default());
        self.step_seconds.get_or_create(&StepKind { step_type }).observe(took.as_secs_f64());
    }

    pub(super) fn step_lost(&self) {
        self.step_results.get_or_create(&StepOutcome { step_type: "command", result: "infra" }).inc();
    }

    pub(super) fn restored(&self, is_ok: bool, took: Duration) {
        let result = if is_ok { "success" } else { "error" };
        self.restore_results.get_or_create(&Outcome { result }).inc();
        self.restore_seconds.observe(took.as_secs_f64());
    }

    pub(super) fn allocated(&self, pool: &str, result: &'static str, took: Duration) {
        let pool = self.pool(pool, result);
        self.allocation_results.get_or_create(&PoolOutcome { pool: pool.clone(), result }).inc();
        if result == "success" {
            self.allocation_seconds.get_or_create(&PoolLabel { pool }).observe(took.as_secs_f64());
        }
    }

    fn pool(&self, pool: &str, result: &str) -> String {
        let mut pools = self.pools.lock();
        if pools.contains(pool) {
            return pool.to_owned();
        }
        // Only what has given a sandbox is known to be a pool.
        if result != "success" || pools.len() >= POOLS_MAX {
            return OTHER.to_owned();
        }
        pools.insert(pool.to_owned());
        pool.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pools_are_bounded() {
        let metrics = Metrics::default();
        metrics.allocated("made-up", "no_pool", Duration::ZERO);
        for number in 0..2 * POOLS_MAX {
            metrics.allocated(&format!("pool-{number}"), "success", Duration::ZERO);
        }
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let text = thane_runtime::metrics::encode(&registry).unwrap();
        assert!(!text.contains("made-up") && text.contains("pool=\"other\""), "{text}");
        assert_eq!(text.matches("arl_gateway_pod_allocation_result_total{").count(), POOLS_MAX + 2);
    }
}
