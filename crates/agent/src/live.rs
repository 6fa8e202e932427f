//! Live access as argocd-agent has it: what a hub asks of this cluster's API by events, answered within bounds.

mod logs;
mod managed;
mod metrics;
mod plan;
mod resource;
mod resume;
mod room;
mod terminal;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use thane_api::event::{Event, Target, Type};
use thane_api::live::{LogRequest, ResourceRequest, ResourceResponse, TerminalRequest};
use thane_link::{Line, Passage, Passing, Takers};
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::connection::Calls;
use managed::Tracking;
use metrics::{Kind, Metrics, Outcome};
use plan::is_segment;
use room::Room;

/// Requests that may be at work or wait; one more is told that there are too many.
const REQUESTS_MAX: usize = 256;
/// Requests at work: what one API server takes beside everything else.
const AT_WORK_MAX: usize = 32;
/// Logs and terminals open at once.
const STREAMS_MAX: usize = 48;
/// Logs and terminals that are told at once that there are too many; more are told nothing.
const REFUSALS_MAX: usize = 16;
/// How long the API may take to answer one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// What live access needs.
pub struct Parts {
    /// The cluster's API, as a user who may do what people are to do through the hub.
    pub client: Client,
    /// Where the line to the hub is found.
    pub passage: Passage,
    /// How further calls are made.
    pub calls: watch::Receiver<Option<Calls>>,
    /// Argo CD's namespace: its settings say how its objects are told.
    pub namespace: String,
    /// Time.
    pub clock: SharedClock,
    /// What runs here.
    pub tasks: Tasks,
}

/// Answers requests of the hub.
#[derive(Clone)]
pub struct Live(Arc<Inner>);

struct Inner {
    client: Client,
    passage: Passage,
    calls: watch::Receiver<Option<Calls>>,
    tracking: Tracking,
    clock: SharedClock,
    tasks: Tasks,
    places: Arc<Semaphore>,
    at_work: Semaphore,
    streams: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    room: Room,
    /// Logs and terminals that are open, by their ids: a repeated request opens none.
    open: Mutex<BTreeSet<String>>,
    metrics: Metrics,
}

/// An open log or terminal.
struct Open {
    inner: Arc<Inner>,
    uuid: String,
    /// None when there are too many.
    place: Option<OwnedSemaphorePermit>,
    _refusal: Option<OwnedSemaphorePermit>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.inner.open.lock().remove(&self.uuid);
    }
}

impl Live {
    /// Ready to answer.
    pub fn new(parts: Parts, registry: &mut Registry) -> Self {
        let metrics = Metrics::default();
        metrics.register(registry);
        Self(Arc::new(Inner {
            tracking: Tracking::new(parts.client.clone(), &parts.namespace, Arc::clone(&parts.clock)),
            client: parts.client,
            passage: parts.passage,
            calls: parts.calls,
            clock: parts.clock,
            tasks: parts.tasks,
            places: Arc::new(Semaphore::new(REQUESTS_MAX)),
            at_work: Semaphore::new(AT_WORK_MAX),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
            room: Room::default(),
            open: Mutex::default(),
            metrics,
        }))
    }
}

impl Live {
    /// Who takes what the hub asks for: this, for all that it answers.
    pub fn takers(self) -> Takers {
        let this: Arc<dyn Passing> = Arc::new(self);
        let with = |takers: Takers, target| takers.with(target, Arc::clone(&this));
        [Target::Resource, Target::ContainerLog, Target::Terminal].into_iter().fold(Takers::default(), with)
    }
}

impl Passing for Live {
    fn received(&self, peer: &str, event: Event) {
        match event.target {
            Target::Resource => self.request(peer, &event),
            Target::ContainerLog => {
                let Some(request) = self.read::<LogRequest>(Kind::Log, &event) else { return };
                if let Some(open) = self.open(Kind::Log, &request.uuid) {
                    self.spawn("log", logs::stream(open, request));
                }
            }
            Target::Terminal => {
                let Some(request) = self.read::<TerminalRequest>(Kind::Terminal, &event) else { return };
                if let Some(open) = self.open(Kind::Terminal, &request.uuid) {
                    self.spawn("terminal", terminal::serve(open, request));
                }
            }
            _ => tracing::debug!(target = event.target.as_str(), "not a request of live access"),
        }
    }
}

impl Live {
    fn request(&self, peer: &str, event: &Event) {
        let Some(request) = self.read::<ResourceRequest>(Kind::Resource, event) else { return };
        let Some(line) = self.0.passage.line(peer) else { return };
        let inner = Arc::clone(&self.0);
        let Ok(place) = Arc::clone(&self.0.places).try_acquire_owned() else {
            let answer = resource::Answer::refused(429, "too many requests are under way in this agent");
            inner.metrics.count(Kind::Resource, Outcome::Busy);
            // Without room for it, the hub finds out that it waits for nothing.
            if let Some(event) = response(&request.uuid, answer.status, answer.body) {
                let _ = line.send(event);
            }
            return;
        };
        self.spawn("request", async move {
            let answer = inner.answer(&request).await;
            inner.metrics.count(Kind::Resource, Outcome::of_status(answer.status));
            inner.reply(&line, &request.uuid, answer).await;
            drop(place);
        });
    }

    fn read<T: DeserializeOwned>(&self, kind: Kind, event: &Event) -> Option<T> {
        let read = serde_json::from_slice(&event.data);
        read.inspect_err(|error| {
            self.0.metrics.count(kind, Outcome::Unreadable);
            tracing::warn!(%error, target = event.target.as_str(), "a request of live access cannot be read");
        })
        .ok()
    }

    /// A place for a new log or terminal, or for telling that there is none; nothing if it is open already, or if too many
    /// are being told.
    fn open(&self, kind: Kind, uuid: &str) -> Option<Open> {
        if !self.0.open.lock().insert(uuid.to_owned()) {
            return None;
        }
        let place = Arc::clone(&self.0.streams).try_acquire_owned().ok();
        let refusal = if place.is_some() {
            None
        } else {
            let Ok(refusal) = Arc::clone(&self.0.refusals).try_acquire_owned() else {
                self.0.open.lock().remove(uuid);
                self.0.metrics.count(kind, Outcome::Busy);
                return None;
            };
            Some(refusal)
        };
        Some(Open { inner: Arc::clone(&self.0), uuid: uuid.to_owned(), place, _refusal: refusal })
    }

    fn spawn(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.0.tasks.token();
        self.0.tasks.spawn(name, async move {
            tokio::select! {
                () = work => {}
                () = stop.cancelled() => {}
            }
        });
    }
}

impl Inner {
    async fn answer(&self, request: &ResourceRequest) -> resource::Answer {
        let plan = match plan::plan(request) {
            Ok(plan) => plan,
            Err(refusal) => return resource::Answer::refused(refusal.status, &refusal.message),
        };
        // The semaphore is never closed.
        let _turn = self.at_work.acquire().await;
        let answering = resource::answer(&self.client, &self.tracking, &self.room, plan);
        let late = || resource::Answer::refused(504, "the cluster's API gave no answer in time");
        tokio::time::timeout(REQUEST_TIMEOUT, answering).await.unwrap_or_else(|_| late())
    }

    async fn reply(&self, line: &Line, uuid: &str, answer: resource::Answer) {
        // Its room is given back when it is on its way.
        let resource::Answer { status, body, room: _room } = answer;
        let Some(event) = response(uuid, status, body) else { return };
        // A hub that has gone has no use for the answer.
        let _ = line.send_when_free(event).await;
    }
}

fn response(uuid: &str, status: u16, resource: String) -> Option<Event> {
    let response = ResourceResponse { uuid: uuid.to_owned(), status: status.into(), resource };
    let data = serde_json::to_vec(&response).ok()?;
    let id = uuid::Uuid::new_v4().to_string();
    Some(Event::answer(Target::Resource, Type::Response, id, uuid, data.into()))
}
