//! Those who want a lock, hold it for a while, and lose it in every way there is.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use thane_discovery::agent::Agent;
use thane_discovery::backend::{Backend, Caller};
use thane_discovery::command::{Command, KvOp, KvVerb, Outcome};
use thane_discovery::model::{Behavior, Session};

use super::book::Book;
use super::keys::op;

/// The shortest there is.
const TTL: Duration = Duration::from_secs(10);
const LOCKS: u16 = 2;

/// Locks until all is calm.
pub(super) async fn run(node: String, agent: Arc<Agent>, book: Arc<Book>, mut rng: StdRng) {
    while !book.is_calm() {
        tokio::time::sleep(Duration::from_millis(rng.random_range(100..2_000))).await;
        if let Some(holder) = Holder::create(&node, &agent, &book, &mut rng).await {
            holder.contend(&mut rng).await;
        }
    }
}

fn now() -> Duration {
    turmoil::sim_elapsed().unwrap_or_default()
}

struct Holder<'a> {
    agent: &'a Agent,
    book: &'a Book,
    session: String,
    /// Until then the session surely lives.
    until: Duration,
}

impl<'a> Holder<'a> {
    async fn create(node: &str, agent: &'a Agent, book: &'a Book, rng: &mut StdRng) -> Option<Self> {
        let id = format!("{node}-session-{}", book.number());
        let session = Session {
            id: id.clone(),
            name: "contender".to_owned(),
            node: node.to_owned(),
            lock_delay: Duration::from_secs(rng.random_range(0..4)),
            behavior: if rng.random() { Behavior::Release } else { Behavior::Delete },
            ttl: Some(TTL),
            node_checks: if rng.random() { vec!["serfHealth".to_owned()] } else { Vec::new() },
            service_checks: Vec::new(),
        };
        let until = now() + TTL;
        agent.write(&Caller::default(), Command::CreateSession(session)).await.ok()?;
        Some(Self { agent, book, session: id, until })
    }

    async fn lock(&self, verb: KvVerb, lock: &str) -> bool {
        let command = KvOp { session: self.session.clone(), ..op(verb, lock, &self.session) };
        let done = self.agent.write(&Caller::default(), Command::Kv(command)).await;
        matches!(done.map(|done| done.outcome), Ok(Outcome::Kv(true)))
    }

    async fn contend(mut self, rng: &mut StdRng) {
        let lock = format!("lock/{}", rng.random_range(0..LOCKS));
        for _ in 0..rng.random_range(1..8) {
            if self.lock(KvVerb::Lock, &lock).await && now() < self.until {
                self.book.hold(&lock, &self.session, self.until);
                self.book.tell("locked");
            } else {
                self.book.tell("not locked");
            }
            tokio::time::sleep(Duration::from_millis(rng.random_range(50..4_000))).await;
            if !self.renew(rng).await || self.book.is_calm() {
                break;
            }
        }
        match rng.random_range(0..3) {
            0 => {
                self.book.let_go(&self.session);
                self.lock(KvVerb::Unlock, &lock).await;
            }
            1 => {
                self.book.let_go(&self.session);
                let _ = self.agent.write(&Caller::default(), Command::DestroySession(self.session)).await;
            }
            // It ends by itself.
            _ => {}
        }
    }

    /// Renews at times; whether the session may still live.
    async fn renew(&mut self, rng: &mut StdRng) -> bool {
        if rng.random() {
            return true;
        }
        let until = now() + TTL;
        let renewed = self.agent.write(&Caller::default(), Command::RenewSession(self.session.clone())).await;
        match renewed.map(|done| done.outcome) {
            Ok(Outcome::Session(Some(_))) => {
                self.until = until;
                self.book.renew(&self.session, until);
                self.book.tell("renewed");
                true
            }
            // Nobody knows.
            Err(thane_discovery::command::Refusal::NoHub) => true,
            _ => {
                self.book.tell("lapsed");
                false
            }
        }
    }
}
