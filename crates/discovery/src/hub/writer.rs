//! The one task that writes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use thane_runtime::SharedClock;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::cold::Hot;
use super::error::Error;
use super::metrics::{Metrics, gauge};
use super::storage::{Record, Storage};
use super::timers::{Now, Timers};
use super::{Options, Shared, agent_record, snapshot};
use crate::command::{Command, Done, Outcome, Refusal, Registration};
use crate::model::{Index, Node};
use crate::registry::{self, Applied, Asker, Changes, Due, Id, Tables};

/// Commands decided together at most.
const BATCH: usize = 256;
/// A batch that changed so many things takes no further command.
const BATCH_THINGS: usize = 256;
/// Bytes of values a batch takes before it closes.
const BATCH_BYTES: usize = 2 * 1024 * 1024;

/// How often within a lease it looks what is due. An agent is heard of three times in it: a hub that stood still for less
/// than two of these has condemned nobody.
const TICKS: u32 = 10;
/// However short leases are, a busy machine is not taken for one that stood still.
const STALL_MIN: Duration = Duration::from_secs(1);

/// What the writer is asked to do.
pub(super) enum Job {
    Write { command: Box<Command>, agent: Option<String>, reply: Reply },
    Seen(String),
    Snapshot { reply: oneshot::Sender<Bytes> },
    Restore { snapshot: Bytes, reply: oneshot::Sender<Result<Index, Error>> },
}

type Reply = oneshot::Sender<Result<Done, Refusal>>;

pub(super) struct Writer {
    shared: Arc<Shared>,
    queue: mpsc::Receiver<Job>,
    storage: Storage,
    timers: Timers,
    options: Options,
    clock: SharedClock,
    metrics: Metrics,
    /// When it last looked what is due.
    looked: Duration,
}

/// What is decided and not yet stored.
#[derive(Default)]
struct Batch {
    written: BTreeSet<Id>,
    renewed: Vec<String>,
    seen: Vec<String>,
    answers: Vec<(Reply, Result<Outcome, Refusal>, Index)>,
    commands: usize,
    bytes: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.commands >= BATCH || self.written.len() >= BATCH_THINGS || self.bytes >= BATCH_BYTES
    }

    /// Changes the tables; what that touches is not made anew for readers until it is stored.
    fn apply(&mut self, hot: &mut Hot, changes: &Changes) {
        let Applied { index, touches, written } = hot.tables.apply(changes);
        hot.storing.extend(touches.into_iter().map(|touch| (touch, index)));
        self.written.extend(written);
    }
}

impl Writer {
    pub(super) fn new(
        shared: Arc<Shared>,
        queue: mpsc::Receiver<Job>,
        storage: Storage,
        options: Options,
        clock: SharedClock,
        metrics: Metrics,
    ) -> Self {
        let (timers, looked) = (Timers::new(&options), clock.monotonic());
        Self { shared, queue, storage, timers, options, clock, metrics, looked }
    }

    /// What has to happen before the first command.
    pub(super) async fn begin(&mut self) -> Result<(), Error> {
        self.storage.tidy().await?;
        let now = self.now();
        let mut batch = Batch::default();
        {
            let mut hot = self.shared.hot.write();
            self.timers.begin(&hot.tables, now);
            let changes = hot.tables.repair();
            batch.apply(&mut hot, &changes);
            if let Some(command) = self.own_node(&hot.tables) {
                let asker = Asker { now: now.wall, agent: None };
                match registry::decide(&hot.tables, &command, &asker) {
                    Ok((changes, _)) => batch.apply(&mut hot, &changes),
                    Err(refusal) => tracing::warn!(%refusal, "the hub's own node is not in the catalog"),
                }
            }
        }
        self.store(&batch).await?;
        self.publish(&batch);
        Ok(())
    }

    /// Runs until it is told to stop, or the store cannot be used any more.
    pub(super) async fn run(mut self, stop: CancellationToken) -> Result<(), Error> {
        loop {
            let wait = self.timers.next().map(|at| at.saturating_sub(self.clock.monotonic()).min(self.tick()));
            let mut batch = Batch::default();
            let mut special = None;
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
                job = self.queue.recv() => match job {
                    Some(job) => special = self.take(&mut batch, job),
                    None => return Ok(()),
                },
            }
            while special.is_none()
                && !batch.is_full()
                && let Ok(job) = self.queue.try_recv()
            {
                special = self.take(&mut batch, job);
            }
            self.take_due(&mut batch);
            self.finish(batch).await?;
            if let Some(job) = special {
                self.special(job).await?;
            }
        }
    }

    /// How often it looks what is due, as long as anything can be.
    fn tick(&self) -> Duration {
        self.options.lease / TICKS
    }

    /// While the hub stood still (its process, its machine, its disk) it heard of nobody, whoever spoke: all of them get
    /// their full time.
    fn forgive(&mut self, now: Now) {
        let gap = now.monotonic.saturating_sub(std::mem::replace(&mut self.looked, now.monotonic));
        if gap > STALL_MIN.max(self.tick() * 2) && self.timers.next().is_some() {
            tracing::warn!(?gap, "the hub stood still; every agent and every session gets its full time");
            self.timers.begin(&self.shared.hot.read().tables, now);
        }
    }

    fn now(&self) -> Now {
        Now { wall: self.clock.now(), monotonic: self.clock.monotonic() }
    }

    /// Decides a command, or gives back what has to be done by itself.
    fn take(&self, batch: &mut Batch, job: Job) -> Option<Job> {
        let mut hot = self.shared.hot.write();
        batch.commands += 1;
        match job {
            Job::Write { command, agent, reply } => {
                let asker = Asker { now: self.clock.now(), agent: agent.as_deref() };
                let decided = registry::decide(&hot.tables, &command, &asker);
                let answer = decided.map(|(changes, outcome)| {
                    batch.apply(&mut hot, &changes);
                    outcome
                });
                self.metrics.writes.inc();
                match (&answer, &*command) {
                    (Err(_), _) => _ = self.metrics.refused.inc(),
                    (Ok(_), Command::RenewSession(id)) => batch.renewed.push(id.clone()),
                    (Ok(_), Command::Agent(agent, _)) => batch.seen.push(agent.clone()),
                    (Ok(_), Command::Kv(op)) => batch.bytes += op.value.len(),
                    (Ok(_), Command::Txn(_)) => batch.bytes += BATCH_BYTES / 8,
                    (Ok(_), _) => {}
                }
                batch.answers.push((reply, answer, hot.tables.index()));
            }
            Job::Seen(agent) => {
                let lost = agent_record(&hot.tables, &agent).is_some_and(|record| record.lost.is_some());
                if lost {
                    let changes = registry::seen(&hot.tables, &agent, &self.asker());
                    batch.apply(&mut hot, &changes);
                }
                batch.seen.push(agent);
            }
            Job::Snapshot { .. } | Job::Restore { .. } => return Some(job),
        }
        None
    }

    /// Decides what has become due.
    fn take_due(&mut self, batch: &mut Batch) {
        let now = self.now();
        self.forgive(now);
        // Whoever was heard of in this very batch is not late.
        self.grant(batch, now);
        while !batch.is_full()
            && let Some(due) = self.timers.pop(now)
        {
            batch.commands += 1;
            match &due {
                Due::Session(_) => _ = self.metrics.expired.inc(),
                Due::Lease(_) => _ = self.metrics.lapsed.inc(),
                Due::Reap(_) => _ = self.metrics.reaped.inc(),
                Due::Delay(_) | Due::Token(_) => {}
            }
            tracing::debug!(?due, "due in the registry");
            let mut hot = self.shared.hot.write();
            let changes = registry::due(&hot.tables, &due, &self.asker());
            batch.apply(&mut hot, &changes);
        }
    }

    fn grant(&mut self, batch: &mut Batch, now: Now) {
        let hot = self.shared.hot.read();
        for session in batch.renewed.drain(..) {
            self.timers.renewed(&hot.tables, &session, now);
        }
        for agent in batch.seen.drain(..) {
            self.timers.seen(&hot.tables, &agent, now);
        }
    }

    /// Stores a batch, lets it be seen, and answers.
    async fn finish(&mut self, mut batch: Batch) -> Result<(), Error> {
        let answers = std::mem::take(&mut batch.answers);
        match self.store(&batch).await {
            Ok(()) => {
                self.publish(&batch);
                for (reply, answer, index) in answers {
                    // Whoever has gone does not need the answer.
                    let _ = reply.send(answer.map(|outcome| Done { index, outcome }));
                }
                Ok(())
            }
            Err(error) => {
                tracing::error!(%error, "the registry could not store what was decided");
                for (reply, ..) in answers {
                    let _ = reply.send(Err(Refusal::Failed(error.to_string())));
                }
                self.reload(&error).await
            }
        }
    }

    async fn store(&mut self, batch: &Batch) -> Result<(), Error> {
        if batch.written.is_empty() {
            return Ok(());
        }
        let (state, records) = {
            let hot = self.shared.hot.read();
            let tables = &hot.tables;
            let records: Vec<Record> = batch.written.iter().map(|id| (id.to_key(), tables.stored(id))).collect();
            (tables.state(), records)
        };
        self.metrics.commits.inc();
        self.storage.commit(state, records).await
    }

    fn publish(&mut self, batch: &Batch) {
        let now = self.now();
        let index = {
            let mut hot = self.shared.hot.write();
            let hot = &mut *hot;
            let touches = std::mem::take(&mut hot.storing);
            // The index first: whoever is woken by a topic finds an index that is not below it.
            self.shared.index.store(hot.tables.index(), Ordering::Release);
            hot.slots.publish(&hot.tables, &touches);
            for id in &batch.written {
                self.timers.follow(&hot.tables, id, now);
            }
            gauge(&self.metrics.topics, hot.slots.len());
            gauge(&self.metrics.tombs, hot.tables.tombs());
            hot.tables.index()
        };
        gauge(&self.metrics.index, index);
        self.shared.settled.notify_waiters();
    }

    /// Believes what is stored, and nothing else, after it could not be stored.
    async fn reload(&mut self, why: &Error) -> Result<(), Error> {
        if !why.is_retryable() {
            return Err(why.clone());
        }
        let (storage, tables) = Storage::load(self.storage.store(), self.options.tombs).await?;
        self.storage = storage;
        self.swap(tables);
        Ok(())
    }

    fn swap(&mut self, tables: Tables) {
        let now = self.now();
        {
            let mut hot = self.shared.hot.write();
            hot.tables = tables;
            hot.storing.clear();
            self.timers.begin(&hot.tables, now);
            self.shared.index.store(hot.tables.index(), Ordering::Release);
            hot.slots.reset();
        }
        self.shared.settled.notify_waiters();
    }

    async fn special(&mut self, job: Job) -> Result<(), Error> {
        match job {
            Job::Snapshot { reply } => {
                let snapshot = snapshot::write(&self.shared.hot.read().tables);
                let _ = reply.send(snapshot);
            }
            Job::Restore { snapshot, reply } => {
                let restored = self.restore(snapshot).await;
                let stop = match &restored {
                    Err(error @ (Error::Store(_) | Error::Conflict)) => Some(error.clone()),
                    _ => None,
                };
                let _ = reply.send(restored);
                if let Some(error) = stop {
                    return self.reload(&error).await;
                }
            }
            Job::Write { .. } | Job::Seen(_) => {}
        }
        Ok(())
    }

    async fn restore(&mut self, snapshot: Bytes) -> Result<Index, Error> {
        let mut tables = snapshot::read(snapshot)?;
        tables.succeed(&self.shared.hot.read().tables);
        self.storage.replace(&tables).await?;
        let index = tables.index();
        self.swap(tables);
        Ok(index)
    }

    fn asker(&self) -> Asker<'static> {
        Asker { now: self.clock.now(), agent: None }
    }

    /// The hub is in the catalog too, as Consul's servers are.
    fn own_node(&self, tables: &Tables) -> Option<Command> {
        let place = &self.options.place;
        if place.node.is_empty()
            || tables.node(&place.node.to_lowercase()).is_some_and(|node| node.value.owner.is_some())
        {
            return None;
        }
        let node = Node {
            name: place.node.clone(),
            id: place.node_id.clone(),
            address: place.address.clone(),
            datacenter: place.datacenter.clone(),
            ..Node::default()
        };
        let keep_node = node.address.is_empty();
        let checks = vec![registry::serf_health(true)];
        Some(Command::Register(Box::new(Registration { node, keep_node, service: None, checks })))
    }
}
