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
/// Keys one write may have.
const KEYS_MAX: usize = 900;

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
        while keys.len() < KEYS_MAX
            && let Some(request) = requests.next()
        {
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

    async fn keep(&self, keys: BTreeMap<Bytes, Option<Bytes>>) -> Result<(), Refusal> {
        if keys.is_empty() {
            return Ok(());
        }
        let mutations = keys.into_iter().map(|(key, value)| match value {
            Some(value) => Mutation::Put { key, value, lease: None },
            None => Mutation::Delete { key },
        });
        let txn = Txn { compares: Vec::new(), mutations: mutations.collect() };
        self.store.txn(txn).await.map(drop).map_err(|error| match error {
            thane_kv::Error::TooLarge { .. } => Refusal::TooLarge(error.to_string()),
            thane_kv::Error::Busy => Refusal::Busy(error.to_string()),
            _ => Refusal::Failed(format!("the registration cannot be kept: {error}")),
        })
    }
}
