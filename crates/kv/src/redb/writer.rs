//! Applies a batch of requests, makes it durable, publishes, answers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use redb::{Database, Durability, WriteTransaction};
use tokio::sync::oneshot;

use super::Shared;
use super::journal::Journal;
use super::space::{Buffers, Changed, Tables, fault};
use crate::engine::Engine;
use crate::fault::Fault;
use crate::metrics::gauge;
use crate::store::{Compaction, Error, LeaseId, LeaseStatus, Result, Revision, Txn, TxnOutcome};

/// Leases ended in one commit; the rest follows in the next.
const EXPIRE_LEASES: usize = 256;
/// Log records removed in a commit that has nothing else to do, and at least with each that has. Removing one costs
/// about a microsecond.
const TRIM_IDLE: usize = 4096;
const TRIM_BUSY: usize = 64;

/// The largest request that is committed in its caller's thread, and the room its frame may need: the journal's end is
/// left to the writer's own thread.
const ALONE_BYTES: usize = 64 << 10;
const ALONE_ROOM: usize = 256 << 10;

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
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Txn(_, bytes, _) => *bytes,
            _ => 0,
        }
    }
}

/// An answer held back until what it says is durable.
pub(super) enum Answer {
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

/// The writer's state: whoever holds it writes.
pub(super) struct Writer {
    shared: Arc<Shared>,
    pub(super) database: Arc<Database>,
    pub(super) engine: Engine,
    pub(super) batch: Vec<Request>,
    pub(super) answers: Vec<Answer>,
    buffers: Buffers,
    journal: Journal,
    /// How many requests the last batch had.
    pub(super) last_batch: usize,
    /// When the writer's thread looks again by itself.
    pub(super) wakes_at: Option<Duration>,
    /// Why nothing can be written any more.
    pub(super) fault: Option<Fault>,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, database: Arc<Database>, engine: Engine, journal: Journal) -> Self {
        Self {
            shared,
            database,
            engine,
            batch: Vec::new(),
            answers: Vec::new(),
            buffers: Buffers::default(),
            journal,
            last_batch: 0,
            wakes_at: None,
            fault: None,
        }
    }

    /// Leaves nothing in the journal, so that the file is quick to open.
    pub(super) fn settle(&mut self) -> Result<(), Fault> {
        if !self.journal.is_empty() {
            self.database.begin_write().map_err(fault)?.commit().map_err(fault)?;
            self.journal.restart();
        }
        Ok(())
    }

    /// Whether a request of so many bytes, alone, takes no longer than its sync.
    pub(super) fn is_quick(&self, bytes: usize) -> bool {
        self.fault.is_none()
            && self.last_batch <= 1
            && bytes <= ALONE_BYTES
            && self.journal.room() >= ALONE_ROOM
            && !self.engine.is_untrimmed()
    }

    /// Commits one request by itself and tells whether the writer's thread should look sooner than it would.
    pub(super) fn commit_alone(&mut self, request: Request) -> bool {
        self.batch.push(request);
        self.last_batch = 1;
        if let Err(fault) = catch_unwind(AssertUnwindSafe(|| self.commit())).unwrap_or_else(|_| Err(panicked())) {
            self.answers.clear();
            self.batch.clear();
            self.fault = Some(fault);
            return true;
        }
        let next = self.engine.next_deadline();
        self.engine.is_untrimmed() || next.is_some_and(|next| self.wakes_at.is_none_or(|wakes_at| next < wakes_at))
    }

    /// Applies and commits the batch, then publishes and answers.
    pub(super) fn commit(&mut self) -> Result<(), Fault> {
        let now = self.shared.options.time.now();
        let only_renewals = self.batch.iter().all(|request| matches!(request, Request::KeepAlive(..)));
        if only_renewals && !self.engine.is_due(now) {
            self.renew(now);
        } else if let Err(fault) = self.write(now) {
            let failure = fault.clone().into_error(&self.shared.path);
            self.answers.drain(..).for_each(|answer| answer.send(Some(&failure)));
            return Err(fault);
        }
        self.publish();
        self.answers.drain(..).for_each(|answer| answer.send(None));
        Ok(())
    }

    fn renew(&mut self, now: Duration) {
        for request in self.batch.drain(..) {
            if let Request::KeepAlive(id, reply) = request {
                self.answers.push(Answer::KeepAlive(reply, self.engine.keep_alive(id, now)));
            }
        }
    }

    fn write(&mut self, now: Duration) -> Result<(), Fault> {
        let started = Instant::now();
        let requests = self.batch.len();
        // What was asked for by name stays done.
        let promised = self.batch.iter().any(|request| matches!(request, Request::Compact(..)));
        let txn = self.database.begin_write().map_err(fault)?;
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

    fn publish(&mut self) {
        let numbers = self.engine.numbers();
        let events = self.engine.take_events();
        if !events.is_empty() {
            self.shared.hub.publish(numbers.revision, &events);
            self.shared.metrics.revision.set(gauge(numbers.revision));
        }
        if self.shared.compacted.swap(numbers.compacted, Ordering::AcqRel) != numbers.compacted {
            self.shared.metrics.compacted.set(gauge(numbers.compacted));
        }
    }
}

/// What a panic while writing means.
pub(super) fn panicked() -> Fault {
    Fault::Medium("the writer panicked".into())
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
