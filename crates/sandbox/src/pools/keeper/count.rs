//! What pods and new pools are counted for, once each.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::Kept;
use crate::claims::PoolAt;
use crate::kinds::WarmPool;
use crate::pods;
use crate::pools::metrics::Metrics;

/// How far a new pool has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beginning {
    Empty,
    Begun,
}

/// Pods that are ready for the first time, and what is no longer there forgotten.
pub(super) fn count_ready(kept: &mut Kept, pods: &[&Pod], metrics: &Metrics, now: Timestamp) {
    let there: BTreeSet<&str> = pods.iter().map(|pod| pods::uid(*pod)).collect();
    kept.deleting.retain(|uid| there.contains(uid.as_str()));
    kept.seen_ready.retain(|uid| there.contains(uid.as_str()));
    kept.seen_unpulled.retain(|uid| there.contains(uid.as_str()));
    for pod in pods.iter().filter(|pod| pods::is_idle(pod)) {
        if pods::is_ready(pod)
            && kept.seen_ready.insert(pods::uid(*pod).to_owned())
            && let Some(at) = pods::pool_of(pod)
        {
            metrics.ready(&at, pod, now);
        }
        if let Some(reason) = pods::pull_error(pod)
            && kept.seen_unpulled.insert(pods::uid(*pod).to_owned())
        {
            metrics.pull_error(reason);
        }
    }
}

/// The first ready pod of a new pool, and the last.
pub(super) fn count_beginning(kept: &mut Kept, pool: &WarmPool, metrics: &Metrics, now: Timestamp) {
    let (Some(beginning), Some(created)) = (kept.beginning, &pool.metadata.creation_timestamp) else { return };
    let took = now.duration_since(created.0).as_secs_f64();
    let ready = i32::try_from(kept.seen_ready.len()).unwrap_or(i32::MAX);
    if beginning == Beginning::Empty && ready > 0 {
        metrics.filled(&PoolAt::of(pool), took, false);
        kept.beginning = Some(Beginning::Begun);
    }
    if ready > 0 && ready >= pool.spec.replicas {
        metrics.filled(&PoolAt::of(pool), took, true);
        kept.beginning = None;
    }
}
