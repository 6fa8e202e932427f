//! What could not be done as things are, and is tried again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use thane_api::event::Type;

use super::Why;
use super::report::{self, Item, Report};
use crate::failure::{Backoff, Class};
use crate::object::Key;
use crate::time::Now;
use crate::work;

/// Troubles that are remembered; more are not tried again before both sides compare.
const TROUBLES_MAX: usize = 10_000;
/// Names of refused things that are remembered for whoever asks.
const TURNED_AWAY_MAX: usize = 1_000;
/// How long a retry waits for another job about the same object.
const BUSY_AGAIN: Duration = Duration::from_millis(500);

/// What a job is about: news of the same matter make an older one pointless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Matter {
    Desired,
    Observed,
    Operation,
    Termination,
    Repair,
    Stamp,
}

impl Matter {
    pub(super) fn of(why: &Why) -> Self {
        match why {
            Why::Inbound(incoming) | Why::Retry(incoming) => Self::of_type(&incoming.event.kind),
            Why::Repair => Self::Repair,
            Why::Stamp => Self::Stamp,
        }
    }

    pub(super) fn of_type(kind: &Type) -> Self {
        match kind {
            Type::SetOperation => Self::Operation,
            Type::TerminateOperation => Self::Termination,
            Type::StatusUpdate | Type::Error => Self::Observed,
            _ => Self::Desired,
        }
    }
}

/// Something that could not be done.
#[derive(Debug, Clone)]
pub struct Trouble {
    /// What the matter is.
    pub message: String,
    class: Class,
    why: Why,
    backoff: Backoff,
    /// None while it is tried.
    retry_at: Option<Duration>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    known: BTreeMap<(Key, Matter), Trouble>,
    /// When each is tried again.
    times: BTreeSet<(Duration, (Key, Matter))>,
    /// What was refused before it had a place, by the names the peer has for it.
    turned_away: BTreeMap<Key, String>,
    /// Whether anything is otherwise than when it was last told of.
    has_news: bool,
}

impl Troubles {
    /// Whether a job that was given up would be remembered.
    pub(super) fn has_room(&self, key: &Key, matter: Matter) -> bool {
        self.known.len() < TROUBLES_MAX || self.known.contains_key(&(key.clone(), matter))
    }

    /// Remembers a job that was given up; each time it is tried again later.
    pub(super) fn add(&mut self, now: Now, key: &Key, why: Why, class: Class, message: String) {
        let id = (key.clone(), Matter::of(&why));
        let why = match why {
            Why::Inbound(incoming) => Why::Retry(incoming),
            why => why,
        };
        if !self.has_room(key, id.1) {
            return;
        }
        let before = self.take(&id);
        self.has_news |= before.as_ref().is_none_or(|before| before.message != message || before.class != class);
        let mut backoff = before.map_or_else(|| Backoff::new(work::seed(key)), |before| before.backoff);
        let retry_at = now.monotonic + backoff.next(class);
        self.times.insert((retry_at, id.clone()));
        self.known.insert(id, Trouble { message, class, why, backoff, retry_at: Some(retry_at) });
    }

    fn take(&mut self, id: &(Key, Matter)) -> Option<Trouble> {
        let trouble = self.known.remove(id)?;
        if let Some(at) = trouble.retry_at {
            self.times.remove(&(at, id.clone()));
        }
        Some(trouble)
    }

    /// One that is being tried gave way to something else: it is tried again.
    pub(super) fn put_off(&mut self, now: Now, key: &Key, matter: Matter) {
        let id = (key.clone(), matter);
        if let Some(trouble) = self.known.get_mut(&id).filter(|trouble| trouble.retry_at.is_none()) {
            let at = now.monotonic + BUSY_AGAIN;
            trouble.retry_at = Some(at);
            self.times.insert((at, id));
        }
    }

    /// Remembers something that was refused before it had a place; it is not tried again.
    pub(super) fn turn_away(&mut self, key: Key, message: &str) {
        let before = self.turned_away.get(&key);
        let is_news = before.is_none_or(|before| before != message);
        if is_news && (before.is_some() || self.turned_away.len() < TURNED_AWAY_MAX) {
            self.turned_away.insert(key, message.to_owned());
            self.has_news = true;
        }
    }

    /// Forgets that something was refused; the name is asked for only where anything was.
    pub(super) fn let_in(&mut self, name: impl FnOnce() -> Option<Key>) {
        if !self.turned_away.is_empty()
            && let Some(key) = name()
        {
            self.has_news |= self.turned_away.remove(&key).is_some();
        }
    }

    /// Whether anything is otherwise than when this was last asked.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// It could not be told yet.
    pub(super) fn keep_news(&mut self) {
        self.has_news = true;
    }

    /// What only people can put right: how much, and the first of it.
    pub(super) fn report(&self) -> Report {
        let lasting = self.known.iter().filter(|(_, trouble)| trouble.class == Class::Permanent);
        let lasting = lasting.map(|((key, _), trouble)| (key, &trouble.message)).chain(&self.turned_away);
        let items = lasting.clone().take(report::ITEMS_MAX).map(|(key, message)| Item::new(key, message)).collect();
        Report { count: lasting.count(), items }
    }

    pub(super) fn has(&self, key: &Key, matter: Matter) -> bool {
        self.known.contains_key(&(key.clone(), matter))
    }

    pub(super) fn remove(&mut self, key: &Key, matter: Matter) {
        self.has_news |= self.take(&(key.clone(), matter)).is_some();
    }

    /// Forgets what an event of that type makes pointless.
    pub(super) fn supersede(&mut self, key: &Key, kind: &Type) {
        let pointless: &[Matter] = match kind {
            Type::Delete => &[Matter::Desired, Matter::Observed, Matter::Operation, Matter::Termination],
            Type::SetOperation => &[Matter::Operation, Matter::Termination],
            other => &[Matter::of_type(other)],
        };
        for matter in pointless {
            self.remove(key, *matter);
        }
    }

    /// What is to be tried again now, at most one job per object; `is_busy` is whether one is under way.
    pub(super) fn due(&mut self, now: Now, is_busy: impl Fn(&Key) -> bool) -> Vec<(Key, Why)> {
        let mut due: BTreeMap<Key, Why> = BTreeMap::new();
        while let Some((at, _)) = self.times.first()
            && *at <= now.monotonic
            && let Some((_, id)) = self.times.pop_first()
        {
            let Some(trouble) = self.known.get_mut(&id) else { continue };
            if is_busy(&id.0) || due.contains_key(&id.0) {
                let again = now.monotonic + BUSY_AGAIN;
                trouble.retry_at = Some(again);
                self.times.insert((again, id));
                continue;
            }
            // The memory of how often it failed stays until it succeeds.
            trouble.retry_at = None;
            due.insert(id.0, trouble.why.clone());
        }
        due.into_iter().collect()
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        self.times.first().map(|(at, _)| *at)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &str)> {
        self.known.iter().map(|((key, _), trouble)| (key, trouble.message.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::Value;
    use thane_api::event::{Event, Target};

    use super::*;
    use crate::link::Incoming;
    use crate::object::Kind;

    fn now(seconds: u64) -> Now {
        Now { monotonic: Duration::from_secs(seconds), wall: jiff::Timestamp::UNIX_EPOCH }
    }

    fn key() -> Key {
        Key { kind: Kind::Application, namespace: "n".into(), name: "a".into() }
    }

    fn inbound(kind: Type) -> Why {
        let event = Event {
            target: Target::Application,
            kind,
            resource_id: "r".into(),
            event_id: "e".into(),
            subject: None,
            data: Bytes::new(),
            extensions: BTreeMap::new(),
        };
        Why::Inbound(Box::new(Incoming { event, body: Value::Null, begun: Duration::ZERO }))
    }

    #[test]
    fn news_make_only_troubles_of_their_own_matter_pointless() {
        use Matter::{Desired, Observed, Operation, Termination};
        for (kind, left) in [
            (Type::SpecUpdate, vec![Observed, Operation, Termination]),
            (Type::StatusUpdate, vec![Desired, Operation, Termination]),
            (Type::SetOperation, vec![Desired, Observed]),
            (Type::TerminateOperation, vec![Desired, Observed, Operation]),
            (Type::Delete, vec![]),
        ] {
            let mut troubles = Troubles::default();
            for of in [Type::Create, Type::StatusUpdate, Type::SetOperation, Type::TerminateOperation] {
                troubles.add(now(0), &key(), inbound(of), Class::Permanent, "no".into());
            }
            troubles.supersede(&key(), &kind);
            let kept: Vec<Matter> = troubles.known.keys().map(|(_, matter)| *matter).collect();
            assert_eq!(kept, left, "{kind:?}");
        }
    }

    #[test]
    fn one_job_at_a_time_is_tried_again_and_none_while_another_is_under_way() {
        let mut troubles = Troubles::default();
        troubles.add(now(0), &key(), Why::Stamp, Class::Temporary, "no".into());
        troubles.add(now(0), &key(), inbound(Type::SetOperation), Class::Temporary, "no".into());
        assert!(troubles.due(now(1), |_| true).is_empty());
        assert!(troubles.next_due().is_some_and(|at| at > now(1).monotonic), "it does not ask again at once");
        let due = troubles.due(now(2), |_| false);
        assert!(matches!(due.as_slice(), [(_, Why::Retry(_))]), "{due:?}");
        assert_eq!(troubles.due(now(4), |_| false), [(key(), Why::Stamp)]);
        assert_eq!(troubles.next_due(), None, "both are under way");
        troubles.put_off(now(4), &key(), Matter::Stamp);
        assert_eq!(troubles.next_due(), Some(now(4).monotonic + BUSY_AGAIN));
        troubles.remove(&key(), Matter::Stamp);
        troubles.remove(&key(), Matter::Operation);
        assert_eq!((troubles.iter().count(), troubles.times.len()), (0, 0));
    }
}
