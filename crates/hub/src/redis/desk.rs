//! Where agents are asked, and what they say finds whoever waits for it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use thane_api::event::{Event, Type};
use thane_api::redis::{Ask, Request, Response, Said};
use thane_link::{Line, Passage, Passing, Unsent};
use tokio::sync::{Notify, oneshot};
use uuid::Uuid;

/// Questions to all agents that wait for an answer.
const WAITING_MAX: usize = 4_096;

/// Asks agents' Redis over their event streams.
pub struct Desk {
    passage: Passage,
    timeout: Duration,
    waiting: Mutex<HashMap<String, Waiting>>,
    followers: Mutex<HashMap<String, Follower>>,
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
        Arc::new(Self { passage, timeout, waiting: Mutex::default(), followers: Mutex::default() })
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
            return Err(Unanswered::Busy);
        }
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

/// A place among those who wait.
struct Place<'a> {
    desk: &'a Desk,
    id: String,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.desk.waiting.lock().remove(&self.id);
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
            tracing::debug!(agent = peer, kind = ?event.kind, "an agent asks for the hub's Redis, and is not answered");
            return;
        }
        let response = match Response::read(&event.data) {
            Ok(response) => response,
            Err(error) => {
                tracing::debug!(agent = peer, %error, "an answer of an agent's Redis cannot be read");
                return;
            }
        };
        if let Said::Message(channel) = &response.said {
            let followers = self.followers.lock();
            if let Some(follower) = followers.get(&response.connection)
                && follower.agent == peer
                && follower.channel == *channel
            {
                follower.told.tell(channel);
            }
            return;
        }
        let mut waiting = self.waiting.lock();
        // An agent answers what it was asked, and nothing else.
        if waiting.get(&response.id).is_some_and(|waiting| waiting.agent == peer)
            && let Some(waiting) = waiting.remove(&response.id)
        {
            // Whoever asked may have gone.
            let _ = waiting.answer.send(response.said);
        }
    }
}
