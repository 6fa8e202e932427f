//! What all parts of an agent share.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use thane_runtime::SharedClock;
use tokio::sync::{Notify, watch};

use super::checks::machine::Observation;
use super::checks::{Patient, Runners, alias};
use super::connection::Client;
use super::followed::Followed;
use super::keepsake::{self, Keepsakes};
use super::ledger::Ledger;
use super::metrics::Metrics;
use super::options::Adjustable;
use super::pending::{ItemKey, Pending};
use super::state::{Change, Edit, Observed};
use crate::backend::{Place, Wake};
use crate::model::{Check, Node};
use crate::topic::{Row, Topic, TopicData};

/// How many popular topics are asked for again after a restart.
const POPULAR_MAX: usize = 64;
/// How long an alias waits for the hub to say how another node is.
const ALIAS_TIMEOUT: Duration = Duration::from_secs(5);

/// What all parts of an agent share.
pub(super) struct Core {
    pub(super) id: String,
    pub(super) node: Node,
    pub(super) place: Place,
    pub(super) clock: SharedClock,
    pub(super) metrics: Metrics,
    pub(super) followed: Followed,
    pub(super) pending: Mutex<Pending>,
    /// There may be something to tell the hub.
    pub(super) stirred: Notify,
    /// Hubs are at other addresses.
    pub(super) moved: Notify,
    pub(super) keepsakes: Keepsakes,
    pub(super) runners: Runners,
    pub(super) adjustable: ArcSwap<Adjustable>,
    pub(super) incarnation: ArcSwap<String>,
    pub(super) ledger: OnceLock<Ledger>,
    /// Grows with every change of what is registered here.
    pub(super) changes: watch::Sender<u64>,
    pub(super) client: Mutex<Option<Client>>,
    pub(super) popular: Mutex<Vec<Topic>>,
    pub(super) is_compressed: bool,
}

impl Core {
    /// What is registered here.
    pub(super) fn ledger(&self) -> &Ledger {
        self.ledger.get().expect("the ledger is opened before anybody has the agent")
    }

    pub(super) fn hubs(&self) -> Vec<String> {
        self.adjustable.load().hubs.clone()
    }

    pub(super) fn watched_prefixes(&self) -> BTreeSet<String> {
        self.adjustable.load().watched_prefixes.clone()
    }

    pub(super) fn incarnation(&self) -> String {
        self.incarnation.load().as_ref().clone()
    }

    /// Counts anew from now on.
    pub(super) async fn renew_incarnation(&self) -> Result<(), thane_kv::Error> {
        let fresh = uuid::Uuid::new_v4().to_string();
        self.keepsakes.put(keepsake::INCARNATION, fresh.as_str()).await?;
        self.incarnation.store(Arc::new(fresh));
        Ok(())
    }

    /// What calls are made with, while there is a hub.
    pub(super) fn client(&self) -> Option<Client> {
        self.client.lock().clone()
    }

    /// A hub is there.
    pub(super) fn found(&self, client: Client) {
        *self.client.lock() = Some(client);
        self.followed.connected();
        self.pending.lock().connected(self.clock.monotonic());
        self.stirred.notify_one();
    }

    /// The hub is gone.
    pub(super) fn lost(&self) {
        self.client.lock().take();
        self.followed.disconnected();
        self.pending.lock().disconnected();
    }

    /// Every check, as the hub is told of it.
    pub(super) fn checks_told(&self) -> Vec<ItemKey> {
        self.ledger().with(|state| state.checks().keys().cloned().map(ItemKey::Check).collect())
    }

    /// The hub answered for each item.
    pub(super) fn settle(&self, now: Duration, taken: &[bool]) {
        self.pending.lock().answered(now, taken);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Changes are durable: checks run accordingly, and the hub is told.
    pub(super) fn committed(self: &Arc<Self>, edits: &[Edit]) {
        let patient: Arc<dyn Patient> = Arc::clone(self) as _;
        self.runners.follow(edits, &Arc::downgrade(&patient));
        let told: Vec<ItemKey> = edits.iter().filter_map(Edit::told).collect();
        if !told.is_empty() {
            self.pending.lock().touch(self.clock.monotonic(), told);
            self.stirred.notify_one();
        }
        if !edits.is_empty() {
            self.changes.send_modify(|changes| *changes += 1);
        }
    }

    /// Keeps what is read most, to be asked for first after a restart. What was popular before stays until so much else
    /// is: after a restart nothing has been read yet.
    pub(super) async fn remember_popular(&self) {
        let mut popular = self.followed.popular(POPULAR_MAX);
        let before: Vec<Topic> = self.popular.lock().iter().filter(|topic| !popular.contains(topic)).cloned().collect();
        popular.extend(before.into_iter().take(POPULAR_MAX.saturating_sub(popular.len())));
        popular.sort();
        if *self.popular.lock() == popular {
            return;
        }
        match self.keepsakes.put(keepsake::POPULAR, &popular).await {
            Ok(()) => *self.popular.lock() = popular,
            Err(error) => tracing::warn!(%error, "what is read most cannot be kept"),
        }
    }

    /// Keeps the tokens, so that rules hold after a restart without the hub.
    pub(super) async fn remember_tokens(&self, tokens: &TopicData) {
        if let Err(error) = self.keepsakes.put(keepsake::TOKENS, &(tokens.index, &tokens.rows)).await {
            tracing::warn!(%error, "tokens cannot be kept");
        }
    }

    /// Resolves when a hub's address is none of those there are any more.
    pub(super) async fn left(&self, address: &str) {
        loop {
            // Taken before looking, or a change between the two is missed.
            let moved = self.moved.notified();
            if !self.hubs().iter().any(|hub| hub == address) {
                return;
            }
            moved.await;
        }
    }

    /// How something on this node is doing.
    fn alias_here(&self, check: &Check) -> Observation {
        let service = &check.definition.alias_service;
        self.ledger().with(|state| {
            let of_service = (!service.is_empty()).then(|| state.checks_about(service)).into_iter().flatten();
            let all = state.checks_about("").chain(of_service).map(|kept| kept.check.as_ref());
            let of_it = all.filter(|other| other.id != check.id);
            let is_there = service.is_empty() || state.services().contains_key(service);
            alias::observation(is_there.then_some(of_it), service)
        })
    }

    /// How something on another node is doing.
    async fn alias_there(&self, check: &Check) -> (Observation, Wake) {
        let definition = &check.definition;
        let topic = Topic::Node(definition.alias_node.to_lowercase());
        let wake = self.followed.wake(&topic);
        let reading = match self.followed.slot(&topic) {
            Some(slot) => self.followed.read(&slot, ALIAS_TIMEOUT).await,
            None => None,
        };
        let Some(reading) = reading else {
            let nobody = Observation::new(crate::model::Status::Critical, "No cluster leader");
            return (nobody, Box::pin(tokio::time::sleep(ALIAS_TIMEOUT)));
        };
        let service = &definition.alias_service;
        let mut checks: Vec<&Check> = Vec::new();
        let mut is_there = false;
        for row in &reading.data.rows {
            match row {
                Row::Check(_, check) => checks.push(&check.value),
                Row::Instance(it) if it.service.value.id == *service => {
                    is_there = true;
                    checks.extend(it.checks.iter().map(|check| check.value.as_ref()));
                }
                Row::Node(_) if service.is_empty() => is_there = true,
                _ => {}
            }
        }
        (alias::observation(is_there.then_some(checks), service), wake)
    }
}

impl Patient for Core {
    fn observed(&self, observed: Observed) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let id = observed.id.clone();
            if let Err(error) = self.ledger().observe(Change::Observed(observed)).await {
                tracing::warn!(check = id, %error, "what a check said cannot be kept");
            }
        })
    }

    fn expired<'a>(&'a self, service_id: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            match self.ledger().observe(Change::Deregister(service_id.to_owned())).await {
                Ok(()) => tracing::info!(service = service_id, "deregistered"),
                Err(error) => tracing::warn!(service = service_id, %error, "cannot be deregistered"),
            }
        })
    }

    fn aliased<'a>(&'a self, check: &'a Check) -> BoxFuture<'a, (Observation, Wake)> {
        Box::pin(async move {
            let elsewhere = &check.definition.alias_node;
            if !elsewhere.is_empty() && !elsewhere.eq_ignore_ascii_case(&self.node.name) {
                return self.alias_there(check).await;
            }
            let mut changes = self.changes.subscribe();
            let wake: Wake = Box::pin(async move { drop(changes.changed().await) });
            (self.alias_here(check), wake)
        })
    }

    fn reports_all(&self) -> bool {
        self.adjustable.load().reports_all
    }
}
