//! Where agents are asked, and what they say finds whoever waits for it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use thane_api::event::{Event, Type};
use thane_api::redis::{Ask, Request, Response, Said};
use thane_link::{Line, Passage, Passing, Unsent};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use uuid::Uuid;

/// Questions to all agents that wait for an answer.
const WAITING_MAX: usize = 4_096;
/// Bytes of all answers that wait for their turn.
const HELD_MAX: usize = 256 * 1024 * 1024;

/// Asks agents' Redis over their event streams.
pub struct Desk {
    passage: Passage,
    timeout: Duration,
    waiting: Mutex<HashMap<String, Waiting>>,
    followers: Mutex<HashMap<String, Follower>>,
    /// Room for what agents have answered and clients have not been given.
    held: Arc<Semaphore>,
    metrics: Metrics,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Why {
    reason: &'static str,
}

/// What is counted where agents are asked.
#[derive(Debug, Clone, Default)]
struct Metrics {
    waiting: Gauge,
    full: Counter,
    refused: Family<Why, Counter>,
    held: Gauge,
    held_full: Counter,
}

struct Waiting {
    agent: String,
    answer: oneshot::Sender<Said>,
}

struct Follower {
    agent: String,
    channel: String,
    told: Arc<Told>,
}

/// Channels that had messages, until they are asked for.
#[derive(Default)]
pub(super) struct Told {
    channels: Mutex<BTreeSet<String>>,
    some: Notify,
}

impl Told {
    pub(super) fn tell(&self, channel: &str) {
        self.channels.lock().insert(channel.to_owned());
        self.some.notify_one();
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.channels.lock().is_empty()
    }

    /// Waits for messages; each channel once, however many there were.
    pub(super) async fn channels(&self) -> BTreeSet<String> {
        loop {
            let channels = std::mem::take(&mut *self.channels.lock());
            if !channels.is_empty() {
                return channels;
            }
            self.some.notified().await;
        }
    }
}

/// Why an agent has not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// It is not connected.
    Absent,
    /// Too many questions wait for it.
    Busy,
    /// Its connection ended before it did.
    Lost,
    /// It took too long.
    Late,
}

impl Desk {
    /// A desk from which agents are asked over those lines; they have so much time to answer.
    pub fn new(passage: Passage, timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            passage,
            timeout,
            waiting: Mutex::default(),
            followers: Mutex::default(),
            held: Arc::new(Semaphore::new(HELD_MAX)),
            metrics: Metrics::default(),
        })
    }

    /// Makes its counts visible.
    pub(super) fn register(&self, registry: &mut Registry) {
        let Metrics { waiting, full, refused, held, held_full } = self.metrics.clone();
        registry.register("thane_redis_waiting", "Questions to agents that wait for an answer", waiting);
        registry.register("thane_redis_waiting_full", "Questions refused because too many wait", full);
        registry.register("thane_redis_refused", "What agents said and nobody had asked, by reason", refused);
        registry.register("thane_redis_held_bytes", "Bytes of answers that clients have not been given", held);
        registry.register("thane_redis_held_full", "Answers dropped because too much is held", held_full);
    }

    /// The value, which has a place among all that are held until it is given to its client; none if there is no place.
    pub(super) fn hold(&self, value: Bytes) -> Option<Bytes> {
        if value.is_empty() {
            return Some(value);
        }
        let room =
            u32::try_from(value.len()).ok().and_then(|bytes| Arc::clone(&self.held).try_acquire_many_owned(bytes).ok());
        let Some(room) = room else {
            self.metrics.held_full.inc();
            return None;
        };
        self.metrics.held.inc_by(i64::from(u32::try_from(room.num_permits()).unwrap_or(u32::MAX)));
        Some(Bytes::from_owner(Held { value, room, gauge: self.metrics.held.clone() }))
    }

    fn refuse(&self, agent: &str, reason: &'static str) {
        tracing::debug!(agent, reason, "an agent's Redis says what it was not asked");
        self.metrics.refused.get_or_create(&Why { reason }).inc();
    }

    pub(super) fn passage(&self) -> &Passage {
        &self.passage
    }

    /// How long agents may take.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Asks an agent.
    pub(super) async fn ask(&self, agent: &str, connection: &str, ask: Ask) -> Result<Said, Unanswered> {
        let line = self.passage.line(agent).ok_or(Unanswered::Absent)?;
        self.ask_on(&line, agent, connection, ask).await
    }

    /// Asks an agent on the stream that it has now.
    pub(super) async fn ask_on(
        &self,
        line: &Line,
        agent: &str,
        connection: &str,
        ask: Ask,
    ) -> Result<Said, Unanswered> {
        let (answer, answered) = oneshot::channel();
        let request = Request { id: Uuid::new_v4().to_string(), connection: connection.to_owned(), ask };
        let _place = self.wait_for(&request.id, agent, answer)?;
        line.send(request.event()).map_err(|unsent| match unsent {
            Unsent::Absent => Unanswered::Absent,
            Unsent::Full => Unanswered::Busy,
        })?;
        tokio::select! {
            biased;
            Ok(said) = answered => Ok(said),
            () = line.ended() => Err(Unanswered::Lost),
            () = tokio::time::sleep(self.timeout) => Err(Unanswered::Late),
        }
    }

    fn wait_for(&self, id: &str, agent: &str, answer: oneshot::Sender<Said>) -> Result<Place<'_>, Unanswered> {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= WAITING_MAX {
            self.metrics.full.inc();
            return Err(Unanswered::Busy);
        }
        self.metrics.waiting.inc();
        waiting.insert(id.to_owned(), Waiting { agent: agent.to_owned(), answer });
        Ok(Place { desk: self, id: id.to_owned() })
    }

    /// Messages of that channel are told from now on, until what is given back is dropped.
    pub(super) fn follow(self: &Arc<Self>, agent: &str, channel: &str, told: &Arc<Told>) -> Following {
        let id = Uuid::new_v4().to_string();
        let follower = Follower { agent: agent.to_owned(), channel: channel.to_owned(), told: Arc::clone(told) };
        self.followers.lock().insert(id.clone(), follower);
        Following { desk: Arc::clone(self), id }
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.waiting.lock().len(), self.followers.lock().len())
    }
}

/// A value with its room.
struct Held {
    value: Bytes,
    room: OwnedSemaphorePermit,
    gauge: Gauge,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.value
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.gauge.dec_by(i64::from(u32::try_from(self.room.num_permits()).unwrap_or(u32::MAX)));
    }
}

/// A place among those who wait.
struct Place<'a> {
    desk: &'a Desk,
    id: String,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.desk.waiting.lock().remove(&self.id);
        self.desk.metrics.waiting.dec();
    }
}

/// A place among those who are told.
pub(super) struct Following {
    desk: Arc<Desk>,
    /// What subscriptions at the agent belong to.
    pub(super) id: String,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.desk.followers.lock().remove(&self.id);
    }
}

impl Passing for Desk {
    fn received(&self, peer: &str, event: Event) {
        if event.kind != Type::RedisResponse {
            // An agent has no business with the hub's Redis.
            return self.refuse(peer, "unasked");
        }
        let Ok(response) = Response::read(&event.data) else { return self.refuse(peer, "unreadable") };
        if let Said::Message(channel) = &response.said {
            let followers = self.followers.lock();
            match followers.get(&response.connection) {
                Some(follower) if follower.agent == peer && follower.channel == *channel => follower.told.tell(channel),
                // It may have been left just before.
                _ => self.refuse(peer, "unheard"),
            }
            return;
        }
        let mut waiting = self.waiting.lock();
        // An agent answers what it was asked, and nothing else.
        match waiting.get(&response.id).map(|waiting| waiting.agent == peer) {
            None => self.refuse(peer, "unknown"),
            Some(false) => self.refuse(peer, "stranger"),
            Some(true) => {
                if let Some(waiting) = waiting.remove(&response.id) {
                    // Whoever asked may have gone.
                    let _ = waiting.answer.send(response.said);
                }
            }
        }
    }
}
