//! The loop of one connection: what is seen, received and written goes in, what is to be done comes out.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use serde_json::Value;
use thane_api::event::{DecodeError, Event};
use thane_runtime::{SharedClock, Tasks};
use thane_sync::Now;
use thane_sync::link::{Effect, Link, Report, Side, Whose};
use thane_sync::object::{Key, Object};
use thane_sync::store::Seen;
use thane_sync::work::{Outcome, Ticket};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::metrics::LinkMetrics;
use crate::objects::Objects;
use crate::passing::{Outlet, Passage, Passing};
use crate::rights::explain;

/// Commands, outcomes and events taken in before anything is sent; more would delay what is due.
const BATCH: usize = 256;

/// An open stream of events.
#[derive(Debug)]
pub struct Stream {
    /// What is to be sent.
    pub outgoing: mpsc::Sender<Event>,
    /// What came.
    pub incoming: mpsc::Receiver<Result<Event, DecodeError>>,
    /// Ends it; cancelled when it has ended.
    pub close: CancellationToken,
}

/// Tells a link something that only its side has words for.
pub type Tell<S> = Box<dyn FnOnce(&mut Link<S>, Now) + Send>;

/// What a connection is told.
pub enum Command<S> {
    /// Objects as they are at the start.
    Initial(Vec<(Key, Object)>),
    /// Something a watch saw.
    Seen(Key, Seen),
    /// Anything else the side has to be told.
    Change(Tell<S>),
    /// A new stream, and what to tell the side about it. It takes the place of the one before.
    Opened(Stream, Tell<S>),
    /// How it is doing.
    Inspect(oneshot::Sender<Snapshot>),
}

/// How a connection is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Whether the peer is there.
    pub connected: bool,
    /// Events that wait for it or for its acknowledgement.
    pub outgoing: usize,
    /// How long the oldest of them has waited.
    pub oldest: Option<Duration>,
    /// Objects known on this side.
    pub objects: usize,
    /// Objects that could not be made right, and why.
    pub troubles: Vec<(String, String)>,
}

/// Hears of what cannot be done, and whose it is.
pub type Troubled = Box<dyn Fn(Whose, Report) + Send + Sync>;

/// Runs one connection.
pub struct Driver<S> {
    /// The protocol.
    pub link: Link<S>,
    /// The API it writes to.
    pub objects: Objects,
    /// Labels of namespaces it makes.
    pub namespace_labels: Value,
    /// Time.
    pub clock: SharedClock,
    /// What is counted.
    pub metrics: Arc<LinkMetrics>,
    /// The other end's name, for those who take what passes by.
    pub peer: String,
    /// Who takes what passes by.
    pub passing: Arc<dyn Passing>,
    /// Where others find the line to this peer.
    pub passage: Passage,
    /// Who hears of what cannot be done, by either side.
    pub troubled: Troubled,
}

type Writes = FuturesUnordered<BoxFuture<'static, (Ticket, Outcome)>>;

impl<S: Side + Send + 'static> Driver<S> {
    /// Runs until the tasks are asked to stop or nobody can command it any more.
    pub async fn run(mut self, mut commands: mpsc::Receiver<Command<S>>, tasks: Tasks) {
        let mut stream: Option<Stream> = None;
        let mut writes = Writes::new();
        loop {
            self.carry_out(&writes, &tasks);
            let is_blocked = self.send(stream.as_ref());
            let now = self.now();
            // Without room nothing can be sent; everything else that is due is not delayed by that.
            let wake = if is_blocked { self.link.next_tick() } else { self.link.next_wake(now) };
            let wake = wake.map(|at| at.saturating_sub(now.monotonic));
            tokio::select! {
                biased;
                () = tasks.cancelled() => break,
                command = commands.recv() => {
                    let Some(command) = command else { break };
                    self.obey(command, &mut stream, &tasks);
                }
                Some((ticket, outcome)) = writes.next(), if !writes.is_empty() => {
                    let now = self.now();
                    self.link.written(now, ticket, outcome);
                }
                happened = happened(stream.as_mut(), !self.link.is_full(), is_blocked) => match happened {
                    Happened::Received(received) => self.received(received, &mut stream),
                    Happened::Room => {}
                    Happened::Closed => self.closed(&mut stream),
                },
                () = sleep(wake) => {
                    let now = self.now();
                    self.link.tick(now);
                }
            }
            self.take_more(&mut commands, &mut writes, &mut stream, &tasks);
        }
        if let Some(stream) = stream {
            stream.close.cancel();
        }
    }

    /// Takes in what else is there, some of each, so that none waits for the others and answers go out together.
    fn take_more(
        &mut self,
        commands: &mut mpsc::Receiver<Command<S>>,
        writes: &mut Writes,
        stream: &mut Option<Stream>,
        tasks: &Tasks,
    ) {
        for _ in 0..BATCH {
            let Ok(command) = commands.try_recv() else { break };
            self.obey(command, stream, tasks);
        }
        for _ in 0..BATCH {
            let Some(Some((ticket, outcome))) = writes.next().now_or_never() else { break };
            let now = self.now();
            self.link.written(now, ticket, outcome);
        }
        for _ in 0..BATCH {
            let next = stream.as_mut().filter(|_| !self.link.is_full()).and_then(|open| open.incoming.try_recv().ok());
            let Some(received) = next else { break };
            self.received(Some(received), stream);
        }
    }

    fn now(&self) -> Now {
        Now { monotonic: self.clock.monotonic(), wall: self.clock.now() }
    }

    fn obey(&mut self, command: Command<S>, stream: &mut Option<Stream>, tasks: &Tasks) {
        let now = self.now();
        match command {
            Command::Initial(objects) => {
                for (key, object) in objects {
                    self.link.initial(&key, object);
                }
            }
            Command::Seen(key, seen) => self.link.seen(now, &key, seen),
            Command::Change(change) => change(&mut self.link, now),
            Command::Opened(new, tell) => {
                self.closed(stream);
                self.passage.opened(&self.peer, self.outlet(&new), tasks);
                *stream = Some(new);
                tell(&mut self.link, now);
            }
            Command::Inspect(answer) => {
                // Whoever asked may have gone.
                let _ = answer.send(self.snapshot(now));
            }
        }
    }

    fn outlet(&self, stream: &Stream) -> Outlet {
        Outlet {
            outgoing: stream.outgoing.clone(),
            close: stream.close.clone(),
            clock: Arc::clone(&self.clock),
            metrics: Arc::clone(&self.metrics),
        }
    }

    fn snapshot(&self, now: Now) -> Snapshot {
        let core = &self.link.core;
        let name = |key: &Key| format!("{}/{}/{}", key.kind.name(), key.namespace, key.name);
        Snapshot {
            connected: core.peer.is_some(),
            outgoing: core.outbox.len(),
            oldest: core.outbox.oldest(now),
            objects: core.store.len(),
            troubles: core.troubles().map(|(key, message)| (name(key), message.to_owned())).collect(),
        }
    }

    fn received(&mut self, received: Option<Result<Event, DecodeError>>, stream: &mut Option<Stream>) {
        let now = self.now();
        match received {
            Some(Ok(event)) => {
                self.metrics.received(&event);
                self.link.received(now, event);
            }
            Some(Err(error)) => self.metrics.undecodable(&error, now.wall),
            None => self.closed(stream),
        }
    }

    fn closed(&mut self, stream: &mut Option<Stream>) {
        if let Some(mut stream) = stream.take() {
            stream.close.cancel();
            let now = self.now();
            // What has been received is still processed.
            while let Ok(received) = stream.incoming.try_recv() {
                match received {
                    Ok(event) => {
                        self.metrics.received(&event);
                        self.link.received(now, event);
                    }
                    Err(error) => self.metrics.undecodable(&error, now.wall),
                }
            }
            self.link.disconnected(now);
        }
    }

    /// Whether there is more to send than the stream has room for.
    fn send(&mut self, stream: Option<&Stream>) -> bool {
        let now = self.now();
        let room = stream.map_or(0, |stream| stream.outgoing.capacity());
        for event in self.link.due(now, room) {
            self.metrics.sent(&event);
            // There was room for it; if the stream has just ended, it is sent again on the next one.
            if let Some(stream) = stream {
                let _ = stream.outgoing.try_send(event);
            }
        }
        self.metrics.queues(&self.link.core, now);
        stream.is_some_and(|stream| stream.outgoing.capacity() == 0)
    }

    fn carry_out(&mut self, writes: &Writes, tasks: &Tasks) {
        for effect in self.link.effects() {
            match effect {
                Effect::Write(ticket, key, write) => {
                    let objects = self.objects.clone();
                    let labels = self.namespace_labels.clone();
                    let namespace = self.link.side.namespace_first(&key, &write);
                    // A task of its own: bodies of many writes are made and read on all processors.
                    let (told, outcome) = oneshot::channel();
                    let stop = tasks.token();
                    let writing = async move {
                        if let Some(namespace) = namespace
                            && let Err(error) = objects.ensure_namespace(&namespace, &labels).await
                        {
                            let error = explain(&error, "create", &format!("/api/v1/namespaces/{namespace}"));
                            tracing::warn!(namespace, error, "the namespace could not be made");
                        }
                        // Nobody listens when the connection has ended.
                        let _ = told.send(objects.write(&key, write).await);
                    };
                    tasks.spawn("write", async move {
                        tokio::select! {
                            () = writing => {}
                            () = stop.cancelled() => {}
                        }
                    });
                    writes.push(
                        outcome.map(move |outcome| (ticket, outcome.unwrap_or_else(|_| Outcome::lost()))).boxed(),
                    );
                }
                Effect::Pass(event) => self.passing.received(&self.peer, event),
                Effect::Troubles(whose, report) => (self.troubled)(whose, report),
                Effect::Note(note) => self.metrics.note(&note, self.clock.now()),
            }
        }
    }
}

enum Happened {
    Received(Option<Result<Event, DecodeError>>),
    Room,
    Closed,
}

/// The next thing that happens on a stream; without one, nothing ever does.
async fn happened(stream: Option<&mut Stream>, reads: bool, is_blocked: bool) -> Happened {
    let Some(Stream { outgoing, incoming, close }) = stream else { return std::future::pending().await };
    tokio::select! {
        biased;
        received = incoming.recv(), if reads => Happened::Received(received),
        room = outgoing.reserve(), if is_blocked => if room.is_ok() { Happened::Room } else { Happened::Closed },
        () = close.cancelled() => Happened::Closed,
    }
}

async fn sleep(wake: Option<Duration>) {
    match wake {
        Some(wake) => tokio::time::sleep(wake).await,
        None => std::future::pending().await,
    }
}
