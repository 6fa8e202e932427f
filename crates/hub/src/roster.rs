//! Who is registered, who is connected, and whose Applications are whose: for those who work beside the hub's own loop.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use thane_api::redis::{AppKey, SHARDS};
use thane_sync::mapping::{HubSide, Placement};
use thane_sync::object::Kind;
use thane_sync::router::News;
use thane_sync::store::Seen;
use tokio::sync::watch;

/// Whether an agent is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Presence {
    /// It has not been since the hub started.
    #[default]
    Unseen,
    /// It is, since then.
    Connected(Timestamp),
    /// It was, until then.
    Gone(Timestamp),
}

/// One agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Member {
    /// The address of its cluster, as Argo CD knows it.
    pub server: String,
    /// Whether it is there.
    pub presence: Presence,
    /// How many Applications it has.
    pub applications: usize,
    /// Which of its streams is the newest.
    stream: u64,
    has_shards: bool,
}

/// The roster; clones are the same one.
#[derive(Debug, Clone)]
pub struct Roster {
    side: Arc<HubSide>,
    known: Arc<Mutex<Known>>,
    changed: Arc<watch::Sender<()>>,
}

#[derive(Debug, Default)]
struct Known {
    members: BTreeMap<String, Member>,
    /// Owners by namespace and name.
    applications: BTreeMap<(String, String), String>,
    streams: u64,
}

impl Roster {
    /// A roster of nobody yet.
    pub fn new(side: Arc<HubSide>) -> Self {
        Self { side, known: Arc::default(), changed: Arc::new(watch::channel(()).0) }
    }

    /// Everybody, by name.
    pub fn members(&self) -> BTreeMap<String, Member> {
        self.known.lock().members.clone()
    }

    /// Tells of every change from now on.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// The agent whose Redis has that key of Argo CD's; none if it is the hub's own.
    pub fn agent_of(&self, key: &str) -> Option<String> {
        let key = AppKey::read(key)?;
        let known = self.known.lock();
        let agent = match self.side.placement {
            Placement::Namespace => key.namespace?.to_owned(),
            Placement::Destination => {
                let namespace = key.namespace.unwrap_or(&self.side.namespace).to_owned();
                known.applications.get(&(namespace, key.name.to_owned()))?.clone()
            }
        };
        let member = known.members.get(&agent)?;
        (!key.is_shard || member.has_shards).then_some(agent)
    }

    pub(crate) fn registered(&self, agent: &str, server: String) {
        self.change(|known| known.members.entry(agent.to_owned()).or_default().server = server);
    }

    pub(crate) fn removed(&self, agent: &str) {
        self.change(|known| {
            known.members.remove(agent);
            known.applications.retain(|_, owner| owner != agent);
        });
    }

    /// A stream of that agent is open; what is given back says which.
    pub(crate) fn connected(&self, agent: &str, capabilities: &BTreeSet<String>, now: Timestamp) -> u64 {
        self.change(|known| {
            known.streams += 1;
            let stream = known.streams;
            if let Some(member) = known.members.get_mut(agent) {
                member.presence = Presence::Connected(now);
                member.stream = stream;
                member.has_shards = capabilities.contains(SHARDS);
            }
            stream
        })
    }

    /// That stream has ended; a newer one may have taken its place.
    pub(crate) fn disconnected(&self, agent: &str, stream: u64, now: Timestamp) {
        self.change(|known| {
            if let Some(member) = known.members.get_mut(agent).filter(|member| member.stream == stream) {
                member.presence = Presence::Gone(now);
            }
        });
    }

    pub(crate) fn heard(&self, news: &News) {
        if news.key.kind != Kind::Application {
            return;
        }
        let place = (news.key.namespace.clone(), news.key.name.clone());
        let mut known = self.known.lock();
        let before = match &news.seen {
            Seen::Applied(_) => known.applications.insert(place, news.agent.clone()),
            Seen::Gone(_) if known.applications.get(&place) == Some(&news.agent) => known.applications.remove(&place),
            Seen::Gone(_) => return,
        };
        let is_applied = matches!(news.seen, Seen::Applied(_));
        if is_applied && before.as_ref() == Some(&news.agent) {
            return;
        }
        if let Some(member) = before.and_then(|before| known.members.get_mut(&before)) {
            member.applications = member.applications.saturating_sub(1);
        }
        if let Some(member) = known.members.get_mut(&news.agent).filter(|_| is_applied) {
            member.applications += 1;
        }
        drop(known);
        self.changed.send_replace(());
    }

    fn change<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        let result = change(&mut self.known.lock());
        self.changed.send_replace(());
        result
    }
}
