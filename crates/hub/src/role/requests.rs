//! What people ask of an agent's connection by a note on its object.

use std::collections::BTreeMap;

use http::Request;
use kube::Client;
use serde_json::Value;
use thane_link::{Observed, explain};
use thane_sync::object::{self, Object};

use super::record::PATH;

/// The annotation that asks for everything to be sent again; its value is the time, and a new one a new request.
pub const RESYNC: &str = "thane.dev/resync";

/// Requests that have been seen.
#[derive(Debug, Default)]
pub(super) struct Requests {
    seen: BTreeMap<String, String>,
    is_started: bool,
}

impl Requests {
    /// The agents whose objects carry a new request. What was there at the start is done: connecting compares anyway.
    pub(super) fn observe(&mut self, observed: &Observed) -> Vec<String> {
        let is_first = !std::mem::replace(&mut self.is_started, true);
        match observed {
            Observed::All(agents, _) => {
                let names: Vec<&str> = agents.iter().map(|agent| object::name(agent)).collect();
                self.seen.retain(|name, _| names.contains(&name.as_str()));
                let new: Vec<String> = agents.iter().filter_map(|agent| self.note(agent)).collect();
                if is_first { Vec::new() } else { new }
            }
            Observed::Applied(agent) => self.note(agent).into_iter().collect(),
            Observed::Deleted(agent) => {
                self.seen.remove(object::name(agent));
                Vec::new()
            }
        }
    }

    fn note(&mut self, agent: &Object) -> Option<String> {
        let request = agent["metadata"]["annotations"][RESYNC].as_str()?;
        let name = object::name(agent).to_owned();
        let earlier = self.seen.insert(name.clone(), request.to_owned());
        (earlier.as_deref() != Some(request)).then_some(name)
    }
}

/// Whether the API has agents as objects.
pub(super) async fn is_served(client: &Client) -> bool {
    let Ok(request) = Request::get(format!("{PATH}?limit=1")).body(Vec::new()) else { return false };
    match client.request::<Value>(request).await {
        Ok(_) => true,
        Err(error) => {
            let error = match error {
                kube::Error::Api(status) if status.code == 404 => {
                    "the kind is not there: apply 10-definition.yaml of deploy/hub".to_owned()
                }
                error => explain(&error, "list", PATH),
            };
            tracing::warn!(error, "agents are not kept as objects");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn agent(name: &str, request: &str) -> Object {
        Arc::new(json!({"metadata": {"name": name, "annotations": {RESYNC: request}}}))
    }

    #[test]
    fn a_request_counts_once_and_not_those_from_before() {
        let mut requests = Requests::default();
        assert!(requests.observe(&Observed::All(vec![agent("a", "1")], 1)).is_empty());
        assert!(requests.observe(&Observed::Applied(agent("a", "1"))).is_empty());
        assert_eq!(requests.observe(&Observed::Applied(agent("a", "2"))), ["a"]);
        assert!(requests.observe(&Observed::Applied(agent("a", "2"))).is_empty());
        let bare = Arc::new(json!({"metadata": {"name": "b"}}));
        assert!(requests.observe(&Observed::Applied(bare)).is_empty());
        assert_eq!(requests.observe(&Observed::All(vec![agent("a", "2"), agent("b", "3")], 2)), ["b"]);
        requests.observe(&Observed::Deleted(agent("a", "2")));
        assert_eq!(requests.observe(&Observed::Applied(agent("a", "2"))), ["a"]);
    }
}
