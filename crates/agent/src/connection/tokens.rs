//! The tokens of one connection, and when they are replaced.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::backoff::Backoff;
use super::{Config, Failure};

/// A token with less left than this is replaced before it is used.
const EARLY: Duration = Duration::from_secs(30);
/// So long without a renewal, and the next failure is the first again.
const CALM: Duration = Duration::from_mins(2);

/// Tokens as the hub gave them.
#[derive(Clone, Default)]
pub(super) struct Tokens {
    pub(super) access: String,
    pub(super) refresh: String,
    /// When the access token is to be replaced, on the monotonic clock: the hub's wall clock may be another.
    good_until: Duration,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("good_until", &self.good_until).finish_non_exhaustive()
    }
}

impl Tokens {
    /// Takes new ones; an empty refresh token means that the one we have is still good.
    pub(super) fn replace(&mut self, now: Duration, access: String, refresh: String, claims: &Claims) {
        let life = Duration::from_secs(u64::try_from(claims.exp.saturating_sub(claims.iat)).unwrap_or_default());
        self.good_until = now.saturating_add(life.saturating_sub(EARLY));
        self.access = access;
        if !refresh.is_empty() {
            self.refresh = refresh;
        }
    }

    /// Whether its time is over.
    pub(super) fn is_over(&self, now: Duration) -> bool {
        now >= self.good_until
    }
}

/// How renewing went; whoever holds it is the one who renews.
#[derive(Debug)]
pub(super) struct Renewals {
    backoff: Backoff,
    not_before: Duration,
    failed: Option<Failure>,
}

impl Renewals {
    /// None so far.
    pub(super) fn new(config: &Config) -> Self {
        Self {
            backoff: Backoff::new(config.backoff_first, config.backoff_max),
            not_before: Duration::ZERO,
            failed: None,
        }
    }

    /// Whether the hub may be asked now: one that refuses is not asked by every call.
    pub(super) fn may_ask(&self, now: Duration) -> bool {
        now >= self.not_before
    }

    /// Why the last one failed, if it did.
    pub(super) fn failed(&self) -> Option<Failure> {
        self.failed.clone()
    }

    /// One has ended.
    pub(super) fn ended(&mut self, now: Duration, result: &Result<(), Failure>) {
        if now.saturating_sub(self.not_before) >= CALM {
            self.backoff.reset();
        }
        self.not_before = now + self.backoff.next(1.0);
        self.failed = result.as_ref().err().cloned();
    }
}

/// What is read of a token.
#[derive(Deserialize)]
pub(super) struct Claims {
    pub(super) sub: String,
    pub(super) iat: i64,
    pub(super) exp: i64,
}

/// What a token says; whether it is genuine is the hub's business.
pub(super) fn read_claims(token: &str) -> Result<Claims, Failure> {
    let unreadable = || Failure::Protocol("the hub's token is not readable".to_owned());
    let payload = token.split('.').nth(1).ok_or_else(unreadable)?;
    let bytes = URL_SAFE_NO_PAD.decode(payload).map_err(|_| unreadable())?;
    serde_json::from_slice(&bytes).map_err(|_| unreadable())
}

#[cfg(test)]
mod tests {
    use thane_api::event::Mode;

    use super::*;

    #[test]
    fn tokens_are_read_without_being_believed() {
        let token = |claims: &str| format!("x.{}.y", URL_SAFE_NO_PAD.encode(claims));
        let claims = read_claims(&token(r#"{"sub":"{}","iat":1,"exp":301,"aud":["a"]}"#)).unwrap();
        assert_eq!((&*claims.sub, claims.exp - claims.iat), ("{}", 300));
        for bad in ["", "x", "x.!.y", &token("[]"), &token(r#"{"sub":1}"#)] {
            assert!(matches!(read_claims(bad), Err(Failure::Protocol(_))), "{bad}");
        }
    }

    #[test]
    fn a_hub_that_refuses_is_asked_less_and_less_often() {
        let mut renewals = Renewals::new(&Config::new("hub", 1, Mode::Managed));
        let mut now = Duration::from_hours(25);
        assert!(renewals.may_ask(now));
        let mut waits = Vec::new();
        for _ in 0..8 {
            renewals.ended(now, &Err(Failure::Credentials("no".to_owned())));
            waits.push(renewals.not_before.saturating_sub(now).as_secs());
            assert!(!renewals.may_ask(now) && renewals.failed().is_some());
            now = renewals.not_before;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        now += CALM;
        renewals.ended(now, &Ok(()));
        assert_eq!(renewals.not_before.saturating_sub(now).as_secs(), 1);
        assert!(renewals.failed().is_none());
    }
}
