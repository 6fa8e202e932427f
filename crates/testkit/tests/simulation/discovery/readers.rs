//! Those who look.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use thane_discovery::agent::Agent;
use thane_discovery::backend::{Backend, Consistency, LocalAgent};
use thane_discovery::topic::Topic;

use super::book::{Book, View};
use super::{keys, services};

/// Everything that is compared at the end, and read meanwhile.
fn topics() -> Vec<Topic> {
    let services = (0..services::NAMES).map(|number| Topic::Service(format!("svc-{number}")));
    let nodes = (1..=super::AGENTS).map(|number| Topic::Node(format!("agent-{number}")));
    let rest = [
        Topic::Services,
        Topic::Instances,
        Topic::Nodes,
        Topic::Checks,
        Topic::Sessions,
        Topic::Keys(keys::PREFIX.to_owned()),
        Topic::Keys(String::new()),
        Topic::Key(keys::COUNTER.to_owned()),
        Topic::Key("lock/0".to_owned()),
        Topic::Key(format!("{}agent-1/0", keys::PREFIX)),
    ];
    services.chain(nodes).chain(rest).collect()
}

/// Reads one thing after the other near an agent, now and then waiting for it to change.
pub(super) async fn run(node: String, agent: Arc<Agent>, book: Arc<Book>, mut rng: StdRng) {
    let topics = topics();
    // What the hub is asked may be ahead of what is pushed.
    let direct = format!("{node}, consistent");
    loop {
        tokio::time::sleep(Duration::from_millis(rng.random_range(5..400))).await;
        let topic = &topics[rng.random_range(0..topics.len())];
        let (reader, consistency) = match rng.random_range(0..8) {
            0 => (&direct, Consistency::Consistent),
            1 | 2 => (&node, Consistency::Stale),
            _ => (&node, Consistency::Default),
        };
        let wake = agent.wake(topic);
        if let Ok(reading) = agent.read(topic, consistency).await {
            book.read(reader, topic, &reading.data);
            if !reading.freshness.connected {
                book.tell("stale");
            }
        }
        if rng.random_ratio(1, 3) {
            let _ = tokio::time::timeout(Duration::from_secs(2), wake).await;
            if let Ok(reading) = agent.read(topic, consistency).await {
                book.read(reader, topic, &reading.data);
            }
        }
    }
}

/// Sees every state of the catalogue that the registry shows.
pub(super) async fn witness(registry: Arc<dyn Backend>, book: Arc<Book>) {
    loop {
        let wake = registry.wake(&Topic::Instances);
        if let Ok(reading) = registry.read(&Topic::Instances, Consistency::Default).await {
            book.read("hub", &Topic::Instances, &reading.data);
            book.watch(&reading.data);
        }
        wake.await;
    }
}

/// Once all is calm, tells what it sees, again and again.
pub(super) async fn view(name: String, backend: Arc<dyn Backend>, agent: Option<Arc<Agent>>, book: Arc<Book>) {
    loop {
        tokio::time::sleep(Duration::from_millis(400)).await;
        if !book.is_calm() {
            continue;
        }
        let mut view = View::default();
        for topic in topics() {
            if let Ok(reading) = backend.read(&topic, Consistency::Default).await
                && reading.freshness.connected
            {
                book.read(&name, &topic, &reading.data);
                view.topics.insert(topic, reading.data);
            }
        }
        if let Some(agent) = &agent {
            let own = agent.services();
            let services = own.values().map(|local| &local.service);
            view.services = services.map(|it| (it.id.clone(), (it.name.clone(), it.port))).collect();
            view.checks = agent.checks().values().map(|check| (check.id.clone(), check.status)).collect();
            view.pending = agent.pending();
        }
        book.views.lock().insert(name.clone(), view);
    }
}
