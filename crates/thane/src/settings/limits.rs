//! How much an embedded API takes and keeps.

use serde::{Deserialize, Serialize};
use thane_apiserver::embedded::Config;
use thane_apiserver::{Options, inflight};
use thane_kv::HistoryLimits;
use thane_runtime::config::units::{ByteSize, Span};

/// The bounds of one API that an installation may want otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct ApiLimits {
    /// Requests of one identity at once, watches aside; others get 429.
    pub(crate) requests_per_identity: usize,
    /// Watches at once; others get 429.
    pub(crate) watches: usize,
    /// A watch or a list goes on from where it was for so long; then it gets 410 and begins anew.
    pub(crate) history_age: Span,
    /// Bytes of changes that are kept for that, if they are not older.
    pub(crate) history_bytes: ByteSize,
    /// The largest request body; a larger one gets 413.
    pub(crate) body_bytes: ByteSize,
}

impl Default for ApiLimits {
    fn default() -> Self {
        let (running, history) = (inflight::Limits::default(), HistoryLimits::default());
        Self {
            requests_per_identity: running.requests_per_identity,
            watches: running.watches,
            history_age: Span(history.age),
            history_bytes: ByteSize(history.bytes),
            body_bytes: ByteSize(u64::try_from(Options::default().body_bytes_max).unwrap_or(u64::MAX)),
        }
    }
}

impl ApiLimits {
    /// Why an API cannot run with these.
    pub(crate) fn wrong(&self) -> Option<&'static str> {
        let nothing = self.requests_per_identity == 0 || self.watches == 0 || self.body_bytes.0 == 0;
        let forgetful = self.history_age.0.is_zero() || self.history_bytes.0 == 0;
        (nothing || forgetful).then_some("a value of up.limits is 0: an API that takes or keeps nothing is of no use")
    }

    /// Has an API keep to them.
    pub(crate) fn apply(&self, config: &mut Config) {
        let Self { requests_per_identity, watches, .. } = *self;
        config.options.limits = inflight::Limits { requests_per_identity, watches };
        config.options.body_bytes_max = usize::try_from(self.body_bytes.0).unwrap_or(usize::MAX);
        config.history.age = self.history_age.0;
        config.history.bytes = self.history_bytes.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_what_holds_and_the_default_changes_nothing() {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let (mut plain, mut config) = (Config::new("d", address), Config::new("d", address));
        ApiLimits::default().apply(&mut plain);
        assert_eq!(format!("{plain:?}"), format!("{config:?}"));
        let said = r#"{"requestsPerIdentity": 7, "watches": 8, "historyAge": "9s", "historyBytes": "1MiB", "bodyBytes": "2KiB"}"#;
        let limits: ApiLimits = serde_json::from_str(said).unwrap();
        assert_eq!(limits.wrong(), None);
        limits.apply(&mut config);
        assert_eq!(config.options.limits, inflight::Limits { requests_per_identity: 7, watches: 8 });
        assert_eq!(config.options.body_bytes_max, 2048);
        assert_eq!((config.history.age.as_secs(), config.history.bytes), (9, 1 << 20));
        assert!(ApiLimits { watches: 0, ..limits }.wrong().is_some());
    }
}
