//! Services that come, change, move and go on one node.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use thane_discovery::agent::Agent;
use thane_discovery::backend::LocalAgent;
use thane_discovery::command::Refusal;
use thane_discovery::model::{Check, CheckDefinition, Service, Status};

use super::book::Book;

/// Names of services, and instances of all of them on one node.
pub(super) const NAMES: u16 = 3;
const INSTANCES: u16 = 6;

/// Registers, changes and deregisters until all is calm.
pub(super) async fn run(node: String, agent: Arc<Agent>, book: Arc<Book>, mut rng: StdRng) {
    while !book.is_calm() {
        tokio::time::sleep(Duration::from_millis(rng.random_range(5..900))).await;
        let id = format!("web-{}", rng.random_range(0..INSTANCES));
        match rng.random_range(0..10) {
            0..=4 => register(&node, &agent, &book, &id, &mut rng).await,
            5..=7 => deregister(&node, &agent, &book, &id).await,
            _ => {
                let status = [Status::Passing, Status::Warning, Status::Critical][rng.random_range(0..3)];
                // It may not be there; what matters is that all agree in the end.
                let _ = agent.update_check(&check_id(&id), status, format!("run {}", book.number())).await;
            }
        }
    }
}

async fn register(node: &str, agent: &Agent, book: &Book, id: &str, rng: &mut StdRng) {
    let name = format!("svc-{}", rng.random_range(0..NAMES));
    let port = u16::try_from(book.number()).unwrap();
    let service = Service { id: id.to_owned(), name: name.clone(), port, ..Service::default() };
    let checks = if rng.random() { vec![check(id)] } else { Vec::new() };
    let (key, value) = ((node.to_owned(), id.to_owned()), Some((name, port)));
    book.services.lock().entry(key.clone()).or_default().ask(value.clone());
    match agent.register(service, checks, rng.random()).await {
        Ok(()) => {
            book.services.lock().entry(key).or_default().settled(value);
            book.tell("registered");
        }
        Err(refusal) => book.complain(&format!("{node}: registration of {id} was refused: {refusal}")),
    }
}

async fn deregister(node: &str, agent: &Agent, book: &Book, id: &str) {
    let key = (node.to_owned(), id.to_owned());
    book.services.lock().entry(key.clone()).or_default().ask(None);
    match agent.deregister(id).await {
        Ok(()) | Err(Refusal::NotFound(_)) => {
            book.services.lock().entry(key).or_default().settled(None);
            book.tell("deregistered");
        }
        Err(refusal) => book.complain(&format!("{node}: {id} could not be deregistered: {refusal}")),
    }
}

fn check_id(service: &str) -> String {
    format!("service:{service}")
}

fn check(service: &str) -> Check {
    Check {
        id: check_id(service),
        name: "alive".to_owned(),
        status: Status::Critical,
        notes: String::new(),
        output: String::new(),
        service_id: service.to_owned(),
        service_name: String::new(),
        service_tags: Vec::new(),
        kind: "ttl".to_owned(),
        definition: CheckDefinition { ttl: Duration::from_hours(1), ..CheckDefinition::default() }.into(),
    }
}
