//! What is counted about connections, and which of it is worth a line in the log.

mod age;
mod refusals;
mod upstream;

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use thane_api::event::{DecodeError, Event, Mode, TRACE_PARENT, Target, Type};
use thane_sync::Now;
use thane_sync::failure::Class;
use thane_sync::link::{Core, Note};
use thane_sync::object::Key;

use age::{Ages, Since};
use refusals::Refusals;
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
    /// Of what was refused: temporary, permanent or recoverable; empty otherwise.
    class: &'static str,
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

/// What became of an event.
const APPLIED: &str = "applied";
const UNCHANGED: &str = "unchanged";
const REFUSED: &str = "refused";
/// Every class a failure can have.
const CLASSES: [Class; 3] = [Class::Temporary, Class::Permanent, Class::Recoverable];
/// Every reason to compare, or to send everything again.
const REASONS: [&str; 4] = ["start", "asked", "digest", "drift"];

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
    resends: Family<ReasonLabels, Counter>,
    resent: Family<ReasonLabels, Counter>,
    dropped: Family<PeerLabel, Counter>,
    queued: Family<PeerLabel, Gauge>,
    ages: Ages,
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
            resends: Family::default(),
            resent: Family::default(),
            dropped: Family::default(),
            queued: Family::default(),
            ages: Ages::default(),
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
        registry.register("resends", "Times everything was sent again, by reason", self.resends.clone());
        registry.register("resent_objects", "Objects sent again by that, the same or not", self.resent.clone());
        let help = "Acknowledgements and signs of life there was no room for; the peer asks again";
        registry.register("untracked_dropped", help, self.dropped.clone());
        registry.register("outbox_events", "Events that wait to be sent or acknowledged", self.queued.clone());
        registry.register_collector(Box::new(self.ages.clone()));
        registry.register("propagation_seconds", "From sent by the peer to applied here", self.propagation.clone());
        registry.register("acknowledged_seconds", "From queued here to acknowledged", self.acknowledged.clone());
    }

    /// The figures of one connection.
    pub fn of(&self, peer: &str) -> Arc<LinkMetrics> {
        let label = PeerLabel { peer: peer.into() };
        Arc::new(LinkMetrics {
            queued: self.queued.get_or_create_owned(&label),
            oldest: self.ages.of(&label.peer),
            depths: upstream::Depths::new(&self.upstream),
            figures: self.clone(),
            dropped: Mutex::new((self.dropped.get_or_create_owned(&label), 0)),
            peer: label.peer,
            refusals: Mutex::default(),
            garbage: Mutex::default(),
        })
    }

    /// Forgets a peer that is gone for good.
    pub fn forget(&self, peer: &str) {
        let label = PeerLabel { peer: peer.into() };
        let Self { undecodable, repairs, drift, overflows, given_up, dropped, queued, .. } = self;
        for counts in [undecodable, repairs, drift, overflows, given_up, dropped] {
            counts.remove(&label);
        }
        queued.remove(&label);
        self.ages.forget(peer);
        for class in CLASSES {
            self.write_failures.remove(&ClassLabels { peer: Arc::clone(&label.peer), class: class.name() });
        }
        for reason in REASONS {
            let labels = ReasonLabels { peer: Arc::clone(&label.peer), reason };
            for reasons in [&self.comparisons, &self.resends, &self.resent] {
                reasons.remove(&labels);
            }
        }
        for (target, r#type) in target_labels().flat_map(|target| type_labels().map(move |kind| (target.clone(), kind)))
        {
            self.forget_events(&EventLabels { peer: Arc::clone(&label.peer), target, r#type });
        }
        self.upstream.forget(peer);
    }

    fn forget_events(&self, labels: &EventLabels) {
        self.received.remove(labels);
        self.sent.remove(labels);
        let refused = CLASSES.map(|class| (REFUSED, class.name()));
        for (result, class) in [(APPLIED, ""), (UNCHANGED, "")].into_iter().chain(refused) {
            let EventLabels { peer, target, r#type } = labels.clone();
            self.processed.remove(&ResultLabels { peer, target, r#type, result, class });
        }
    }
}

/// Figures of one connection.
#[derive(Debug)]
pub struct LinkMetrics {
    figures: Figures,
    queued: Gauge,
    oldest: Since,
    depths: upstream::Depths,
    peer: Arc<str>,
    /// What the outbox has dropped, and how much of that is counted.
    dropped: Mutex<(Counter, u64)>,
    refusals: Mutex<Refusals>,
    garbage: Mutex<Refusals>,
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
        if !matches!(event.target, Target::Processed | Target::Heartbeat) {
            let (target, kind) = (event.target.as_str(), event.kind.as_str());
            let (subject, trace) = (event.subject.as_deref(), event.extensions.get(TRACE_PARENT));
            tracing::debug!(peer = &*self.peer, target, r#type = %kind, subject, trace, "sent");
        }
    }

    pub(crate) fn undecodable(&self, error: &DecodeError, now: Timestamp) {
        self.figures.undecodable.get_or_create(&self.peer()).inc();
        match self.garbage.lock().next(now) {
            Some(unsaid) => tracing::warn!(peer = &*self.peer, %error, unsaid, "an event could not be read"),
            None => tracing::debug!(peer = &*self.peer, %error, "an event could not be read"),
        }
    }

    /// How much waits: to be sent or acknowledged, since when, and to be processed.
    pub(crate) fn queues(&self, core: &Core, now: Now) {
        let outgoing = core.outbox.len();
        self.queued.set(i64::try_from(outgoing).unwrap_or(i64::MAX));
        self.oldest.set(core.outbox.oldest(now));
        self.depths.set(outgoing, core.waiting_inbound());
        let (total, seen) = &mut *self.dropped.lock();
        let dropped = core.outbox.untracked_dropped();
        total.inc_by(dropped.saturating_sub(std::mem::replace(seen, dropped)));
    }

    fn failed(&self, key: &Key, class: Class, message: &str) {
        let peer = &*self.peer;
        let labels = ClassLabels { peer: Arc::clone(&self.peer), class: class.name() };
        self.figures.write_failures.get_or_create(&labels).inc();
        self.figures.upstream.failed(&key.kind.name().to_lowercase());
        let (kind, namespace, name) = (key.kind.name(), &key.namespace, &key.name);
        if class == Class::Temporary {
            self.figures.upstream.retried();
            tracing::debug!(peer, kind, namespace, name, message, "a write failed and is tried again");
        } else {
            tracing::warn!(peer, kind, namespace, name, class = class.name(), message, "a write failed");
        }
    }

    pub(crate) fn note(&self, note: &Note, now: Timestamp) {
        let peer = &*self.peer;
        match note {
            Note::Applied { target, kind, sent_at, trace, wrote, took } => {
                tracing::debug!(peer, target = target.as_str(), r#type = %kind.as_str(), trace, wrote, "applied");
                self.processed(target, kind, if *wrote { APPLIED } else { UNCHANGED }, "");
                self.propagated(target, sent_at.as_deref(), now);
                self.figures.upstream.processed(peer, upstream::SUCCESS, &target_label(target), *took);
            }
            Note::Refused { target, kind, trace, class, message, took } => {
                self.processed(target, kind, REFUSED, class.name());
                let label = target_label(target);
                self.figures.upstream.failed(&label);
                let status = if *class == Class::Permanent { upstream::NOT_ALLOWED } else { upstream::FAILURE };
                self.figures.upstream.processed(peer, status, &label, *took);
                let (target, kind, class) = (target.as_str(), kind.as_str(), class.name());
                let (told, unsaid) = self.refusals.lock().next(now).map_or((false, 0), |unsaid| (true, unsaid));
                if told {
                    tracing::warn!(peer, target, r#type = %kind, trace, class, message, unsaid, "an event was refused");
                } else {
                    tracing::debug!(peer, target, r#type = %kind, trace, class, message, "an event was refused");
                }
            }
            Note::Failed { key, class, message } => self.failed(key, *class, message),
            Note::Acknowledged { target, kind, trace, waited, attempts } => {
                tracing::debug!(peer, target = target.as_str(), r#type = %kind.as_str(), trace, attempts, "acknowledged");
                let label = TargetLabel { target: target_label(target) };
                self.figures.acknowledged.get_or_create(&label).observe(waited.as_secs_f64());
                self.figures.upstream.waited(*waited);
            }
            Note::Repaired { key } => {
                self.figures.repairs.get_or_create(&self.peer()).inc();
                let (kind, namespace, name) = (key.kind.name(), &key.namespace, &key.name);
                tracing::info!(peer, kind, namespace, name, "changed by someone else, put back");
            }
            Note::Overflow { target, kind } => {
                self.figures.overflows.get_or_create(&self.peer()).inc();
                self.figures.upstream.discarded(peer, type_label(kind), target_label(target), 1);
            }
            Note::GaveUp { events: given_up } => {
                let events: usize = given_up.values().sum();
                self.figures.given_up.get_or_create(&self.peer()).inc_by(events as u64);
                for ((target, kind), events) in given_up {
                    self.figures.upstream.discarded(peer, type_label(kind), target_label(target), *events as u64);
                }
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
            Note::Resent { reason, objects } => {
                let labels = ReasonLabels { peer: Arc::clone(&self.peer), reason };
                self.figures.resends.get_or_create(&labels).inc();
                self.figures.resent.get_or_create(&labels).inc_by(*objects as u64);
                tracing::info!(peer, reason, objects, "everything is sent again");
            }
            Note::ClusterInfo { applications, apis, resources } => {
                tracing::debug!(peer, applications, apis, resources, "figures about the agent's cluster");
            }
        }
    }

    fn processed(&self, target: &Target, kind: &Type, result: &'static str, class: &'static str) {
        let EventLabels { peer, target, r#type } = self.event(target, kind);
        self.figures.processed.get_or_create(&ResultLabels { peer, target, r#type, result, class }).inc();
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

/// Every label that a type can become.
fn type_labels() -> impl Iterator<Item = String> {
    Type::names().chain(std::iter::once("other".to_owned()))
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
mod tests;
