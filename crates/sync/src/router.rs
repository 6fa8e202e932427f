//! Which of the hub's objects concern which agent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::mapping::{self, HubSide, Mode, Route};
use crate::object::{self, Key, Kind, Object};
use crate::store::{Seen, version};

/// News for one agent's connection.
#[derive(Debug, Clone, PartialEq)]
pub struct News {
    /// The agent.
    pub agent: String,
    /// The object, by its key on the hub.
    pub key: Key,
    /// What was seen of it.
    pub seen: Seen,
}

#[derive(Debug, Default)]
struct Known {
    mode: Option<Mode>,
    /// Projects and repositories it has, by key.
    offered: BTreeSet<Key>,
}

/// Everything the hub has, and whose it is.
#[derive(Debug)]
pub struct Router {
    side: Arc<HubSide>,
    agents: BTreeMap<String, Known>,
    applications: BTreeMap<Key, (String, Object)>,
    /// Applications of agents that are not known.
    unclaimed: BTreeMap<Key, Object>,
    projects: BTreeMap<Key, Object>,
    repositories: BTreeMap<Key, Object>,
}

impl Router {
    /// A router that knows nothing yet.
    pub fn new(side: Arc<HubSide>) -> Self {
        Self {
            side,
            agents: BTreeMap::new(),
            applications: BTreeMap::new(),
            unclaimed: BTreeMap::new(),
            projects: BTreeMap::new(),
            repositories: BTreeMap::new(),
        }
    }

    /// Whether there is such an agent.
    pub fn has_agent(&self, agent: &str) -> bool {
        self.agents.contains_key(agent)
    }

    /// An agent is registered: everything that is its own, as far as its mode is known.
    pub fn add_agent(&mut self, agent: &str) -> Vec<News> {
        if self.agents.contains_key(agent) {
            return Vec::new();
        }
        self.agents.insert(agent.to_owned(), Known::default());
        let unclaimed = std::mem::take(&mut self.unclaimed);
        unclaimed.into_iter().flat_map(|(key, object)| self.application(key, object)).collect()
    }

    /// An agent is no longer registered; its connection is to be ended.
    pub fn remove_agent(&mut self, agent: &str) {
        self.agents.remove(agent);
        let theirs: Vec<Key> =
            self.applications.iter().filter(|(_, (owner, _))| owner == agent).map(|(key, _)| key.clone()).collect();
        for key in theirs {
            if let Some((_, object)) = self.applications.remove(&key) {
                self.unclaimed.insert(key, object);
            }
        }
    }

    /// An agent has told its mode: which projects and repositories are for it.
    pub fn set_mode(&mut self, agent: &str, mode: Mode) -> Vec<News> {
        match self.agents.get_mut(agent) {
            Some(known) if known.mode != Some(mode) => known.mode = Some(mode),
            _ => return Vec::new(),
        }
        let mut news: Vec<News> = Vec::new();
        if self.side.placement == mapping::Placement::Destination {
            let apps: Vec<(Key, Object)> = self.all_applications();
            news.extend(apps.into_iter().flat_map(|(key, object)| self.application(key, object)));
        }
        let keys: Vec<Key> = self.projects.keys().chain(self.repositories.keys()).cloned().collect();
        news.extend(keys.iter().filter_map(|key| self.offer(agent, key)));
        news
    }

    fn all_applications(&self) -> Vec<(Key, Object)> {
        let claimed = self.applications.iter().map(|(key, (_, object))| (key.clone(), object.clone()));
        claimed.chain(self.unclaimed.iter().map(|(key, object)| (key.clone(), object.clone()))).collect()
    }

    /// An object is like this.
    pub fn applied(&mut self, kind: Kind, object: Object) -> Vec<News> {
        let key = Key::of(kind, &object);
        match kind {
            Kind::Application => self.application(key, object),
            Kind::AppProject => {
                self.projects.insert(key.clone(), object);
                self.offer_project(&key)
            }
            Kind::Repository => {
                self.repositories.insert(key.clone(), object);
                self.offer_all(&key)
            }
        }
    }

    /// An object is gone, at that version if a watch told.
    pub fn gone(&mut self, key: &Key, version: Option<u64>) -> Vec<News> {
        match key.kind {
            Kind::Application => {
                self.unclaimed.remove(key);
                let owner = self.applications.remove(key).map(|(agent, _)| agent);
                owner.map(|agent| News { agent, key: key.clone(), seen: Seen::Gone(version) }).into_iter().collect()
            }
            Kind::AppProject => {
                self.projects.remove(key);
                at_version(self.offer_project(key), key, version)
            }
            Kind::Repository => {
                self.repositories.remove(key);
                at_version(self.offer_all(key), key, version)
            }
        }
    }

    /// Whether an object has been seen and not gone since.
    pub fn knows(&self, key: &Key) -> bool {
        match key.kind {
            Kind::Application => self.applications.contains_key(key) || self.unclaimed.contains_key(key),
            Kind::AppProject => self.projects.contains_key(key),
            Kind::Repository => self.repositories.contains_key(key),
        }
    }

    /// Keys of a kind that are known; those a new list lacks are gone.
    pub fn keys(&self, kind: Kind) -> Vec<Key> {
        match kind {
            Kind::Application => self.applications.keys().chain(self.unclaimed.keys()).cloned().collect(),
            Kind::AppProject => self.projects.keys().cloned().collect(),
            Kind::Repository => self.repositories.keys().cloned().collect(),
        }
    }

    fn application(&mut self, key: Key, object: Object) -> Vec<News> {
        let is_autonomous = self.agents.get(&key.namespace).is_some_and(|known| known.mode == Some(Mode::Autonomous));
        let before = self.applications.get(&key).map(|(agent, _)| agent.clone());
        let agent = match mapping::route(&self.side, &object, is_autonomous) {
            Route::To(agent) if self.agents.contains_key(agent) => Some(agent.to_owned()),
            Route::To(_) | Route::Nowhere => None,
            Route::Ignored => {
                // Whoever has it keeps it; its end is still to be told.
                if before.is_none() {
                    self.unclaimed.insert(key, object);
                }
                return Vec::new();
            }
        };
        let mut news = Vec::new();
        if let Some(before) = before.filter(|before| Some(before) != agent.as_ref()) {
            let seen = Seen::Gone(version(&object));
            news.push(News { agent: before, key: key.clone(), seen });
        }
        match agent {
            Some(agent) => {
                self.unclaimed.remove(&key);
                self.applications.insert(key.clone(), (agent.clone(), object.clone()));
                news.push(News { agent, key, seen: Seen::Applied(object) });
            }
            None => {
                self.applications.remove(&key);
                self.unclaimed.insert(key, object);
            }
        }
        news
    }

    /// A project and the repositories that go with it.
    fn offer_project(&mut self, key: &Key) -> Vec<News> {
        let with = self
            .repositories
            .iter()
            .filter(|(_, secret)| mapping::repository_project(secret).as_deref() == Some(key.name.as_str()));
        let keys: Vec<Key> = std::iter::once(key.clone()).chain(with.map(|(key, _)| key.clone())).collect();
        keys.iter().flat_map(|key| self.offer_all(key)).collect()
    }

    fn offer_all(&mut self, key: &Key) -> Vec<News> {
        let agents: Vec<String> = self.agents.keys().cloned().collect();
        agents.iter().filter_map(|agent| self.offer(agent, key)).collect()
    }

    /// A project or repository as one agent should have it, or its end if it should not any more.
    fn offer(&mut self, agent: &str, key: &Key) -> Option<News> {
        let mode = self.agents.get(agent)?.mode?;
        let wanted = match key.kind {
            Kind::AppProject => self.project_for(agent, mode, key),
            Kind::Repository => self.repository_for(agent, mode, key),
            Kind::Application => None,
        };
        let known = self.agents.get_mut(agent)?;
        let seen = match wanted {
            Some(object) => {
                known.offered.insert(key.clone());
                Seen::Applied(object)
            }
            None if known.offered.remove(key) => Seen::Gone(None),
            None => return None,
        };
        Some(News { agent: agent.to_owned(), key: key.clone(), seen })
    }

    fn project_for(&self, agent: &str, mode: Mode, key: &Key) -> Option<Object> {
        let project = self.projects.get(key)?;
        match mode {
            Mode::Managed => {
                let is_theirs = mapping::is_distributed_project(&self.side, project)
                    && mapping::project_goes_to(&self.side, project, agent);
                is_theirs.then(|| Arc::new(mapping::project_for_agent(&self.side, project, agent)))
            }
            // A mirror says whose it is.
            Mode::Autonomous => {
                let is_theirs = object::source_uid(project).is_some()
                    && project["spec"]["sourceNamespaces"][0].as_str() == Some(agent);
                is_theirs.then(|| Arc::clone(project))
            }
        }
    }

    fn repository_for(&self, agent: &str, mode: Mode, key: &Key) -> Option<Object> {
        let secret = self.repositories.get(key)?;
        let name = mapping::repository_project(secret)?;
        let project = Key { kind: Kind::AppProject, namespace: self.side.namespace.clone(), name };
        let is_theirs = mode == Mode::Managed
            && mapping::is_distributed_repository(&self.side, secret)
            && self.project_for(agent, mode, &project).is_some();
        is_theirs.then(|| Arc::clone(secret))
    }
}

/// Says at which version an object ended, so that news of it that are newer are not undone.
fn at_version(news: Vec<News>, ended: &Key, version: Option<u64>) -> Vec<News> {
    let stamped = |news: News| match news {
        News { agent, key, seen: Seen::Gone(None) } if key == *ended => News { agent, key, seen: Seen::Gone(version) },
        news => news,
    };
    news.into_iter().map(stamped).collect()
}

#[cfg(test)]
mod tests;
