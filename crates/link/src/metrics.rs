//! What is counted about connections, and which of it is worth a line in the log.

mod upstream;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use thane_api::event::{DecodeError, Event, Mode, Target, Type};
use thane_sync::failure::Class;
use thane_sync::link::Note;

use upstream::Upstream;

/// Which side counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The hub, which argocd-agent calls the principal.
    Principal,
    /// An agent, in its mode.
    Agent(Mode),
}

impl Role {
    fn as_str(self) -> &'static str {
        match self {
            Self::Principal => "principal",
            Self::Agent(_) => "agent",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PeerLabel {
    peer: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabels {
    peer: Arc<str>,
    target: String,
    r#type: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    peer: Arc<str>,
    target: String,
    r#type: String,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClassLabels {
    peer: Arc<str>,
    class: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    peer: Arc<str>,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TargetLabel {
    target: String,
}

/// Figures of all connections of a role.
#[derive(Debug, Clone)]
pub struct Figures {
    received: Family<EventLabels, Counter>,
    sent: Family<EventLabels, Counter>,
    processed: Family<ResultLabels, Counter>,
    undecodable: Family<PeerLabel, Counter>,
    write_failures: Family<ClassLabels, Counter>,
    repairs: Family<PeerLabel, Counter>,
    comparisons: Family<ReasonLabels, Counter>,
    drift: Family<PeerLabel, Counter>,
    overflows: Family<PeerLabel, Counter>,
    given_up: Family<PeerLabel, Counter>,
    queued: Family<PeerLabel, Gauge>,
    queued_age: Family<PeerLabel, Gauge<f64, std::sync::atomic::AtomicU64>>,
    propagation: Family<TargetLabel, Histogram, fn() -> Histogram>,
    acknowledged: Family<TargetLabel, Histogram, fn() -> Histogram>,
    upstream: Upstream,
}

/// From one millisecond to two minutes.
fn seconds() -> Histogram {
    Histogram::new([0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0])
}

impl Figures {
    /// Nothing has been counted yet.
    pub fn new(role: Role) -> Self {
        Self {
            received: Family::default(),
            sent: Family::default(),
            processed: Family::default(),
            undecodable: Family::default(),
            write_failures: Family::default(),
            repairs: Family::default(),
            comparisons: Family::default(),
            drift: Family::default(),
            overflows: Family::default(),
            given_up: Family::default(),
            queued: Family::default(),
            queued_age: Family::default(),
            propagation: Family::new_with_constructor(seconds),
            acknowledged: Family::new_with_constructor(seconds),
            upstream: Upstream::new(role),
        }
    }

    /// Shows them.
    pub fn register(&self, registry: &mut Registry) {
        self.upstream.register(registry);
        let registry = registry.sub_registry_with_prefix("thane_fleet");
        registry.register("events_received", "Events that came", self.received.clone());
        registry.register("events_sent", "Events that were sent, repeats included", self.sent.clone());
        registry.register("events_processed", "Events by what became of them", self.processed.clone());
        registry.register("events_undecodable", "Events that could not be read", self.undecodable.clone());
        registry.register("write_failures", "Writes to the API that failed", self.write_failures.clone());
        registry.register("repairs", "Objects put back as their source has them", self.repairs.clone());
        registry.register("comparisons", "Comparisons of what both sides have", self.comparisons.clone());
        registry.register("drift_objects", "Objects found to differ by a comparison", self.drift.clone());
        registry.register("overflows", "Events there was no room for; a comparison followed", self.overflows.clone());
        registry.register("given_up_events", "Events dropped for a peer away too long", self.given_up.clone());
        registry.register("outbox_events", "Events that wait to be sent or acknowledged", self.queued.clone());
        registry.register("outbox_oldest_seconds", "Age of the oldest of them", self.queued_age.clone());
        registry.register("propagation_seconds", "From sent by the peer to applied here", self.propagation.clone());
        registry.register("acknowledged_seconds", "From queued here to acknowledged", self.acknowledged.clone());
    }

    /// The figures of one connection.
    pub fn of(&self, peer: &str) -> Arc<LinkMetrics> {
        let label = PeerLabel { peer: peer.into() };
        Arc::new(LinkMetrics {
            queued: self.queued.get_or_create_owned(&label),
            queued_age: self.queued_age.get_or_create_owned(&label),
            depths: upstream::Depths::new(&self.upstream),
            figures: self.clone(),
            peer: label.peer,
            refusals: Mutex::default(),
        })
    }

    /// Forgets a peer that is gone for good.
    pub fn forget(&self, peer: &str) {
        let label = PeerLabel { peer: peer.into() };
        self.queued.remove(&label);
        self.queued_age.remove(&label);
        self.upstream.forget(peer);
    }
}

/// Figures of one connection.
#[derive(Debug)]
pub struct LinkMetrics {
    figures: Figures,
    queued: Gauge,
    queued_age: Gauge<f64, std::sync::atomic::AtomicU64>,
    depths: upstream::Depths,
    peer: Arc<str>,
    refusals: Mutex<Refusals>,
}

/// What a peer does wrong again and again is said once in a while; everything is counted.
#[derive(Debug, Default)]
struct Refusals {
    said: Option<Timestamp>,
    unsaid: u64,
}

/// Time between two lines about one peer.
const SAID_AGAIN: Duration = Duration::from_secs(10);

impl Refusals {
    /// Whether the next one is worth a line, and how many before it were not.
    fn next(&mut self, now: Timestamp) -> Option<u64> {
        let recent = |said: Timestamp| now.duration_since(said).unsigned_abs() < SAID_AGAIN;
        if self.said.is_some_and(recent) {
            self.unsaid += 1;
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

impl LinkMetrics {
    fn peer(&self) -> PeerLabel {
        PeerLabel { peer: Arc::clone(&self.peer) }
    }

    fn event(&self, target: &Target, kind: &Type) -> EventLabels {
        EventLabels { peer: Arc::clone(&self.peer), target: target_label(target), r#type: type_label(kind) }
    }

    pub(crate) fn received(&self, event: &Event) {
        self.figures.received.get_or_create(&self.event(&event.target, &event.kind)).inc();
        self.figures.upstream.received();
    }

    pub(crate) fn sent(&self, event: &Event) {
        self.figures.sent.get_or_create(&self.event(&event.target, &event.kind)).inc();
        self.figures.upstream.sent();
    }

    pub(crate) fn undecodable(&self, error: &DecodeError) {
        self.figures.undecodable.get_or_create(&self.peer()).inc();
        tracing::warn!(peer = &*self.peer, %error, "an event could not be read");
    }

    /// How much waits: to be sent or acknowledged, since when, and to be processed.
    pub(crate) fn queues(&self, outgoing: usize, oldest: Option<Duration>, incoming: usize) {
        self.queued.set(i64::try_from(outgoing).unwrap_or(i64::MAX));
        self.queued_age.set(oldest.unwrap_or_default().as_secs_f64());
        self.depths.set(outgoing, incoming);
    }

    pub(crate) fn note(&self, note: &Note, now: Timestamp) {
        let peer = &*self.peer;
        match note {
            Note::Applied { target, kind, sent_at, trace, wrote, took } => {
                tracing::debug!(peer, target = target.as_str(), r#type = %kind.as_str(), trace, wrote, "applied");
                self.processed(target, kind, if *wrote { "applied" } else { "unchanged" });
                self.propagated(target, sent_at.as_deref(), now);
                self.figures.upstream.processed(peer, upstream::SUCCESS, &target_label(target), *took);
            }
            Note::Refused { target, kind, class, message, took } => {
                self.processed(target, kind, "refused");
                let label = target_label(target);
                self.figures.upstream.failed(&label);
                let status = if *class == Class::Permanent { upstream::NOT_ALLOWED } else { upstream::FAILURE };
                self.figures.upstream.processed(peer, status, &label, *took);
                let (target, kind, class) = (target.as_str(), kind.as_str(), class.name());
                match self.refusals.lock().next(now) {
                    Some(unsaid) => {
                        tracing::warn!(peer, target, r#type = %kind, class, message, unsaid, "an event was refused");
                    }
                    None => tracing::debug!(peer, target, r#type = %kind, class, message, "an event was refused"),
                }
            }
            Note::Failed { key, class, message } => {
                let labels = ClassLabels { peer: Arc::clone(&self.peer), class: class.name() };
                self.figures.write_failures.get_or_create(&labels).inc();
                self.figures.upstream.failed(&key.kind.name().to_lowercase());
                if *class == Class::Temporary {
                    self.figures.upstream.retried();
                }
                let (kind, namespace, name) = (key.kind.name(), &key.namespace, &key.name);
                if *class == Class::Temporary {
                    tracing::debug!(peer, kind, namespace, name, message, "a write failed and is tried again");
                } else {
                    tracing::warn!(peer, kind, namespace, name, class = class.name(), message, "a write failed");
                }
            }
            Note::Acknowledged { target, waited, .. } => {
                let label = TargetLabel { target: target_label(target) };
                self.figures.acknowledged.get_or_create(&label).observe(waited.as_secs_f64());
                self.figures.upstream.waited(*waited);
            }
            Note::Repaired { key } => {
                self.figures.repairs.get_or_create(&self.peer()).inc();
                let (kind, namespace, name) = (key.kind.name(), &key.namespace, &key.name);
                tracing::info!(peer, kind, namespace, name, "changed by someone else, put back");
            }
            Note::Overflow => {
                self.figures.overflows.get_or_create(&self.peer()).inc();
                self.figures.upstream.discarded(1);
            }
            Note::GaveUp { events } => {
                self.figures.given_up.get_or_create(&self.peer()).inc_by(*events as u64);
                self.figures.upstream.discarded(*events as u64);
                tracing::info!(peer, events, "away too long; both sides will compare when it is back");
            }
            Note::Compare { reason } => {
                let labels = ReasonLabels { peer: Arc::clone(&self.peer), reason };
                self.figures.comparisons.get_or_create(&labels).inc();
            }
            Note::Drift { differing, of } => {
                self.figures.drift.get_or_create(&self.peer()).inc_by(*differing as u64);
                tracing::info!(peer, differing, of, "both sides compared what they have");
            }
            Note::ClusterInfo { applications, apis, resources } => {
                tracing::debug!(peer, applications, apis, resources, "figures about the agent's cluster");
            }
        }
    }

    fn processed(&self, target: &Target, kind: &Type, result: &'static str) {
        let EventLabels { peer, target, r#type } = self.event(target, kind);
        self.figures.processed.get_or_create(&ResultLabels { peer, target, r#type, result }).inc();
    }

    fn propagated(&self, target: &Target, sent_at: Option<&str>, now: Timestamp) {
        let Some(sent_at) = sent_at.and_then(|text| text.parse::<Timestamp>().ok()) else { return };
        let label = TargetLabel { target: target_label(target) };
        // Clocks of two machines differ; a negative age says nothing.
        let seconds = now.duration_since(sent_at).as_secs_f64().max(0.0);
        self.figures.upstream.propagated(&label.target, seconds);
        self.figures.propagation.get_or_create(&label).observe(seconds);
    }
}

/// Every label that a target can become.
fn target_labels() -> impl Iterator<Item = String> {
    Target::names().chain(["other"]).map(str::to_owned)
}

/// Names of our own peers' making do not become labels.
fn target_label(target: &Target) -> String {
    match target {
        Target::Other(_) => "other".to_owned(),
        known => known.as_str().to_owned(),
    }
}

fn type_label(kind: &Type) -> String {
    match kind {
        Type::Other(_) => "other".to_owned(),
        known => known.as_str().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_errs_all_the_time_gets_a_line_once_in_a_while() {
        let mut refusals = Refusals::default();
        let at = |second| Timestamp::from_second(second).expect("a small number");
        let found: Vec<_> = [0, 1, 9, 10, 11, 30, 0].map(|second| refusals.next(at(second))).into();
        assert_eq!(found, [Some(0), None, None, Some(2), None, Some(1), Some(0)]);
    }
}
