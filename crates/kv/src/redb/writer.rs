//! The one thread that writes: takes what waits, commits it together, publishes, answers.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use redb::{Database, Durability, WriteTransaction};
use tokio::sync::{oneshot, watch as signal};

use super::Shared;
use super::journal::Journal;
use super::space::{Buffers, Changed, Tables, fault};
use crate::engine::Engine;
use crate::fault::Fault;
use crate::hub::Touched;
use crate::metrics::gauge;
use crate::store::{Compaction, Error, LeaseId, LeaseStatus, Result, Revision, Txn, TxnOutcome};

/// Leases ended in one commit; the rest follows in the next.
const EXPIRE_LEASES: usize = 256;
/// Log records removed in a commit that has nothing else to do, and at least with each that has. Removing one costs
/// about a microsecond.
const TRIM_IDLE: usize = 4096;
const TRIM_BUSY: usize = 64;

/// How long the writer waits for callers to come back; well under what a commit takes.
const GATHER: Duration = Duration::from_micros(100);

pub(super) type Reply<T> = oneshot::Sender<Result<T>>;

/// What the writer is asked to do.
pub(super) enum Request {
    Txn(Txn, usize, Reply<TxnOutcome>),
    Compact(Revision, Reply<Compaction>),
    Grant(Duration, Reply<LeaseId>),
    KeepAlive(LeaseId, Reply<LeaseStatus>),
    Revoke(LeaseId, Reply<()>),
    Tick(Reply<()>),
}

impl Request {
    fn bytes(&self) -> usize {
        match self {
            Self::Txn(_, bytes, _) => *bytes,
            _ => 0,
        }
    }
}

/// An answer held back until what it says is durable.
enum Answer {
    Txn(Reply<TxnOutcome>, Result<TxnOutcome>),
    Compact(Reply<Compaction>, Result<Compaction>),
    Grant(Reply<LeaseId>, Result<LeaseId>),
    KeepAlive(Reply<LeaseStatus>, Result<LeaseStatus>),
    Done(Reply<()>, Result<()>),
}

impl Answer {
    /// Sends it, or `failure` in its place. A caller that no longer waits is no concern.
    fn send(self, failure: Option<&Error>) {
        fn send<T>(reply: Reply<T>, answer: Result<T>, failure: Option<&Error>) {
            let _ = reply.send(failure.map_or(answer, |failure| Err(failure.clone())));
        }
        match self {
            Self::Txn(reply, answer) => send(reply, answer, failure),
            Self::Compact(reply, answer) => send(reply, answer, failure),
            Self::Grant(reply, answer) => send(reply, answer, failure),
            Self::KeepAlive(reply, answer) => send(reply, answer, failure),
            Self::Done(reply, answer) => send(reply, answer, failure),
        }
    }
}

/// The writer's state. Its fields are dropped when it ends, the lock last.
pub(super) struct Writer {
    shared: Arc<Shared>,
    engine: Engine,
    requests: Receiver<Request>,
    batch: Vec<Request>,
    answers: Vec<Answer>,
    buffers: Buffers,
    journal: Journal,
    last_batch: usize,
    stop: signal::Sender<bool>,
    lock: File,
}

enum Woken {
    Work,
    Closed,
}

impl Writer {
    pub(super) fn new(
        shared: Arc<Shared>,
        engine: Engine,
        journal: Journal,
        lock: File,
        requests: Receiver<Request>,
        stop: signal::Sender<bool>,
    ) -> Self {
        Self {
            shared,
            engine,
            requests,
            batch: Vec::new(),
            answers: Vec::new(),
            buffers: Buffers::default(),
            journal,
            last_batch: 0,
            stop,
            lock,
        }
    }

    /// Works until the queue is closed and empty or the medium fails.
    pub(super) fn run(mut self) {
        let database = self.shared.database.read().clone();
        let failure = match catch_unwind(AssertUnwindSafe(|| match &database {
            Some(database) => self.serve(database),
            None => Ok(()),
        })) {
            Ok(Ok(())) => None,
            Ok(Err(fault)) => Some(fault.into_error(&self.shared.path)),
            Err(_) => Some(Error::Storage("the writer panicked".into())),
        };
        self.end(database, failure);
    }

    fn serve(&mut self, database: &Database) -> Result<(), Fault> {
        loop {
            match self.wait() {
                Woken::Work => self.commit(database)?,
                Woken::Closed => return self.settle(database),
            }
        }
    }

    /// Leaves nothing in the journal, so that the file is quick to open.
    fn settle(&mut self, database: &Database) -> Result<(), Fault> {
        if !self.journal.is_empty() {
            database.begin_write().map_err(fault)?.commit().map_err(fault)?;
            self.journal.restart();
        }
        Ok(())
    }

    /// Waits for requests or for something to become due, then gathers what else is there.
    fn wait(&mut self) -> Woken {
        let first = if self.engine.is_untrimmed() {
            match self.requests.try_recv() {
                Ok(request) => Some(request),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => return Woken::Closed,
            }
        } else {
            let now = self.shared.options.time.now();
            let received = match self.engine.next_deadline() {
                Some(deadline) => self.requests.recv_timeout(deadline.saturating_sub(now)),
                None => self.requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match received {
                Ok(request) => Some(request),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Woken::Closed,
            }
        };
        let bytes = self.gather(first);
        self.shared.metrics.queued.dec_by(gauge(self.batch.len() as u64));
        self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        Woken::Work
    }

    /// Fills the batch from the queue, starting with `first`, and tells its size in bytes.
    ///
    /// After a batch, the callers it answered come back one after the other. Waiting a moment until as many are there
    /// as before makes one large batch where there would be a small and a large one in turn.
    fn gather(&mut self, first: Option<Request>) -> usize {
        let options = &self.shared.options;
        let patience = (self.last_batch > 1 && first.is_some()).then(|| Instant::now() + GATHER);
        let mut bytes = 0;
        let mut next = first;
        while let Some(request) = next {
            bytes += request.bytes();
            self.batch.push(request);
            if self.batch.len() >= options.batch_requests || bytes >= options.batch_bytes {
                break;
            }
            next = self.requests.try_recv().ok();
            while next.is_none()
                && self.batch.len() < self.last_batch
                && patience.is_some_and(|until| Instant::now() < until)
            {
                std::thread::yield_now();
                next = self.requests.try_recv().ok();
            }
        }
        self.last_batch = self.batch.len();
        bytes
    }

    /// Applies and commits the batch, then publishes and answers.
    fn commit(&mut self, database: &Database) -> Result<(), Fault> {
        let now = self.shared.options.time.now();
        let only_renewals = self.batch.iter().all(|request| matches!(request, Request::KeepAlive(..)));
        if only_renewals && !self.engine.is_due(now) {
            self.renew(now);
        } else if let Err(fault) = self.write(database, now) {
            let failure = fault.clone().into_error(&self.shared.path);
            self.answers.drain(..).for_each(|answer| answer.send(Some(&failure)));
            return Err(fault);
        }
        let touched = self.publish();
        self.answers.drain(..).for_each(|answer| answer.send(None));
        touched.wake();
        Ok(())
    }

    fn renew(&mut self, now: Duration) {
        for request in self.batch.drain(..) {
            if let Request::KeepAlive(id, reply) = request {
                self.answers.push(Answer::KeepAlive(reply, self.engine.keep_alive(id, now)));
            }
        }
    }

    fn write(&mut self, database: &Database, now: Duration) -> Result<(), Fault> {
        let started = Instant::now();
        let requests = self.batch.len();
        // What was asked for by name stays done.
        let promised = self.batch.iter().any(|request| matches!(request, Request::Compact(..)));
        let txn = database.begin_write().map_err(fault)?;
        let mut tables = Tables::open(&txn, &mut self.buffers)?;
        self.engine.expire(&mut tables, now, EXPIRE_LEASES)?;
        for request in self.batch.drain(..) {
            self.answers.push(apply(&mut self.engine, &mut tables, request, now)?);
        }
        let trim = if requests == 0 { TRIM_IDLE } else { TRIM_BUSY.max(2 * requests) };
        self.engine.maintain(&mut tables, now, trim)?;
        let changed = tables.finish()?;
        match changed {
            Changed::Nothing => return txn.abort().map_err(fault),
            Changed::Logged if !promised => self.commit_logged(txn)?,
            Changed::Logged | Changed::More => self.commit_durably(txn)?,
        }
        self.shared.metrics.commit_seconds.observe(started.elapsed().as_secs_f64());
        if requests > 0 {
            #[expect(clippy::cast_precision_loss, reason = "a batch has at most a few thousand requests")]
            self.shared.metrics.batch_requests.observe(requests as f64);
        }
        Ok(())
    }

    /// Commits a batch whose log records tell all about it: they become durable in the journal, where they fit.
    fn commit_logged(&mut self, mut txn: WriteTransaction) -> Result<(), Fault> {
        if let Some(first) = self.buffers.first_revision()
            && !self.journal.append(first, self.buffers.records())?
        {
            return self.commit_durably(txn);
        }
        txn.set_durability(Durability::None).map_err(fault)?;
        txn.commit().map_err(fault)
    }

    /// Commits a batch and everything before it.
    fn commit_durably(&mut self, txn: WriteTransaction) -> Result<(), Fault> {
        txn.commit().map_err(fault)?;
        self.journal.restart();
        Ok(())
    }

    fn publish(&mut self) -> Touched {
        let numbers = self.engine.numbers();
        let events = self.engine.take_events();
        let mut touched = Touched::default();
        if !events.is_empty() {
            touched = self.shared.hub.publish(numbers.revision, &events);
            self.shared.metrics.revision.set(gauge(numbers.revision));
        }
        if self.shared.compacted.swap(numbers.compacted, Ordering::AcqRel) != numbers.compacted {
            self.shared.metrics.compacted.set(gauge(numbers.compacted));
        }
        touched
    }

    /// Closes the file, ends the watches and tells everyone who still waits.
    fn end(mut self, database: Option<Arc<Database>>, failure: Option<Error>) {
        if let Some(error) = &failure {
            tracing::error!(path = self.shared.path, %error, "the store stopped");
            *self.shared.failure.lock() = Some(error.clone());
        }
        let reason = failure.unwrap_or(Error::Closed);
        self.answers.clear();
        self.batch.clear();
        self.shared.hub.end(&reason);
        drop(self.requests);
        drop(self.shared.database.write().take());
        // Closing writes to the file, which may fail as anything else; it repairs itself when next opened.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(database)));
        drop(self.lock);
        // Nobody may wait for it any more.
        let _ = self.stop.send(true);
    }
}

/// Checks and applies one request.
fn apply(engine: &mut Engine, tables: &mut Tables<'_>, request: Request, now: Duration) -> Result<Answer, Fault> {
    Ok(match request {
        Request::Txn(txn, _, reply) => {
            let answer = match engine.check(&txn) {
                Ok(()) => Ok(engine.apply(tables, txn)?),
                Err(error) => Err(error),
            };
            Answer::Txn(reply, answer)
        }
        Request::Compact(revision, reply) => {
            let answer = match engine.check_compact(revision) {
                Ok(()) => Ok(Compaction { compacted: engine.compact(tables, revision)? }),
                Err(error) => Err(error),
            };
            Answer::Compact(reply, answer)
        }
        Request::Grant(ttl, reply) => {
            let answer = match engine.check_grant(ttl) {
                Ok(()) => Ok(engine.grant(tables, ttl, now)?),
                Err(error) => Err(error),
            };
            Answer::Grant(reply, answer)
        }
        Request::KeepAlive(id, reply) => Answer::KeepAlive(reply, engine.keep_alive(id, now)),
        Request::Revoke(id, reply) => {
            let answer = match engine.check_lease(id) {
                Ok(()) => engine.revoke(tables, id).map(Ok)?,
                Err(error) => Err(error),
            };
            Answer::Done(reply, answer)
        }
        Request::Tick(reply) => Answer::Done(reply, Ok(())),
    })
}
