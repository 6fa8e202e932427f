//! Counts of pools, under upstream's names.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::decide::Why;
use crate::claims::PoolAt;
use crate::pods;
use crate::reconciled::Reconciliations;

/// A pool; its numbers go when it does.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Pool {
    namespace: String,
    pool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Use {
    namespace: String,
    pool: String,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Deletion {
    reason: Why,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PullError {
    reason: &'static str,
}

/// Times of pools.
type Times = Family<Pool, Histogram, fn() -> Histogram>;

impl EncodeLabelValue for Why {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        let word = match self {
            Self::Failed => "failed",
            Self::Excess => "excess",
            Self::Outdated => "outdated",
        };
        EncodeLabelValue::encode(&word, encoder)
    }
}

/// What is counted.
#[derive(Clone)]
pub(crate) struct Metrics {
    utilization: Family<Use, Gauge>,
    pending: Family<Pool, Gauge>,
    deleted: Family<Deletion, Counter>,
    pub(super) created: Counter,
    pub(super) refused: Counter,
    ready_seconds: Times,
    schedule_seconds: Times,
    start_seconds: Times,
    first_ready_seconds: Times,
    all_ready_seconds: Times,
    pull_errors: Family<PullError, Counter>,
    reconciled: Reconciliations,
}

impl Metrics {
    pub(crate) fn new(registry: &mut Registry, reconciled: Reconciliations) -> Self {
        let metrics = Self {
            utilization: Family::default(),
            pending: Family::default(),
            deleted: Family::default(),
            created: Counter::default(),
            refused: Counter::default(),
            ready_seconds: Family::new_with_constructor(seconds),
            schedule_seconds: Family::new_with_constructor(seconds),
            start_seconds: Family::new_with_constructor(seconds),
            first_ready_seconds: Family::new_with_constructor(seconds),
            all_ready_seconds: Family::new_with_constructor(seconds),
            pull_errors: Family::default(),
            reconciled,
        };
        let help = "Pods of a pool that are idle and ready, or claimed";
        registry.register("arl_pool_utilization", help, metrics.utilization.clone());
        registry.register("arl_warmpool_pending_pods", "Idle pods that are not ready yet", metrics.pending.clone());
        registry.register("arl_warmpool_pod_delete", "Pods deleted by pools", metrics.deleted.clone());
        registry.register("arl_warmpool_pod_create", "Pods made for pools", metrics.created.clone());
        registry.register("arl_warmpool_pod_refused", "Pods that the API would not have", metrics.refused.clone());
        for (name, help, times) in [
            ("pod_ready", "From a pod's creation to its readiness", &metrics.ready_seconds),
            ("pod_schedule", "From a pod's creation to its node", &metrics.schedule_seconds),
            ("container_start", "From a pod's creation to the start of what steps run in", &metrics.start_seconds),
            ("first_pod_ready", "From a pool's creation to its first ready pod", &metrics.first_ready_seconds),
            ("all_pods_ready", "From a pool's creation to all of them", &metrics.all_ready_seconds),
        ] {
            registry.register(format!("arl_warmpool_{name}_seconds"), help, times.clone());
        }
        let help = "Pods whose image cannot be had";
        registry.register("arl_warmpool_image_pull_errors", help, metrics.pull_errors.clone());
        metrics
    }

    /// Counts a pod that is ready for the first time, by the times that it tells.
    pub(super) fn ready(&self, at: &PoolAt, pod: &Pod, now: Timestamp) {
        let Some(created) = pod.metadata.creation_timestamp.as_ref().map(|created| created.0) else { return };
        let since = |at: Timestamp| at.duration_since(created).as_secs_f64().max(0.0);
        let of = pool(at);
        self.ready_seconds.get_or_create(&of).observe(since(now));
        let status = pod.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let scheduled = conditions.iter().find(|condition| condition.type_ == "PodScheduled");
        if let Some(at) = scheduled.and_then(|scheduled| scheduled.last_transition_time.as_ref()) {
            self.schedule_seconds.get_or_create(&of).observe(since(at.0));
        }
        let own = pods::container(pod).map(|container| container.name.as_str());
        let containers = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
        let container = containers.iter().find(|container| Some(container.name.as_str()) == own);
        let running = container.and_then(|container| container.state.as_ref()?.running.as_ref());
        if let Some(at) = running.and_then(|running| running.started_at.as_ref()) {
            self.start_seconds.get_or_create(&of).observe(since(at.0));
        }
    }

    /// Counts how long a new pool took to have its first pod, or all of them.
    pub(super) fn filled(&self, at: &PoolAt, took: f64, is_all: bool) {
        let times = if is_all { &self.all_ready_seconds } else { &self.first_ready_seconds };
        times.get_or_create(&pool(at)).observe(took.max(0.0));
    }

    /// Counts a pod whose image cannot be had.
    pub(super) fn pull_error(&self, reason: &'static str) {
        self.pull_errors.get_or_create(&PullError { reason }).inc();
    }

    /// Counts something that was done, or not.
    pub(super) fn reconciled(&self, is_done: bool) {
        self.reconciled.count("warmpool", is_done);
    }

    pub(super) fn show(&self, at: &PoolAt, ready: i32, allocated: i32, pending: usize) {
        for (status, count) in [("ready", ready), ("allocated", allocated)] {
            self.utilization.get_or_create(&usage(at, status)).set(i64::from(count));
        }
        self.pending.get_or_create(&pool(at)).set(i64::try_from(pending).unwrap_or(i64::MAX));
    }

    pub(super) fn forget(&self, at: &PoolAt) {
        for status in ["ready", "allocated"] {
            self.utilization.remove(&usage(at, status));
        }
        let of = pool(at);
        self.pending.remove(&of);
        let times = [&self.ready_seconds, &self.schedule_seconds, &self.start_seconds];
        for times in times.into_iter().chain([&self.first_ready_seconds, &self.all_ready_seconds]) {
            times.remove(&of);
        }
    }

    pub(super) fn deleted(&self, why: Why) {
        self.deleted.get_or_create(&Deletion { reason: why }).inc();
    }
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.01, 2.5, 12))
}

fn usage(at: &PoolAt, status: &'static str) -> Use {
    Use { namespace: at.namespace.clone(), pool: at.name.clone(), status }
}

fn pool(at: &PoolAt) -> Pool {
    Pool { namespace: at.namespace.clone(), pool: at.name.clone() }
}
