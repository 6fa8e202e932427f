//! What is registered here, one change after the other, durable before it is answered.
//!
//! One task decides changes in the order they come. Changes that wait while the disk is busy share its next write.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use thane_kv::{Mutation, Query, Store, Txn};
use thane_runtime::Tasks;
use tokio::sync::{mpsc, oneshot};

use super::state::{CHECKS, Change, Edit, SERVICES, State};
use crate::command::Refusal;
use crate::model::{Check, Service};

/// Changes that may wait.
const WAITING_MAX: usize = 1024;
/// Changes that share a write.
const GROUP_MAX: usize = 256;
/// Keys one write may have: fewer than the store takes at once.
const KEYS_MAX: usize = 1_000;
/// Bytes of values after which a write is full; the store takes twice as many.
const WRITE_BYTES: usize = 8 * 1024 * 1024;

/// What happens once changes are durable.
pub(super) type Committed = Box<dyn Fn(&[Edit]) + Send + Sync>;

/// Where changes are asked for.
pub(super) struct Ledger {
    requests: mpsc::Sender<Request>,
    state: Arc<Mutex<State>>,
}

struct Request {
    change: Change,
    answer: oneshot::Sender<Result<(), Refusal>>,
}

/// Reads what was kept.
pub(super) async fn load(store: &dyn Store) -> Result<State, thane_kv::Error> {
    let services: Vec<Service> = values(store, SERVICES).await?;
    let checks: Vec<Check> = values(store, CHECKS).await?;
    Ok(State::restore(services, checks))
}

async fn values<T: serde::de::DeserializeOwned>(
    store: &dyn Store,
    prefix: &'static str,
) -> Result<Vec<T>, thane_kv::Error> {
    let page = store.range(Query::prefix(prefix)).await?;
    let read = page.entries.iter().filter_map(|entry| match serde_json::from_slice(&entry.value) {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::error!(%error, key = %String::from_utf8_lossy(&entry.key), "a registration cannot be read; it is left out");
            None
        }
    });
    Ok(read.collect())
}

impl Ledger {
    /// Decides changes from now on.
    pub(super) fn start(
        store: Arc<dyn Store>,
        state: Arc<Mutex<State>>,
        is_script_allowed: bool,
        committed: Committed,
        tasks: &Tasks,
    ) -> Self {
        let (requests, waiting) = mpsc::channel(WAITING_MAX);
        let own = state.lock().clone();
        let clerk = Clerk { store, own, shared: Arc::clone(&state), is_script_allowed, committed };
        let stopped = tasks.token();
        tasks.spawn("ledger", async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = clerk.run(waiting) => {}
            }
        });
        Self { requests, state }
    }

    /// Asks for a change; it is durable when this resolves.
    pub(super) async fn change(&self, change: Change) -> Result<(), Refusal> {
        let (answer, answered) = oneshot::channel();
        let closed = |()| Refusal::Failed("the agent is shutting down".to_owned());
        match self.requests.try_send(Request { change, answer }) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => {
                return Err(Refusal::Busy("too many registrations wait to be written".to_owned()));
            }
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(closed(())),
        }
        answered.await.map_err(|_| closed(()))?
    }

    /// Asks for a change of a check by its own runs, which wait for room.
    pub(super) async fn observe(&self, change: Change) -> Result<(), Refusal> {
        let (answer, answered) = oneshot::channel();
        let closed = || Refusal::Failed("the agent is shutting down".to_owned());
        self.requests.send(Request { change, answer }).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }

    /// What is registered, durably.
    pub(super) fn with<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.state.lock())
    }
}

/// The one who decides.
struct Clerk {
    store: Arc<dyn Store>,
    /// Ahead of what others see until it is durable.
    own: State,
    shared: Arc<Mutex<State>>,
    is_script_allowed: bool,
    committed: Committed,
}

impl Clerk {
    async fn run(mut self, mut waiting: mpsc::Receiver<Request>) {
        let mut group = Vec::new();
        while waiting.recv_many(&mut group, GROUP_MAX).await > 0 {
            let mut rest = std::mem::take(&mut group).into_iter().peekable();
            while rest.peek().is_some() {
                self.write(&mut rest).await;
            }
        }
    }

    /// Decides as many changes as fit into one write, writes them, and answers.
    async fn write(&mut self, requests: &mut std::iter::Peekable<std::vec::IntoIter<Request>>) {
        let mut keys: BTreeMap<Bytes, Option<Bytes>> = BTreeMap::new();
        let mut edits = Vec::new();
        let mut answers = Vec::new();
        let mut weight = 0;
        while let Some(request) = requests.next_if(|next| {
            weight += self.own.weight(&next.change);
            // One that does not fit by itself is written in parts.
            weight <= KEYS_MAX || keys.is_empty()
        }) {
            match self.own.decide(request.change, self.is_script_allowed) {
                Ok(decided) => {
                    for edit in &decided {
                        self.own.apply(edit);
                        keys.extend(edit.kept());
                    }
                    edits.extend(decided);
                    answers.push(request.answer);
                }
                Err(refusal) => drop(request.answer.send(Err(refusal))),
            }
        }
        let outcome = self.keep(keys).await;
        match &outcome {
            Ok(()) => {
                let mut shared = self.shared.lock();
                for edit in &edits {
                    shared.apply(edit);
                }
                drop(shared);
                (self.committed)(&edits);
            }
            Err(_) => self.own = self.shared.lock().clone(),
        }
        for answer in answers {
            // Whoever asked may have gone; what was asked for has happened.
            let _ = answer.send(outcome.clone());
        }
    }

    /// Writes checks before their services: of what was written in part, checks without a service are left out when it
    /// is read again.
    async fn keep(&self, keys: BTreeMap<Bytes, Option<Bytes>>) -> Result<(), Refusal> {
        let mut keys = keys.into_iter().peekable();
        while keys.peek().is_some() {
            let (mut mutations, mut bytes) = (Vec::new(), 0);
            while mutations.len() < KEYS_MAX
                && bytes < WRITE_BYTES
                && let Some((key, value)) = keys.next()
            {
                bytes += value.as_ref().map_or(0, Bytes::len);
                mutations.push(match value {
                    Some(value) => Mutation::Put { key, value, lease: None },
                    None => Mutation::Delete { key },
                });
            }
            let txn = Txn { compares: Vec::new(), mutations };
            self.store.txn(txn).await.map_err(|error| match error {
                thane_kv::Error::TooLarge { .. } => Refusal::TooLarge(error.to_string()),
                thane_kv::Error::Busy => Refusal::Busy(error.to_string()),
                _ => Refusal::Failed(format!("the registration cannot be kept: {error}")),
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use thane_kv::{MemoryOptions, MemoryStore};

    use super::*;
    use crate::agent::state::ReplaceChecks;
    use crate::agent::tests::bed::{service, ttl};

    async fn open(store: &Arc<dyn Store>) -> (Ledger, Tasks) {
        let (tasks, _) = Tasks::root("test");
        let state = Arc::new(Mutex::new(load(store.as_ref()).await.unwrap()));
        (Ledger::start(Arc::clone(store), state, false, Box::new(|_| {}), &tasks), tasks)
    }

    /// As an earlier version let them be registered: more things than the store takes at once.
    #[tokio::test]
    async fn a_service_with_more_checks_than_fit_into_a_write_can_go() {
        let store: Arc<dyn Store> = MemoryStore::new(MemoryOptions::default());
        let checks = (0..3_000).map(|n| {
            Edit::Check(
                crate::agent::state::Kept {
                    check: Arc::new(Check { service_id: "web".to_owned(), ..ttl(&format!("{n}")) }),
                    told: Arc::new(ttl("")),
                    generation: n,
                },
                crate::agent::state::Effect { keep: true, tell: true, run: true },
            )
        });
        let edits = checks.chain([Edit::Service(Arc::new(service("web", "web", 80)))]);
        for (key, value) in edits.filter_map(|edit| edit.kept()) {
            let mutation = Mutation::Put { key, value: value.unwrap(), lease: None };
            store.txn(Txn { compares: Vec::new(), mutations: vec![mutation] }).await.unwrap();
        }
        let (ledger, tasks) = open(&store).await;
        assert_eq!(ledger.with(|state| state.checks().len()), 3_000);
        ledger.change(Change::Deregister("web".to_owned())).await.unwrap();
        tasks.shutdown(Duration::from_secs(5)).await;
        assert_eq!(load(store.as_ref()).await.unwrap().keys(), []);
    }

    #[tokio::test]
    async fn those_with_many_checks_hold_up_nobody_who_waits_beside_them() {
        let store: Arc<dyn Store> = MemoryStore::new(MemoryOptions::default());
        let (ledger, tasks) = open(&store).await;
        let ask = |name: String| {
            let checks = (0..500).map(|n| ttl(&format!("{name}-{n}"))).collect();
            ledger.change(Change::Register(Box::new(service(&name, &name, 80)), checks, ReplaceChecks::No))
        };
        let done = futures::future::join_all((0..9).map(|n| ask(format!("web-{n}")))).await;
        assert!(done.iter().all(Result::is_ok), "{done:?}");
        tasks.shutdown(Duration::from_secs(5)).await;
        assert_eq!(load(store.as_ref()).await.unwrap().keys().len(), 9 * 501);
    }
}
