//! Sessions: made while what they hang on is well, ended with it.

use std::time::Duration;

use crate::command::Refusal;
use crate::model::{Behavior, Indexed, KvEntry, Session, Status};
use crate::registry::draft::Draft;
use crate::registry::id::Id;
use crate::registry::thing::Delay;

/// The shortest time a session may be asked to live without renewal.
pub const SESSION_TTL_MIN: Duration = Duration::from_secs(10);
/// The longest.
pub const SESSION_TTL_MAX: Duration = Duration::from_hours(24);
/// The longest a key stays unlockable after its holder was invalidated.
pub const LOCK_DELAY_MAX: Duration = Duration::from_mins(1);

impl Draft<'_> {
    pub(super) fn create_session(&mut self, session: &Session) -> Result<Indexed<Session>, Refusal> {
        let failed = |what: String| Err(Refusal::Failed(what));
        if session.id.is_empty() || session.id.len() > super::NAME_BYTES_MAX {
            return failed("Missing session ID".to_owned());
        }
        if session.node.is_empty() {
            return failed("Must provide Node".to_owned());
        }
        super::check_size("the session", session)?;
        let ttl = session.ttl.filter(|ttl| !ttl.is_zero());
        if let Some(ttl) = ttl
            && !(SESSION_TTL_MIN..=SESSION_TTL_MAX).contains(&ttl)
        {
            let nanos = ttl.as_nanos();
            return failed(format!("Invalid Session TTL '{nanos}', must be between [10s=24h0m0s]"));
        }
        if let Some(again) = self.session(&session.id) {
            // The same request, sent twice.
            let same = *again.value == *session;
            return if same { Ok(again.clone()) } else { failed("session ID is in use".to_owned()) };
        }
        let node = session.node.to_lowercase();
        if self.node(&node).is_none() {
            return failed("Missing node registration".to_owned());
        }
        for id in session.node_checks.iter().chain(&session.service_checks) {
            match self.check(&node, id).map(|check| check.value.status) {
                None => return failed(format!("Missing check '{id}' registration")),
                Some(Status::Critical) => return failed(format!("Check '{id}' is in critical state")),
                Some(Status::Passing | Status::Warning) => {}
            }
        }
        Ok(self.put(Id::Session(session.id.clone()), Session { ttl, ..session.clone() }))
    }

    /// Ends a session: its keys are released or deleted, and cannot be locked for a while.
    pub(super) fn end_session(&mut self, id: &str) {
        let Some(session) = self.session(id).map(|session| session.value.clone()) else { return };
        let delay = session.lock_delay.min(LOCK_DELAY_MAX);
        let until = self.asker.now.saturating_add(delay).unwrap_or(self.asker.now);
        for entry in self.held_by(id) {
            let key = entry.value.key.clone();
            match session.behavior {
                Behavior::Release => {
                    self.put(Id::Key(key.clone()), KvEntry { session: None, ..KvEntry::clone(&entry.value) });
                }
                Behavior::Delete => self.remove(Id::Key(key.clone())),
            }
            if !delay.is_zero() {
                self.put(Id::Delay(key), Delay { until });
            }
        }
        self.remove(Id::Session(id.to_owned()));
    }

    /// Ends the sessions of a node that hang on a check.
    pub(super) fn end_sessions_on(&mut self, node: &str, check: &str) {
        for session in self.sessions_on(node) {
            let mut checks = session.value.node_checks.iter().chain(&session.value.service_checks);
            if checks.any(|id| id == check) {
                self.end_session(&session.value.id);
            }
        }
    }
}
