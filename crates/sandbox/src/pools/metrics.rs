//! Counts of pools, under upstream's names.

use std::sync::Arc;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::decide::Why;
use crate::claims::PoolAt;

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
    pub(super) ready_seconds: Arc<Histogram>,
}

impl Metrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            utilization: Family::default(),
            pending: Family::default(),
            deleted: Family::default(),
            created: Counter::default(),
            refused: Counter::default(),
            ready_seconds: Arc::new(Histogram::new(exponential_buckets(0.01, 2.5, 12))),
        };
        let help = "Pods of a pool that are idle and ready, or claimed";
        registry.register("arl_pool_utilization", help, metrics.utilization.clone());
        registry.register("arl_warmpool_pending_pods", "Idle pods that are not ready yet", metrics.pending.clone());
        registry.register("arl_warmpool_pod_delete", "Pods deleted by pools", metrics.deleted.clone());
        registry.register("arl_warmpool_pod_create", "Pods made for pools", metrics.created.clone());
        registry.register("arl_warmpool_pod_refused", "Pods that the API would not have", metrics.refused.clone());
        let help = "From a pod's creation to its readiness";
        registry.register("arl_warmpool_pod_ready_seconds", help, (*metrics.ready_seconds).clone());
        metrics
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
        self.pending.remove(&pool(at));
    }

    pub(super) fn deleted(&self, why: Why) {
        self.deleted.get_or_create(&Deletion { reason: why }).inc();
    }
}

fn usage(at: &PoolAt, status: &'static str) -> Use {
    Use { namespace: at.namespace.clone(), pool: at.name.clone(), status }
}

fn pool(at: &PoolAt) -> Pool {
    Pool { namespace: at.namespace.clone(), pool: at.name.clone() }
}
