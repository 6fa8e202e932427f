//! When sessions end, leases lapse and agents are forgotten.

use std::time::Duration;

use jiff::Timestamp;

use super::{Options, agent_record};
use crate::registry::{Deadlines, Due, Id, Tables, Thing};

/// Sessions live twice as long as they ask for, so that a late renewal still counts.
const SESSION_GRACE: u32 = 2;

/// The time, on both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) wall: Timestamp,
    pub(super) monotonic: Duration,
}

pub(super) struct Timers {
    deadlines: Deadlines,
    lease: Duration,
    reap_after: Duration,
}

impl Timers {
    pub(super) fn new(options: &Options) -> Self {
        Self { deadlines: Deadlines::default(), lease: options.lease, reap_after: options.reap_after }
    }

    /// Starts over: every session and every agent gets its full time.
    pub(super) fn begin(&mut self, tables: &Tables, now: Now) {
        self.deadlines = Deadlines::default();
        for (id, _) in tables.iter() {
            self.follow(tables, id, now);
            if let Id::Agent(agent) = id
                && let Some(reap) = self.reap_at(tables, agent, now)
            {
                self.deadlines.arm(Due::Reap(agent.clone()), reap.max(now.monotonic.saturating_add(self.lease)));
            }
        }
    }

    /// Sets the deadlines that follow from how something now stands.
    pub(super) fn follow(&mut self, tables: &Tables, id: &Id, now: Now) {
        match id {
            Id::Session(session) => self.renewed(tables, session, now),
            Id::Agent(agent) => self.seen(tables, agent, now),
            Id::Delay(key) => {
                let due = Due::Delay(key.clone());
                match tables.get(id) {
                    Some(Thing::Delay(delay)) => self.deadlines.arm(due, at(delay.value.until, now)),
                    _ => self.deadlines.disarm(&due),
                }
            }
            Id::Token(accessor) => {
                let due = Due::Token(accessor.clone());
                let expires = match tables.get(id) {
                    Some(Thing::Token(token)) => token.value.expires,
                    _ => None,
                };
                match expires {
                    Some(expires) => self.deadlines.arm(due, at(expires, now)),
                    None => self.deadlines.disarm(&due),
                }
            }
            _ => {}
        }
    }

    /// A session gets its full time.
    pub(super) fn renewed(&mut self, tables: &Tables, session: &str, now: Now) {
        let due = Due::Session(session.to_owned());
        match tables.session(session).and_then(|session| session.value.ttl) {
            Some(ttl) => self.deadlines.arm(due, now.monotonic.saturating_add(ttl.saturating_mul(SESSION_GRACE))),
            None => self.deadlines.disarm(&due),
        }
    }

    /// An agent gets its full time, or, lost, what is left until it is forgotten.
    pub(super) fn seen(&mut self, tables: &Tables, agent: &str, now: Now) {
        let (lease, reap) = (Due::Lease(agent.to_owned()), Due::Reap(agent.to_owned()));
        self.deadlines.disarm(&reap);
        if let Some(at) = self.reap_at(tables, agent, now) {
            self.deadlines.disarm(&lease);
            self.deadlines.arm(reap, at);
        } else if agent_record(tables, agent).is_some() {
            self.deadlines.arm(lease, now.monotonic.saturating_add(self.lease));
        } else {
            self.deadlines.disarm(&lease);
        }
    }

    pub(super) fn next(&self) -> Option<Duration> {
        self.deadlines.next()
    }

    pub(super) fn pop(&mut self, now: Now) -> Option<Due> {
        self.deadlines.pop(now.monotonic)
    }

    fn reap_at(&self, tables: &Tables, agent: &str, now: Now) -> Option<Duration> {
        let lost = agent_record(tables, agent)?.lost?;
        Some(at(lost.saturating_add(self.reap_after).unwrap_or(Timestamp::MAX), now))
    }
}

/// A moment of the wall clock on the other one; what is past is now.
fn at(moment: Timestamp, now: Now) -> Duration {
    let left = Duration::try_from(moment.duration_since(now.wall)).unwrap_or(Duration::ZERO);
    now.monotonic.saturating_add(left)
}
