//! Pushes to one agent. What is to be pushed is made when there is room to push it: a slow agent costs the set of topics
//! that changed and nothing more, and gets all that happened to one in one piece.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use futures::future::{AbortHandle, Abortable, BoxFuture};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use thane_api::wire::discovery::{FollowReply, FollowRequest, Subscription};
use tokio::sync::{Notify, mpsc};
use tonic::{Status, Streaming};

use super::{Metrics, Source, convert};
use crate::backend::Consistency;
use crate::model::Index;
use crate::topic::Topic;

/// Topics one agent may follow: what it may hold, and what it always holds.
const TOPICS_MAX: usize = 12_000;
/// Bytes of deltas after which a message is full.
const REPLY_BYTES: usize = 1024 * 1024;
/// Deltas that are remembered as written.
const WRITTEN_MAX: usize = 4096;

/// Deltas as they were written last: agents that follow the same topic get the same bytes.
#[derive(Debug, Default)]
pub(super) struct Written(Mutex<HashMap<Topic, (Index, Index, Bytes)>>);

impl Written {
    /// What happened to a topic since an index, and the index it leads to.
    fn delta(&self, source: &dyn Source, topic: &Topic, since: Index) -> Option<(Index, Bytes)> {
        // An agent that comes from a hub further on is told everything.
        let since = if since > source.index() { 0 } else { since };
        let now = source.ready(topic, Consistency::Default).map(|reading| reading.data.index);
        if let Some(now) = now
            && let Some((from, to, bytes)) = self.0.lock().get(topic)
            && (*from, *to) == (since, now)
        {
            return Some((*to, bytes.clone()));
        }
        let mut delta = source.delta(topic, since);
        if since == 0 {
            delta.since = None;
        }
        let bytes = Bytes::from(serde_json::to_vec(&delta).ok()?);
        let mut written = self.0.lock();
        if written.len() >= WRITTEN_MAX {
            written.clear();
        }
        written.insert(topic.clone(), (since, delta.index, bytes.clone()));
        Some((delta.index, bytes))
    }
}

/// Pushes to one agent.
pub(super) struct Follower {
    source: Arc<dyn Source>,
    agent: String,
    poke: Arc<Notify>,
    written: Arc<Written>,
    is_packed: bool,
    metrics: Metrics,
    topics: HashMap<Topic, Known>,
    wakes: FuturesUnordered<BoxFuture<'static, Option<Topic>>>,
    /// Topics that may have changed.
    changed: BTreeSet<Topic>,
    /// Topics that are to be pushed even if nothing changed.
    asked: BTreeSet<Topic>,
    /// A reply is owed in any case.
    is_owed: bool,
    /// Everything up to here has been pushed.
    complete: Index,
}

/// What an agent has of a topic.
struct Known {
    index: Index,
    wake: AbortHandle,
}

impl Drop for Known {
    fn drop(&mut self) {
        self.wake.abort();
    }
}

impl Follower {
    pub(super) fn new(
        source: Arc<dyn Source>,
        agent: String,
        poke: Arc<Notify>,
        written: Arc<Written>,
        is_packed: bool,
        metrics: Metrics,
    ) -> Self {
        Self {
            source,
            agent,
            poke,
            written,
            is_packed,
            metrics,
            topics: HashMap::new(),
            wakes: FuturesUnordered::new(),
            changed: BTreeSet::new(),
            asked: BTreeSet::new(),
            is_owed: false,
            complete: 0,
        }
    }

    /// Pushes until the agent goes.
    pub(super) async fn run(
        mut self,
        mut requests: Streaming<FollowRequest>,
        replies: mpsc::Sender<Result<FollowReply, Status>>,
    ) {
        loop {
            let has_something = self.is_owed || !self.changed.is_empty() || !self.asked.is_empty();
            let poke = Arc::clone(&self.poke);
            tokio::select! {
                request = requests.message() => match request {
                    Ok(Some(request)) => self.take(request),
                    Ok(None) | Err(_) => return,
                },
                Some(woken) = self.wakes.next(), if !self.wakes.is_empty() => self.woken(woken),
                () = poke.notified() => self.is_owed = true,
                room = replies.reserve(), if has_something => match room {
                    Ok(room) => if let Some(reply) = self.reply() {
                        room.send(Ok(reply));
                    },
                    Err(_) => return,
                },
                () = replies.closed() => return,
            }
        }
    }

    fn take(&mut self, request: FollowRequest) {
        self.source.agent_seen(&self.agent);
        for gone in request.unsubscribe {
            if let Ok(topic) = serde_json::from_slice::<Topic>(&gone.topic) {
                self.topics.remove(&topic);
                self.changed.remove(&topic);
                self.asked.remove(&topic);
            }
        }
        for Subscription { topic, index } in request.subscribe {
            match serde_json::from_slice::<Topic>(&topic) {
                Ok(topic) if self.topics.len() < TOPICS_MAX || self.topics.contains_key(&topic) => {
                    let wake = self.arm(&topic);
                    self.topics.insert(topic.clone(), Known { index: convert::index(index), wake });
                    self.asked.insert(topic);
                }
                Ok(_) => drop(self.metrics.full_sets.inc()),
                Err(error) => tracing::debug!(agent = self.agent, %error, "an agent asks for what is no topic"),
            }
        }
        self.is_owed |= request.keep_alive;
    }

    fn arm(&mut self, topic: &Topic) -> AbortHandle {
        let (handle, registration) = AbortHandle::new_pair();
        let wake = Abortable::new(self.source.wake(topic), registration);
        let topic = topic.clone();
        self.wakes.push(wake.map(move |woken| woken.ok().map(|()| topic)).boxed());
        handle
    }

    /// A topic may have changed. It is watched again before it is looked at, so that nothing is missed.
    fn woken(&mut self, topic: Option<Topic>) {
        let Some(topic) = topic.filter(|topic| self.topics.contains_key(topic)) else { return };
        let wake = self.arm(&topic);
        if let Some(known) = self.topics.get_mut(&topic) {
            known.wake = wake;
        }
        self.changed.insert(topic);
    }

    /// The next topic to look at, and whether it is to be pushed even if nothing changed.
    fn next_topic(&mut self) -> Option<(Topic, bool)> {
        if let Some(topic) = self.asked.pop_first() {
            self.changed.remove(&topic);
            return Some((topic, true));
        }
        self.changed.pop_first().map(|topic| (topic, false))
    }

    /// What there is to push, if anything.
    fn reply(&mut self) -> Option<FollowReply> {
        // What has happened up to here has woken its topics already.
        let current = self.source.index();
        while let Some(Some(woken)) = self.wakes.next().now_or_never() {
            self.woken(woken);
        }
        let mut deltas = Vec::new();
        let mut bytes = 0;
        while bytes < REPLY_BYTES
            && let Some((topic, is_asked)) = self.next_topic()
        {
            let Some(known) = self.topics.get_mut(&topic) else { continue };
            let Some((index, delta)) = self.written.delta(self.source.as_ref(), &topic, known.index) else { continue };
            if index == known.index && !is_asked {
                continue;
            }
            known.index = index;
            bytes += delta.len();
            deltas.push(delta);
        }
        if self.asked.is_empty() && self.changed.is_empty() {
            self.complete = self.complete.max(current);
        }
        let is_owed = std::mem::take(&mut self.is_owed);
        if deltas.is_empty() && !is_owed {
            return None;
        }
        let reply =
            FollowReply { current_index: convert::signed(self.complete), deltas, compressed_data: Bytes::new() };
        Some(if self.is_packed { convert::packed(reply) } else { reply })
    }
}
