//! One step from its request to its record.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use thane_api::wire::sandbox::step_event::Event;
use thane_api::wire::sandbox::{KeepAlive, StepEvent, StepOutput, StepRecord, StepRequest, StepStarted};
use thane_executor::client::{Error, Executor, Heard, Listener, Speaker};
use thane_executor::exit::Exit;
use thane_executor::frame::{Data, Stream};
use thane_executor::message::{Reply, Request, Said, Spawn};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tonic::Status;

use super::desk::{Desk, Open, Underway, blocking};
use super::outcome::Output;
use super::steps::Fact;
use super::{attach, executor, outcome};

/// Events that wait for whoever listens.
pub(super) const EVENTS_MAX: usize = 16;
/// How long it may be silent before a sign of life is sent.
const SILENCE: Duration = Duration::from_secs(5);
/// How long an event may wait to be read by whoever listens. Then it is as if they had gone: what was recorded can be asked for.
const DEAF: Duration = Duration::from_secs(20);
/// How long processes that were ended may take to go before the files are not kept.
const SETTLE_MS: u64 = 2000;
/// Pieces input is sent in.
const PIECE: usize = 64 * 1024;
/// The longest command, environment and input of a step together.
const ASKED_MAX: usize = 32 * 1024 * 1024;

/// What is told about a step.
pub(super) type Events = mpsc::Receiver<Result<StepEvent, Status>>;

/// Who listens to a step, as long as they read what is told.
struct Tell(Mutex<Option<mpsc::Sender<Result<StepEvent, Status>>>>);

impl Tell {
    fn new(sender: mpsc::Sender<Result<StepEvent, Status>>) -> Self {
        Self(Mutex::new(Some(sender)))
    }

    /// Nobody listens.
    fn nobody() -> Self {
        Self(Mutex::new(None))
    }

    /// Tells something. Slow readers slow the process down; who has gone is not waited for, nor who does not read at all.
    async fn say(&self, said: Result<StepEvent, Status>) {
        let Some(sender) = self.0.lock().clone() else { return };
        if !matches!(tokio::time::timeout(DEAF, sender.send(said)).await, Ok(Ok(()))) {
            *self.0.lock() = None;
        }
    }

    /// A sign of life. Who does not listen has other signs of life to read.
    fn hint(&self) {
        if let Some(sender) = &*self.0.lock() {
            let _ = sender.try_send(Ok(event(Event::KeepAlive(KeepAlive {}))));
        }
    }

    fn is_gone(&self) -> bool {
        self.0.lock().as_ref().is_none_or(mpsc::Sender::is_closed)
    }
}

/// The name a step's process is found by.
pub(super) fn tag(index: i64) -> String {
    format!("step-{index}")
}

impl Desk {
    /// Runs a step when its turn comes, or tells one again that was recorded or is underway.
    pub(super) async fn run_step(self: &Arc<Self>, request: StepRequest) -> Result<Events, Status> {
        check(&request)?;
        self.check_session(&request.session)?;
        let digest = outcome::digest(&request);
        if !request.operation.is_empty() {
            if let Some(underway) = self.operations.lock().get(&request.operation).cloned() {
                same(&underway.digest, &digest)?;
                return Ok(attach::join(self, underway));
            }
            if let Some((step, known)) = self.log.operation(&request.operation) {
                same(&known, &digest)?;
                return Ok(told(self.record(step).await?, 0, 0));
            }
        }
        let Ok(place) = Arc::clone(&self.waiting).try_acquire_owned() else {
            self.metrics.full("waiting");
            return Err(Status::resource_exhausted("too many steps wait in this sandbox"));
        };
        if !self.log.has_room() {
            self.metrics.full("steps");
            return Err(Status::resource_exhausted("the sandbox has as many steps as it may"));
        }
        let underway = Arc::new(Underway { digest, process: watch::Sender::new(None), done: watch::Sender::new(None) });
        if !request.operation.is_empty() {
            let mut operations = self.operations.lock();
            if let Some(other) = operations.get(&request.operation).cloned() {
                // It came while the records were looked at.
                drop(operations);
                same(&other.digest, &underway.digest)?;
                return Ok(attach::join(self, other));
            }
            operations.insert(request.operation.clone(), Arc::clone(&underway));
        }
        let (tell, events) = mpsc::channel(EVENTS_MAX);
        let (desk, open) = (Arc::clone(self), self.stream());
        let tell = Tell::new(tell);
        self.tasks.spawn("step", async move { desk.take_turn(request, underway, tell, place, open).await });
        Ok(events)
    }

    async fn take_turn(
        self: Arc<Self>,
        request: StepRequest,
        underway: Arc<Underway>,
        tell: Tell,
        place: OwnedSemaphorePermit,
        open: Open,
    ) {
        let operation = request.operation.clone();
        let turn = alive(&tell, self.turn.lock()).await;
        drop(place);
        // An earlier process may have begun it, and it has ended since it was asked for.
        if let Some((step, known)) = self.log.operation(&operation).filter(|_| !operation.is_empty()) {
            let told = same(&known, &underway.digest).map(|()| step);
            let result = match told {
                Ok(step) => self.record(step).await.map(Arc::new),
                Err(status) => Err(status),
            };
            underway.done.send_replace(Some(result.clone()));
            drop(turn);
            self.operations.lock().remove(&operation);
            return tell.say(finished(result)).await;
        }
        let mut result = None;
        // Who has gone before it began, and cannot ask for it again, does not want it.
        if !(tell.is_gone() && operation.is_empty()) {
            let stopping = self.tasks.token();
            tokio::select! {
                // What runs goes on without us; the next of us finds it.
                () = stopping.cancelled() => {}
                performed = self.perform(request, &underway, &tell) => result = Some(performed),
            }
        }
        drop(turn);
        self.operations.lock().remove(&operation);
        if let Some(result) = result {
            // Whoever has gone asks again by the operation.
            tell.say(finished(result)).await;
        }
        drop(open);
    }

    async fn perform(&self, request: StepRequest, underway: &Underway, tell: &Tell) -> Result<Arc<StepRecord>, Status> {
        let result = match self.connect().await {
            Ok(executor) => self.start(executor, request, underway, tell).await,
            Err(status) => Err(status),
        };
        let result = result.map(Arc::new);
        underway.done.send_replace(Some(result.clone()));
        result
    }

    async fn start(
        &self,
        mut executor: Executor,
        request: StepRequest,
        underway: &Underway,
        tell: &Tell,
    ) -> Result<StepRecord, Status> {
        self.change(&request.changes).await?;
        let index = if request.unrecorded { -1 } else { self.log.next() };
        let mut record = outcome::begun(&request, index, self.log.head(), self.now_ms());
        if !request.unrecorded {
            let log = Arc::clone(&self.log);
            let changes = blocking(move || log.changes()).await?;
            record.changes_lost = changes.is_none();
            record.changes = changes.unwrap_or_default();
            // Not durable: if the machine ends, so does the sandbox.
            self.append(vec![Fact::Began(StepRecord { stdin: Bytes::new(), ..record.clone() })], false).await?;
        }
        let begun = self.clock.monotonic();
        match executor.call(Request::Spawn(spawn(&request, index))).await {
            Ok(Reply::Spawned { process, .. }) => {
                underway.process.send_replace(Some(process));
                let started = event(Event::Started(StepStarted { index, process }));
                tell.say(Ok(started)).await;
                let (speaker, listener) = executor.split();
                let ended = follow((speaker, listener), process, &request.stdin, &mut record, tell).await;
                executor = match ended {
                    Ok((exit, executor)) => {
                        outcome::ended(&mut record, &exit);
                        executor
                    }
                    Err(error) => {
                        outcome::lost(&mut record, &format!("the sandbox was lost while the step ran: {error}"));
                        return self.finish(record, None, begun).await;
                    }
                };
            }
            Ok(other) => return Err(super::desk::unexpected(&other)),
            Err(Error::Refused(sort, why)) => outcome::refused(&mut record, sort, &why),
            Err(error) => return Err(executor::status(error)),
        }
        let kept = (!request.passing).then_some(executor);
        alive(tell, self.finish(record, kept, begun)).await
    }

    /// Keeps the files, if nothing runs any more, and records the step.
    pub(super) async fn finish(
        &self,
        mut record: StepRecord,
        executor: Option<Executor>,
        begun: Duration,
    ) -> Result<StepRecord, Status> {
        let took = self.clock.monotonic().saturating_sub(begun);
        record.duration_ms = i64::try_from(took.as_millis()).unwrap_or(i64::MAX);
        self.metrics.step(outcome::result(&record), took);
        self.touch();
        if record.index < 0 {
            return Ok(record);
        }
        if let Some(executor) = executor {
            match self.seal(record.index, executor).await {
                Ok(name) => record.snapshot = name,
                Err(why) => record.unkept = why,
            }
        }
        self.append(vec![Fact::Ended(record.clone())], true).await?;
        Ok(record)
    }

    /// The name of the files as they are now, or why they have none; both are empty where files are not kept.
    async fn seal(&self, index: i64, mut executor: Executor) -> Result<String, String> {
        let Some(layers) = self.room().layers else { return Ok(String::new()) };
        let begun = self.clock.monotonic();
        let _files = self.files.write().await;
        let (result, name) = match executor.call(Request::Settle { patience_ms: SETTLE_MS }).await {
            Ok(_) => match layers.seal().await {
                Ok(state) => ("kept", Ok(snapshot(index, &state))),
                Err(error) => {
                    tracing::warn!(%error, pod = self.at.uid, "the files of a sandbox were not kept");
                    ("failed", Err(error.to_string()))
                }
            },
            // Something runs on, and would change what is kept.
            Err(_) => ("busy", Err("something still ran".to_owned())),
        };
        self.metrics.snapshot(result, self.clock.monotonic().saturating_sub(begun));
        name
    }

    /// Goes on with a step that has begun in an earlier life.
    pub(super) fn take_up(self: &Arc<Self>) {
        let Some(record) = self.log.begun() else { return };
        // Before anybody else can ask for it: who asks for the same step waits, and is told how this one went.
        let Ok(turn) = Arc::clone(&self.turn).try_lock_owned() else { return };
        let desk = Arc::clone(self);
        self.tasks.spawn("step", async move {
            let _turn = turn;
            let stopping = desk.tasks.token();
            tokio::select! {
                () = stopping.cancelled() => {}
                () = desk.end_earlier(record) => {}
            }
        });
    }

    async fn end_earlier(&self, mut record: StepRecord) {
        let wanted = tag(record.index);
        let found = self.processes().await.ok().and_then(|all| all.into_iter().find(|one| one.tag == wanted));
        let begun = self.clock.monotonic();
        let executor = match (found, self.connect().await) {
            (Some(found), Ok(mut executor)) => {
                let attach = Request::Attach { process: found.process, stdout: 0, stderr: 0 };
                // What was not sent yet went with who had it: the step gets no more, instead of waiting for it for ever.
                let _ = executor.call(Request::CloseStdin { process: found.process }).await;
                let attached = executor.call(attach).await;
                let nobody = Tell::nobody();
                let ended = match attached {
                    Ok(_) => follow(executor.split(), found.process, &[], &mut record, &nobody).await,
                    Err(error) => Err(error),
                };
                ended.map(|(exit, executor)| (Some(exit), executor)).ok()
            }
            (_, executor) => executor.ok().map(|executor| (None, executor)),
        };
        match &executor {
            Some((Some(exit), _)) => outcome::ended(&mut record, exit),
            _ => outcome::lost(&mut record, "the sidecar ended while the step ran, and nobody knows how it went"),
        }
        if let Err(status) = self.finish(record, executor.map(|(_, executor)| executor), begun).await {
            tracing::warn!(%status, pod = self.at.uid, "a step of an earlier life was not recorded");
        }
    }
}

/// A snapshot is a step's own, so that it says which step to go back to.
pub(super) fn snapshot(index: i64, state: &str) -> String {
    format!("{index}.{state}")
}

fn check(request: &StepRequest) -> Result<(), Status> {
    if request.command.is_empty() {
        return Err(Status::invalid_argument("there is no command"));
    }
    if request.timeout_ms < 0 {
        return Err(Status::invalid_argument("a timeout cannot be negative"));
    }
    let words = request.command.iter().chain(request.env.iter().flat_map(|(name, value)| [name, value]));
    let asked = words.map(String::len).sum::<usize>() + request.stdin.len();
    if asked > ASKED_MAX {
        return Err(Status::invalid_argument(format!("the step has {asked} bytes; at most {ASKED_MAX}")));
    }
    Ok(())
}

fn same(known: &[u8], asked: &[u8]) -> Result<(), Status> {
    if known == asked { Ok(()) } else { Err(Status::already_exists("the operation was another step")) }
}

fn spawn(request: &StepRequest, index: i64) -> Spawn {
    Spawn {
        command: request.command.clone(),
        env: request.env.clone().into_iter().collect(),
        directory: Some(request.working_dir.clone()).filter(|path| !path.is_empty()),
        tag: if index < 0 { "unrecorded".to_owned() } else { tag(index) },
        terminal: None,
        stdin: !request.stdin.is_empty(),
        timeout_ms: u64::try_from(request.timeout_ms).ok().filter(|limit| *limit > 0),
        background: request.background,
        attach: true,
    }
}

/// Waits for something, with a sign of life now and then for whoever listens.
async fn alive<T>(tell: &Tell, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(SILENCE, work.as_mut()).await {
            Ok(done) => return done,
            Err(_) => tell.hint(),
        }
    }
}

/// Follows a process to its end: output into the record and to whoever listens, input to it.
async fn follow(
    (mut speaker, mut listener): (Speaker, Listener),
    process: u64,
    input: &[u8],
    record: &mut StepRecord,
    tell: &Tell,
) -> Result<(Exit, Executor), Error> {
    let mut output = Output::default();
    let exit = {
        let feeding = feed(&mut speaker, process, input);
        let mut feeding = std::pin::pin!(feeding);
        let mut fed = input.is_empty();
        loop {
            let heard = tokio::select! {
                heard = tokio::time::timeout(SILENCE, listener.hear()) => heard,
                // If it is not taken, the end of the process says more.
                _ = &mut feeding, if !fed => {
                    fed = true;
                    continue;
                }
            };
            match heard {
                Err(_) => tell.hint(),
                Ok(Err(error)) => break Err(error),
                Ok(Ok(heard)) => match heard {
                    Heard::Data(data) if data.process == process => {
                        output.push(data.stream == Stream::Stderr, data.offset, &data.bytes);
                        tell.say(Ok(said(data))).await;
                    }
                    Heard::Said(Said::Exited { process: which, exit }) if which == process => break Ok(exit),
                    _ => {}
                },
            }
        }
    };
    output.record(record);
    Ok((exit?, Executor::join(speaker, listener)))
}

async fn feed(speaker: &mut Speaker, process: u64, input: &[u8]) -> Result<(), Error> {
    for piece in input.chunks(PIECE) {
        speaker.input(process, piece.to_vec()).await?;
    }
    speaker.send(Request::CloseStdin { process }).await.map(|_| ())
}

fn finished(result: Result<Arc<StepRecord>, Status>) -> Result<StepEvent, Status> {
    result.map(|record| event(Event::Finished(StepRecord::clone(&record))))
}

pub(super) fn event(event: Event) -> StepEvent {
    StepEvent { event: Some(event) }
}

pub(super) fn said(data: Data) -> StepEvent {
    let stderr = data.stream == Stream::Stderr;
    event(Event::Output(StepOutput { stderr, offset: data.offset, data: data.bytes.into() }))
}

/// A recorded step, told again from where one had come.
pub(super) fn told(record: StepRecord, stdout: u64, stderr: u64) -> Events {
    let (tell, events) = mpsc::channel(4);
    let mut all = vec![event(Event::Started(StepStarted { index: record.index, process: 0 }))];
    for (is_stderr, kept, from) in [(false, &record.stdout, stdout), (true, &record.stderr, stderr)] {
        let skip = usize::try_from(from).unwrap_or(usize::MAX).min(kept.len());
        if skip < kept.len() {
            let output = StepOutput { stderr: is_stderr, offset: skip as u64, data: kept.slice(skip..) };
            all.push(event(Event::Output(output)));
        }
    }
    all.push(event(Event::Finished(record)));
    for one in all {
        // There is room for all four.
        let _ = tell.try_send(Ok(one));
    }
    events
}
