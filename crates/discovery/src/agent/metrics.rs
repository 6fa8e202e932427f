//! What an agent counts, under the names the design record gives.

use std::fmt;
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::core::Core;
use super::followed::Sort;
use crate::model::Status;

/// What an agent counts.
#[derive(Debug, Clone)]
pub(super) struct Metrics {
    pub(super) errors: Counter,
    pub(super) pushed: Counter,
    batches: Counter,
    batch_size: Histogram,
    durations: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            errors: Counter::default(),
            pushed: Counter::default(),
            batches: Counter::default(),
            batch_size: Histogram::new([1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0, 10_000.0]),
            durations: Histogram::new(exponential_buckets(0.001, 3.0, 9)),
        }
    }
}

impl Metrics {
    pub(super) fn batch(&self, items: usize, took: Duration) {
        self.batches.inc();
        self.batch_size.observe(f64::from(u32::try_from(items).unwrap_or(u32::MAX)));
        self.durations.observe(took.as_secs_f64());
    }

    pub(super) fn register(&self, core: Weak<Core>, registry: &mut Registry) {
        registry.register("konsul_agent_sync_errors", "Connections and batches that failed", self.errors.clone());
        registry.register("konsul_agent_batches", "Batches sent to the hub", self.batches.clone());
        registry.register("konsul_agent_batch_size", "Items of a batch", self.batch_size.clone());
        registry.register(
            "konsul_agent_sync_duration_seconds",
            "Time until a batch was answered",
            self.durations.clone(),
        );
        registry.register("konsul_agent_pushed_deltas", "Changes of topics the hub pushed", self.pushed.clone());
        registry.register_collector(Box::new(Levels(core)));
    }
}

/// What is read at the moment somebody asks.
struct Levels(Weak<Core>);

impl fmt::Debug for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Levels")
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share needs no more than the first fifteen digits")]
fn share(part: u64, rest: u64) -> f64 {
    if part + rest == 0 { 0.0 } else { part as f64 / (part + rest) as f64 }
}

impl Collector for Levels {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(core) = self.0.upgrade() else { return Ok(()) };
        let followed = &core.followed;
        let ratio = share(followed.hits.load(Ordering::Relaxed), followed.misses.load(Ordering::Relaxed));
        let help = "Reads answered from what was here, of all";
        let metric = encoder.encode_descriptor("konsul_agent_cache_hit_ratio", help, None, MetricType::Gauge)?;
        ConstGauge::new(ratio).encode(metric)?;
        let help = "How long ago the hub was last there";
        let metric = encoder.encode_descriptor("konsul_agent_cache_age_seconds", help, None, MetricType::Gauge)?;
        ConstGauge::new(followed.silence().as_secs_f64()).encode(metric)?;
        let mut entries =
            encoder.encode_descriptor("konsul_agent_cache_entries", "Topics held", None, MetricType::Gauge)?;
        for sort in [Sort::Service, Sort::Kv, Sort::Health] {
            let count = i64::try_from(followed.count(sort)).unwrap_or(i64::MAX);
            ConstGauge::new(count).encode(entries.encode_family(&[("type", sort.as_str())])?)?;
        }
        let help = "About how many bytes the topics held take";
        let metric = encoder.encode_descriptor("konsul_agent_cache_bytes", help, None, MetricType::Gauge)?;
        ConstGauge::new(i64::try_from(followed.bytes.load(Ordering::Relaxed)).unwrap_or(i64::MAX)).encode(metric)?;
        let help = "Topics held folded: those read least recently, once many are open";
        let metric = encoder.encode_descriptor("konsul_agent_cache_folded", help, None, MetricType::Gauge)?;
        ConstGauge::new(i64::try_from(followed.folded()).unwrap_or(i64::MAX)).encode(metric)?;
        let (services, counts) = core.ledger().with(|state| {
            let of = |status| state.checks().values().filter(|kept| kept.check.status == status).count();
            let counts = [Status::Passing, Status::Warning, Status::Critical].map(|status| (status, of(status)));
            (state.services().len(), counts)
        });
        let help = "Instances registered with this agent";
        let metric = encoder.encode_descriptor("konsul_agent_local_services_total", help, None, MetricType::Gauge)?;
        ConstGauge::new(i64::try_from(services).unwrap_or(i64::MAX)).encode(metric)?;
        let help = "Checks of this agent by how they stand";
        let mut checks =
            encoder.encode_descriptor("konsul_agent_health_checks_total", help, None, MetricType::Gauge)?;
        for (status, count) in counts {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            ConstGauge::new(count).encode(checks.encode_family(&[("status", status.as_str())])?)?;
        }
        Ok(())
    }
}
