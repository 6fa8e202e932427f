//! Why someone does not get in: one answer for them, the whole story for us.

use std::collections::HashSet;
use std::net::IpAddr;

use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tonic::Status;

use super::Peer;

/// Refusals that are remembered so as not to be logged again; beyond it they are forgotten and logged anew.
const LOGGED_MAX: usize = 4096;

/// What was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The mode is neither of the two.
    Mode,
    /// The way to prove an identity is unknown here.
    Method,
    /// There is no certificate, or none that is trusted.
    Certificate,
    /// The certificate is on the list of those no longer believed.
    Blocked,
    /// The name is none an agent can have.
    Name,
    /// Name and password do not match.
    Password,
    /// The version is missing.
    Version,
    /// There is no token, or none that is good now.
    Token,
    /// The certificate is of another agent than the token.
    Mismatch,
    /// Too many wait to be let in.
    Busy,
    /// The hub could not do its part.
    Internal,
}

impl Reason {
    /// A word for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Method => "method",
            Self::Certificate => "certificate",
            Self::Blocked => "blocked",
            Self::Name => "name",
            Self::Password => "password",
            Self::Version => "version",
            Self::Token => "token",
            Self::Mismatch => "mismatch",
            Self::Busy => "busy",
            Self::Internal => "internal",
        }
    }
}

impl EncodeLabelValue for Reason {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        EncodeLabelValue::encode(&self.as_str(), encoder)
    }
}

/// Someone does not get in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Refusal {
    /// What was wrong.
    pub reason: Reason,
    /// What exactly, for the log of the hub alone.
    pub detail: String,
}

impl Refusal {
    pub(super) fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }

    /// What is answered to an attempt to prove an identity.
    pub fn while_authenticating(&self) -> Status {
        match self.reason {
            Reason::Mode => Status::unknown(self.detail.clone()),
            Reason::Version => Status::invalid_argument("agent version is required"),
            Reason::Busy => Status::resource_exhausted("too many agents authenticate at once"),
            Reason::Internal => Status::internal("unable to generate a token"),
            _ => Status::unauthenticated("authentication failed"),
        }
    }

    /// What is answered to any other call.
    pub fn while_calling(&self) -> Status {
        Status::unauthenticated("invalid authentication data")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    reason: Reason,
}

/// Counts refusals, and says each once.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    counted: Family<Labels, Counter>,
    logged: Mutex<HashSet<(Reason, Caller)>>,
}

/// Whom a refusal is about: many may call from one address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Caller {
    address: IpAddr,
    fingerprint: String,
}

impl Caller {
    fn of(peer: &Peer) -> Self {
        let fingerprint = peer.fingerprint().unwrap_or_default().to_owned();
        Self { address: peer.address.ip(), fingerprint }
    }
}

impl Refusals {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("hub_refused", "Attempts to get in that were refused, by reason", self.counted.clone());
    }

    /// Counts a refusal, and logs it unless this peer was refused for the same reason since it last got in.
    pub(super) fn note(&self, peer: &Peer, refusal: &Refusal) {
        self.counted.get_or_create(&Labels { reason: refusal.reason }).inc();
        let is_new = {
            let mut logged = self.logged.lock();
            if logged.len() >= LOGGED_MAX {
                logged.clear();
            }
            logged.insert((refusal.reason, Caller::of(peer)))
        };
        let peer = peer.address.ip();
        if is_new {
            tracing::warn!(reason = refusal.reason.as_str(), %peer, detail = refusal.detail, "agent refused");
        } else {
            tracing::debug!(reason = refusal.reason.as_str(), %peer, detail = refusal.detail, "agent refused again");
        }
    }

    /// Someone got in: what happens to that peer from now on is news.
    pub(super) fn forgive(&self, peer: &Peer) {
        let mut logged = self.logged.lock();
        if !logged.is_empty() {
            let caller = Caller::of(peer);
            logged.retain(|(_, refused)| *refused != caller);
        }
    }

    #[cfg(test)]
    pub(super) fn count(&self, reason: Reason) -> u64 {
        self.counted.get_or_create(&Labels { reason }).get()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::gate::Certificate;

    #[test]
    fn memory_of_refusals_is_bounded_and_forgiving() {
        let refusals = Refusals::default();
        let refusal = Refusal::new(Reason::Token, "no token");
        for n in 0..u32::try_from(3 * LOGGED_MAX).unwrap() {
            refusals.note(&peer(n, None), &refusal);
            assert!(refusals.logged.lock().len() <= LOGGED_MAX);
        }
        assert_eq!(refusals.count(Reason::Token), 3 * LOGGED_MAX as u64);
        let is_known = |peer: &Peer| refusals.logged.lock().contains(&(Reason::Token, Caller::of(peer)));
        let [one, other] = ["one", "other"].map(|name| peer(1, Some(name)));
        refusals.note(&one, &refusal);
        refusals.note(&one, &refusal);
        assert!(is_known(&one));
        refusals.forgive(&other);
        assert!(is_known(&one), "another who calls from the same address got in");
        refusals.forgive(&one);
        assert!(!is_known(&one));
    }

    fn peer(address: u32, certificate: Option<&str>) -> Peer {
        let certificate = certificate.map(|name| {
            Arc::new(Certificate {
                common_name: name.to_owned(),
                unit: String::new(),
                subject: String::new(),
                uris: Vec::new(),
                fingerprint: name.to_owned(),
                not_after: jiff::Timestamp::MAX,
            })
        });
        let certificate = certificate.ok_or_else(|| Arc::from("none"));
        Peer { address: (IpAddr::from(address.to_be_bytes()), 1).into(), certificate }
    }

    #[test]
    fn answers_tell_no_more_than_argocd_agent_does() {
        let cases = [
            (Reason::Mode, tonic::Code::Unknown, "the detail"),
            (Reason::Method, tonic::Code::Unauthenticated, "authentication failed"),
            (Reason::Certificate, tonic::Code::Unauthenticated, "authentication failed"),
            (Reason::Blocked, tonic::Code::Unauthenticated, "authentication failed"),
            (Reason::Version, tonic::Code::InvalidArgument, "agent version is required"),
            (Reason::Busy, tonic::Code::ResourceExhausted, "too many agents authenticate at once"),
        ];
        for (reason, code, message) in cases {
            let refusal = Refusal::new(reason, "the detail");
            let status = refusal.while_authenticating();
            assert_eq!((status.code(), status.message()), (code, message));
            assert_eq!(refusal.while_calling().message(), "invalid authentication data");
        }
    }
}
