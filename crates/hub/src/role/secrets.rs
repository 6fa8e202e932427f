//! Which of Argo CD's cluster secrets stand for which agent: each for one, and several may for the same.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use thane_sync::mapping::is_dns_label;
use thane_sync::object::{self, AGENT_NAME, Object};

/// A cluster as Argo CD knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cluster {
    /// Its name.
    pub(super) name: String,
    /// Where it is reached.
    pub(super) server: String,
}

/// All secrets that name an agent.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    known: BTreeMap<String, (String, Cluster)>,
}

impl Secrets {
    /// A secret is like this; the agents it is about, before and now.
    pub(super) fn applied(&mut self, secret: &Object) -> BTreeSet<String> {
        let name = object::name(secret);
        let mut agents = self.deleted(name);
        let Some(agent) = object::label(secret, AGENT_NAME).filter(|agent| is_dns_label(agent)) else {
            tracing::warn!(secret = name, "a cluster secret names no agent that could be");
            return agents;
        };
        let cluster = Cluster {
            name: decoded(&secret["data"]["name"]).unwrap_or_else(|| agent.to_owned()),
            server: decoded(&secret["data"]["server"]).unwrap_or_default(),
        };
        self.known.insert(name.to_owned(), (agent.to_owned(), cluster));
        agents.insert(agent.to_owned());
        agents
    }

    /// A secret is gone; the agent it was about.
    pub(super) fn deleted(&mut self, name: &str) -> BTreeSet<String> {
        self.known.remove(name).map(|(agent, _)| agent).into_iter().collect()
    }

    /// These are all there are; the agents that the others were about.
    pub(super) fn listed(&mut self, secrets: &[Object]) -> BTreeSet<String> {
        let named: BTreeSet<&str> = secrets.iter().map(|secret| object::name(secret)).collect();
        let gone: Vec<String> = self.known.keys().filter(|name| !named.contains(name.as_str())).cloned().collect();
        gone.iter().flat_map(|name| self.deleted(name)).collect()
    }

    /// The cluster of an agent, if any secret stands for it; of several the first by name.
    pub(super) fn cluster(&self, agent: &str) -> Option<&Cluster> {
        self.known.values().find(|(named, _)| named == agent).map(|(_, cluster)| cluster)
    }
}

fn decoded(field: &Value) -> Option<String> {
    let bytes = BASE64_STANDARD.decode(field.as_str()?).ok()?;
    String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(name: &str, agent: &str) -> Object {
        let metadata = json!({"name": name, "labels": {AGENT_NAME: agent}});
        Object::new(
            json!({"metadata": metadata, "data": {"name": BASE64_STANDARD.encode(format!("{agent} of {name}"))}}),
        )
    }

    fn agents(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn an_agent_is_known_as_long_as_a_secret_names_it() {
        let mut secrets = Secrets::default();
        assert_eq!(secrets.applied(&secret("one", "a")), agents(&["a"]));
        assert_eq!(secrets.applied(&secret("two", "a")), agents(&["a"]));
        assert_eq!(secrets.cluster("a").unwrap().name, "a of one");
        assert_eq!(secrets.deleted("one"), agents(&["a"]));
        assert_eq!(secrets.cluster("a").unwrap().name, "a of two", "the other one still stands");
        assert_eq!(secrets.applied(&secret("two", "b")), agents(&["a", "b"]), "it names another now");
        assert_eq!((secrets.cluster("a"), secrets.cluster("b").is_some()), (None, true));
        assert_eq!(secrets.applied(&secret("two", "No Name")), agents(&["b"]));
        assert_eq!(secrets.cluster("b"), None);
    }

    #[test]
    fn what_a_list_lacks_is_gone() {
        let mut secrets = Secrets::default();
        for (name, agent) in [("one", "a"), ("two", "a"), ("three", "b")] {
            secrets.applied(&secret(name, agent));
        }
        assert_eq!(secrets.listed(&[secret("two", "a")]), agents(&["a", "b"]));
        assert_eq!((secrets.cluster("a").is_some(), secrets.cluster("b")), (true, None));
    }
}
