//! No registration is lost or doubled on a network that drops, delays and repeats.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::bed::{Hub, instances, service, web};
use crate::agent::pending::{Cadence, ItemKey, Pending, Sequence, Step};
use crate::agent::state::{Change, ReplaceChecks, State};
use crate::command::{Batch, Command, Outcome};
use crate::model::Node;

/// An agent's pure parts, driven by chance.
struct Agent {
    state: State,
    pending: Pending,
    sequence: Sequence,
    incarnation: String,
    now: Duration,
}

impl Agent {
    fn change(&mut self, change: Change) {
        for edit in self.state.decide(change, false).unwrap_or_default() {
            self.state.apply(&edit);
            self.pending.touch(self.now, edit.told());
        }
    }

    /// The process ends and starts again; what is on disk stays.
    fn restart(&mut self) {
        self.pending = Pending::new(Cadence::default());
        self.sequence = Sequence::after(self.sequence.peek() + Sequence::STRIDE);
        self.pending.connected(self.now);
    }

    fn batch(&mut self, keys: &[ItemKey], full: bool) -> Batch {
        if let Some(wanted) = self.sequence.wanted() {
            self.sequence.reserve(wanted);
        }
        Batch {
            node: Node { name: "node-1".to_owned(), address: "10.0.0.1".to_owned(), ..Node::default() },
            incarnation: self.incarnation.clone(),
            sequence: self.sequence.take().unwrap(),
            full,
            items: keys.iter().map(|key| self.state.item(key)).collect(),
        }
    }

    /// What it would send now.
    fn step(&mut self) -> Option<Batch> {
        match self.pending.next(self.now) {
            Step::Full => {
                let keys = self.state.keys();
                self.pending.begin_full(keys.clone());
                Some(self.batch(&keys, true))
            }
            Step::Send(keys) => Some(self.batch(&keys, false)),
            Step::At(then) => {
                self.now = self.now.max(then.min(self.now + Duration::from_secs(10)));
                None
            }
            Step::Health | Step::Idle => None,
        }
    }
}

async fn deliver(hub: &Hub, batch: Batch) -> Option<Vec<bool>> {
    let done = hub.registry.write_from(None, Command::Agent("agent-1".to_owned(), batch)).await.ok()?;
    match done.outcome {
        Outcome::Items(results) => Some(results.iter().map(Result::is_ok).collect()),
        _ => None,
    }
}

async fn run(seed: u64) {
    let mut chance = StdRng::seed_from_u64(seed);
    let mut hub = Hub::start().await;
    let mut agent = Agent {
        state: State::default(),
        pending: Pending::new(Cadence::default()),
        sequence: Sequence::after(0),
        incarnation: "first".to_owned(),
        now: Duration::ZERO,
    };
    agent.pending.connected(agent.now);
    // Batches that are still on their way although nobody waits for them any more.
    let mut late: Vec<Batch> = Vec::new();
    for round in 0..300_u16 {
        let id = format!("web-{}", chance.random_range(0..8));
        match chance.random_range(0..10) {
            0..=3 => {
                let it = Box::new(service(&id, "web", round));
                agent.change(Change::Register(it, Vec::new(), ReplaceChecks::No));
            }
            4 | 5 => agent.change(Change::Deregister(id)),
            6 => agent.restart(),
            7 if chance.random_range(0..8) == 0 => hub = Hub::on(hub.stop().await).await,
            _ => agent.now += Duration::from_millis(chance.random_range(0..20_000)),
        }
        if let Some(batch) = agent.step() {
            match chance.random_range(0..6) {
                // Lost on the way there; perhaps it arrives later.
                0 => {
                    late.push(batch);
                    agent.pending.failed(agent.now);
                }
                // The answer is lost.
                1 => {
                    deliver(&hub, batch).await;
                    agent.pending.failed(agent.now);
                }
                // It arrives twice.
                2 => {
                    let first = deliver(&hub, batch.clone()).await.unwrap();
                    late.push(batch);
                    agent.pending.answered(agent.now, &first);
                }
                _ => {
                    let taken = deliver(&hub, batch).await.unwrap();
                    agent.pending.answered(agent.now, &taken);
                }
            }
        }
        if !late.is_empty() && chance.random_range(0..4) == 0 {
            let batch = late.swap_remove(chance.random_range(0..late.len()));
            deliver(&hub, batch).await;
        }
    }
    for _ in 0..50 {
        if let Some(batch) = agent.step() {
            let taken = deliver(&hub, batch).await.unwrap();
            agent.pending.answered(agent.now, &taken);
        }
    }
    for batch in late {
        deliver(&hub, batch).await;
    }
    assert!(agent.pending.is_empty(), "seed {seed}");
    let data = hub.registry.topic(&web()).await;
    let has: BTreeMap<String, u16> = instances(&data).into_iter().map(|(_, id, port)| (id, port)).collect();
    let wants: BTreeMap<String, u16> =
        agent.state.services().values().map(|service| (service.id.clone(), service.port)).collect();
    assert_eq!(has, wants, "seed {seed}");
    hub.stop().await;
}

#[tokio::test]
async fn nothing_is_lost_or_doubled_on_a_bad_network() {
    for seed in 0..60 {
        run(seed).await;
    }
}
