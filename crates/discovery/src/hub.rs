//! The registry as it runs on the hub: kept in a store, written by one task, read from topics kept ready.
//!
//! Commands wait in a bounded queue. The writer takes those that wait, decides them one after the other, stores all they
//! change in one transaction, and only then lets readers see it, wakes who waits for what changed, and answers. So one
//! wait for the disk serves many, and nothing is seen that could be lost.

mod cold;
mod error;
mod follow;
mod metrics;
mod slots;
mod snapshot;
mod storage;
#[cfg(test)]
mod tests;
mod timers;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::RwLock;
use thane_kv::Store;
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::backend::{Backend, Caller, Consistency, Freshness, LocalAgent, Place, Reading, Unavailable, Wake};
use crate::command::{Command, Done, Refusal};
use crate::model::{Index, Indexed, Node};
use crate::registry::{AgentRecord, Id, Tables, Thing};
use crate::topic::{Delta, Topic, TopicData};

pub use error::Error;
pub use follow::{Follower, TOPICS_MAX};
pub use metrics::Metrics;

use cold::Hot;
use storage::Storage;
use writer::{Job, Writer};

/// How the registry behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the hub is; unless its node has no name, it is in the catalog too, as Consul's servers are.
    pub place: Place,
    /// An agent not heard of for so long is not there.
    pub lease: Duration,
    /// An agent not there for so long is forgotten, with its node.
    pub reap_after: Duration,
    /// Commands that may wait; beyond it they are refused. A few batches' worth: more would only make them wait longer.
    pub queue: usize,
    /// Topics kept ready beyond those somebody waits for.
    pub topics: usize,
    /// Rows that went and are remembered, so that who missed it can be told.
    pub tombs: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            place: Place::default(),
            lease: Duration::from_secs(30),
            reap_after: Duration::from_hours(72),
            queue: 4096,
            topics: 20_000,
            tombs: 100_000,
        }
    }
}

/// The registry. Opened once for a store; shared.
pub struct Registry {
    shared: Arc<Shared>,
    jobs: mpsc::Sender<Job>,
    place: Place,
    lease: Duration,
    clock: SharedClock,
    metrics: Metrics,
}

/// What the writer and the readers share.
struct Shared {
    hot: RwLock<Hot>,
    index: AtomicU64,
    /// Told when what was being stored is stored.
    settled: Notify,
}

impl Registry {
    /// Reads what is stored and starts to take commands.
    pub async fn open(
        store: Arc<dyn Store>,
        options: Options,
        clock: SharedClock,
        tasks: &Tasks,
    ) -> Result<Arc<Self>, Error> {
        let (storage, tables) = Storage::load(store, options.tombs).await?;
        let shared = Arc::new(Shared {
            index: AtomicU64::new(tables.index()),
            hot: RwLock::new(Hot::new(tables, options.topics)),
            settled: Notify::new(),
        });
        let metrics = Metrics::default();
        let (jobs, queue) = mpsc::channel(options.queue.max(1));
        let (place, lease) = (options.place.clone(), options.lease);
        let mut writer = Writer::new(Arc::clone(&shared), queue, storage, options, Arc::clone(&clock), metrics.clone());
        writer.begin().await?;
        let token = tasks.token();
        tasks.spawn_essential("registry", async move { writer.run(token).await });
        Ok(Arc::new(Self { shared, jobs, place, lease, clock, metrics }))
    }

    /// What it tells about itself.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The newest point in history that is stored and can be read.
    pub fn index(&self) -> Index {
        self.shared.index.load(Ordering::Acquire)
    }

    /// Which life of the registry's data this is: indexes of another mean nothing here.
    pub fn lineage(&self) -> String {
        self.shared.hot.read().tables.lineage().to_owned()
    }

    /// A topic as it is.
    pub async fn topic(&self, topic: &Topic) -> Arc<TopicData> {
        loop {
            let settled = self.shared.settled.notified();
            if let Some(data) = self.shared.data(topic) {
                return data;
            }
            settled.await;
        }
    }

    /// What changed in a topic since an index; everything, if that cannot be told.
    pub async fn delta(&self, topic: &Topic, since: Index) -> Delta {
        loop {
            let settled = self.shared.settled.notified();
            if let Some(delta) = self.shared.delta(topic, since) {
                return delta;
            }
            settled.await;
        }
    }

    /// Resolves when the topic may have changed. Take it before the reading it is meant for.
    pub fn changed(&self, topic: &Topic) -> Wake {
        self.shared.wake(topic)
    }

    /// Somebody who is told which of many topics changed.
    pub fn follower(&self) -> Follower {
        Follower::new(Arc::clone(&self.shared))
    }

    /// An agent gave a sign of life.
    pub fn agent_seen(&self, agent: &str) {
        // A sign of life that finds the queue full is lost; the next one comes long before the lease lapses.
        if self.jobs.try_send(Job::Seen(agent.to_owned())).is_err() {
            self.metrics.busy.inc();
        }
    }

    /// The node of an agent, if it has said which.
    pub fn agent_node(&self, agent: &str) -> Option<Indexed<Node>> {
        let hot = self.shared.hot.read();
        let record = hot.agent(agent)?;
        hot.tables.node(&record.node).cloned()
    }

    /// What is known about an agent.
    pub fn agent(&self, agent: &str) -> Option<Arc<AgentRecord>> {
        self.shared.hot.read().agent(agent)
    }

    /// How long an agent may be silent.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// Writes for whoever asks an agent, or, without one, the hub itself.
    pub async fn write_from(&self, agent: Option<&str>, command: Command) -> Result<Done, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Write { command: Box::new(command), agent: agent.map(str::to_owned), reply })?;
        answer.await.unwrap_or(Err(Refusal::NoHub))
    }

    /// Everything, in one piece.
    pub async fn snapshot(&self) -> Result<Bytes, Error> {
        let (reply, answer) = oneshot::channel();
        self.jobs.send(Job::Snapshot { reply }).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)
    }

    /// Replaces everything by what a snapshot has. The index goes up.
    pub async fn restore(&self, snapshot: Bytes) -> Result<Index, Error> {
        let (reply, answer) = oneshot::channel();
        self.jobs.send(Job::Restore { snapshot, reply }).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }

    fn send(&self, job: Job) -> Result<(), Refusal> {
        self.jobs.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                self.metrics.busy.inc();
                Refusal::Busy("too many writes are waiting; try again".to_owned())
            }
            mpsc::error::TrySendError::Closed(_) => Refusal::NoHub,
        })
    }
}

impl Backend for Registry {
    fn ready(&self, topic: &Topic, _: Consistency) -> Option<Reading> {
        self.shared.data(topic).map(reading)
    }

    fn read<'a>(&'a self, topic: &'a Topic, _: Consistency) -> BoxFuture<'a, Result<Reading, Unavailable>> {
        Box::pin(async move { Ok(reading(self.topic(topic).await)) })
    }

    fn wake(&self, topic: &Topic) -> Wake {
        self.changed(topic)
    }

    fn write<'a>(&'a self, _: &'a Caller, command: Command) -> BoxFuture<'a, Result<Done, Refusal>> {
        Box::pin(self.write_from(None, command))
    }

    fn save<'a>(&'a self, _: &'a Caller) -> BoxFuture<'a, Result<Bytes, Refusal>> {
        Box::pin(async move { Ok(self.snapshot().await?) })
    }

    fn restore<'a>(&'a self, _: &'a Caller, saved: Bytes) -> BoxFuture<'a, Result<Index, Refusal>> {
        Box::pin(async move { Ok(Self::restore(self, saved).await?) })
    }

    fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    fn local(&self) -> Option<&dyn LocalAgent> {
        None
    }

    fn place(&self) -> &Place {
        &self.place
    }
}

impl Hot {
    fn agent(&self, name: &str) -> Option<Arc<AgentRecord>> {
        agent_record(&self.tables, name)
    }
}

fn agent_record(tables: &Tables, name: &str) -> Option<Arc<AgentRecord>> {
    match tables.get(&Id::Agent(name.to_owned())) {
        Some(Thing::Agent(record)) => Some(Arc::clone(&record.value)),
        _ => None,
    }
}

/// The hub has what it reads: it is as fresh as can be.
fn reading(data: Arc<TopicData>) -> Reading {
    Reading { data, freshness: Freshness { connected: true, last_contact: Duration::ZERO, hit: Some(Duration::ZERO) } }
}
