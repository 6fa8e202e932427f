//! What is known of one sandbox, and the way to its executor.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use parking_lot::Mutex;
use thane_api::wire::sandbox::{Description, StepRecord};
use thane_executor::client::{Error, Executor};
use thane_executor::message::{ProcessInfo, Reply, Request};
use thane_runtime::pods::ContainerAt;
use thane_runtime::rooms::{Room, Rooms};
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::{Mutex as Turn, RwLock, Semaphore, watch};
use tonic::Status;

use super::executor;
use super::metrics::Metrics;
use super::steps::{Fact, StepLog};

/// Steps that wait for their turn in one sandbox.
const WAITING_MAX: usize = 64;

/// One sandbox.
pub(super) struct Desk {
    pub(super) rooms: Arc<dyn Rooms>,
    pub(super) at: ContainerAt,
    room: Mutex<Room>,
    pub(super) log: Arc<StepLog>,
    /// Who has it, runs a step or changes the files.
    pub(super) turn: Arc<Turn<()>>,
    /// Held by who keeps the files or brings them back, and together by all who change a file or start a process without
    /// the turn, each for as long as that one thing takes. How often they were brought back.
    pub(super) files: Arc<RwLock<u64>>,
    pub(super) waiting: Arc<Semaphore>,
    /// Steps that wait or run, by their operation.
    pub(super) operations: Mutex<HashMap<String, Arc<Underway>>>,
    activity: Activity,
    pub(super) clock: SharedClock,
    pub(super) metrics: Metrics,
    pub(super) tasks: Tasks,
}

/// A step that waits or runs.
pub(super) struct Underway {
    /// A digest of what was asked.
    pub(super) digest: Vec<u8>,
    /// Its process, once it has one.
    pub(super) process: watch::Sender<Option<u64>>,
    /// Its record once it has ended, or why there is none.
    pub(super) done: watch::Sender<Option<Result<Arc<StepRecord>, Status>>>,
}

#[derive(Default)]
struct Activity {
    streams: AtomicU32,
    at_ms: AtomicI64,
}

/// A stream that is open; the sandbox is not idle while it is.
pub(super) struct Open {
    desk: Arc<Desk>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.desk.activity.streams.fetch_sub(1, Ordering::SeqCst);
        self.desk.touch();
    }
}

impl Desk {
    /// Finds the sandbox and what was recorded of it.
    pub(super) async fn open(
        rooms: Arc<dyn Rooms>,
        at: ContainerAt,
        clock: SharedClock,
        metrics: Metrics,
        tasks: Tasks,
    ) -> Result<Arc<Self>, Status> {
        let room = rooms.room(at.clone()).await.map_err(executor::access)?;
        let records = room.records.clone();
        let log = blocking(move || StepLog::open(&records)).await?;
        let desk = Arc::new(Self {
            rooms,
            at,
            room: Mutex::new(room.clone()),
            log: Arc::new(log),
            turn: Arc::default(),
            files: Arc::default(),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            operations: Mutex::default(),
            activity: Activity::default(),
            clock,
            metrics,
            tasks,
        });
        desk.touch();
        desk.moved_in(&room).await?;
        desk.take_up();
        Ok(desk)
    }

    /// Takes notice of where its executor is.
    async fn moved_in(&self, room: &Room) -> Result<(), Status> {
        let place = room.run.display().to_string();
        if self.log.lives() != place {
            self.append(vec![Fact::Lives(place)], false).await?;
        }
        *self.room.lock() = room.clone();
        Ok(())
    }

    pub(super) fn room(&self) -> Room {
        self.room.lock().clone()
    }

    /// A connection to the executor; if it is another one by now, to that.
    pub(super) async fn connect(&self) -> Result<Executor, Status> {
        match Executor::connect(&self.room().run).await {
            Ok(executor) => return Ok(executor),
            Err(Error::Refused(failure, why)) => return Err(executor::status(Error::Refused(failure, why))),
            Err(Error::Io(_)) => {}
        }
        let room = self.rooms.room(self.at.clone()).await;
        let room = room.map_err(|error| Status::unavailable(format!("the sandbox does not run: {error}")))?;
        let executor = Executor::connect(&room.run).await.map_err(executor::status)?;
        self.moved_in(&room).await?;
        Ok(executor)
    }

    /// Asks the executor one thing.
    pub(super) async fn ask(&self, request: Request) -> Result<Reply, Status> {
        self.connect().await?.call(request).await.map_err(executor::status)
    }

    /// Where processes start.
    pub(super) async fn directory(&self) -> Result<String, Status> {
        match self.ask(Request::About).await? {
            Reply::About { directory } => Ok(directory),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn processes(&self) -> Result<Vec<ProcessInfo>, Status> {
        match self.ask(Request::List).await? {
            Reply::Processes { processes } => Ok(processes),
            other => Err(unexpected(&other)),
        }
    }

    /// Writes facts where waiting for the disk harms nobody.
    pub(super) async fn append(&self, facts: Vec<Fact>, durable: bool) -> Result<(), Status> {
        let log = Arc::clone(&self.log);
        blocking(move || log.append_all(&facts, durable)).await
    }

    /// A recorded step.
    pub(super) async fn record(&self, step: i64) -> Result<StepRecord, Status> {
        let log = Arc::clone(&self.log);
        let record = blocking(move || log.read(step)).await?;
        record.ok_or_else(|| Status::not_found(format!("there is no step {step}")))
    }

    /// Refuses who speaks for another session than the one it is bound to.
    pub(super) fn check_session(&self, session: &str) -> Result<(), Status> {
        match self.log.bound() {
            Some((bound, _)) if !session.is_empty() && bound != session => {
                Err(Status::failed_precondition("the sandbox is bound to another session"))
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn describe(&self) -> Result<Description, Status> {
        let processes = self.processes().await?;
        let running = processes.iter().filter(|process| process.exit.is_none()).count();
        let waiting = WAITING_MAX.saturating_sub(self.waiting.available_permits());
        Ok(Description {
            session: self.log.bound().map(|(session, _)| session).unwrap_or_default(),
            snapshots: self.room().layers.is_some(),
            running: u32::try_from(running + waiting).unwrap_or(u32::MAX),
            streams: self.activity.streams.load(Ordering::SeqCst),
            active_at_ms: self.activity.at_ms.load(Ordering::SeqCst),
            next_index: self.log.next(),
            working_dir: self.directory().await?,
        })
    }

    /// A stream is open from now on.
    pub(super) fn stream(self: &Arc<Self>) -> Open {
        self.activity.streams.fetch_add(1, Ordering::SeqCst);
        self.touch();
        Open { desk: Arc::clone(self) }
    }

    /// Something happens now.
    pub(super) fn touch(&self) {
        self.activity.at_ms.store(self.now_ms(), Ordering::SeqCst);
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.clock.now().as_millisecond()
    }
}

/// Work that waits for the disk.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Status> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|error| Status::unavailable(format!("reading or writing records ended: {error}")))?;
    done.map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Status::resource_exhausted(format!("records: {error}"))
        }
        _ => Status::unavailable(format!("records: {error}")),
    })
}

/// An answer that is none to what was asked.
pub(super) fn unexpected(reply: &Reply) -> Status {
    Status::internal(format!("unexpected answer {reply:?}"))
}
