//! An agent that lets nobody reach into its cluster says so to whoever asks.

use std::sync::Arc;

use serde_json::json;
use thane_api::event::{Event, Target, Type};
use thane_api::live::{ResourceRequest, ResourceResponse};
use thane_link::{Passage, Passing};

const WHY: &str =
    "live access is switched off on this agent: its setting agent.live, or ARGOCD_AGENT_ENABLE_RESOURCE_PROXY";

/// Refuses requests for resources.
pub struct Closed {
    passage: Passage,
}

impl Closed {
    /// Answers on the line found there.
    pub fn new(passage: Passage) -> Arc<Self> {
        Arc::new(Self { passage })
    }
}

impl Passing for Closed {
    fn received(&self, peer: &str, event: Event) {
        let Ok(request) = serde_json::from_slice::<ResourceRequest>(&event.data) else { return };
        let status = json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": WHY,
        });
        let uuid = request.uuid;
        let response = ResourceResponse { uuid: uuid.clone(), status: 403, resource: status.to_string() };
        let Ok(data) = serde_json::to_vec(&response) else { return };
        let id = uuid::Uuid::new_v4().to_string();
        // Without room for it, whoever asked waits no longer than it wants to.
        let _ = self.passage.send(peer, Event::answer(Target::Resource, Type::Response, id, &uuid, data.into()));
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[tokio::test]
    async fn whoever_asks_hears_that_it_is_switched_off() {
        let passage = Passage::default();
        let mut line = passage.attach("hub", CancellationToken::new());
        let closed = Closed::new(passage);
        closed.received("hub", Event::request(Target::Resource, Type::Verb("GET".into()), "r", "no JSON".into()));
        let request = json!({"uuid": "r-1", "name": "pods"}).to_string();
        closed.received("hub", Event::request(Target::Resource, Type::Verb("GET".into()), "r-1", request.into()));
        let answer = line.recv().await.unwrap();
        let response: ResourceResponse = serde_json::from_slice(&answer.data).unwrap();
        assert_eq!((&*answer.event_id, &*response.uuid, response.status), ("r-1", "r-1", 403));
        assert!(response.resource.contains("switched off"), "{}", response.resource);
    }
}
