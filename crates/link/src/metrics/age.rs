//! How old what waits is at the moment somebody asks: while a peer is away nothing happens that would say it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::time::Instant;

/// Since when the oldest event of one outbox waits, if any does.
#[derive(Debug, Clone, Default)]
pub(super) struct Since(Arc<Mutex<Option<Instant>>>);

impl Since {
    /// The oldest has waited for so long now.
    pub(super) fn set(&self, oldest: Option<Duration>) {
        *self.0.lock() = oldest.and_then(|age| Instant::now().checked_sub(age));
    }

    fn age(&self) -> f64 {
        self.0.lock().map_or(0.0, |since| since.elapsed().as_secs_f64())
    }
}

/// All of them, by peer.
#[derive(Debug, Clone, Default)]
pub(super) struct Ages(Arc<Mutex<BTreeMap<Arc<str>, Since>>>);

impl Ages {
    pub(super) fn of(&self, peer: &Arc<str>) -> Since {
        self.0.lock().entry(Arc::clone(peer)).or_default().clone()
    }

    pub(super) fn forget(&self, peer: &str) {
        self.0.lock().remove(peer);
    }
}

impl Collector for Ages {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Age of the oldest of them";
        let mut metric = encoder.encode_descriptor("outbox_oldest_seconds", help, None, MetricType::Gauge)?;
        for (peer, since) in self.0.lock().iter() {
            ConstGauge::new(since.age()).encode(metric.encode_family(&[("peer", &**peer)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_waits_grows_older_while_nothing_happens() {
        let ages = Ages::default();
        let mut registry = Registry::default();
        registry.sub_registry_with_prefix("thane_fleet").register_collector(Box::new(ages.clone()));
        let shown = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).expect("writing to a string cannot fail");
            text
        };
        let since = ages.of(&"edge".into());
        since.set(Some(Duration::ZERO));
        tokio::time::advance(Duration::from_mins(1)).await;
        let text = shown();
        assert!(text.contains("thane_fleet_outbox_oldest_seconds{peer=\"edge\"} 60."), "{text}");
        since.set(None);
        assert!(shown().contains("{peer=\"edge\"} 0."), "nothing waits");
        ages.forget("edge");
        assert!(!shown().contains("edge"));
    }
}
