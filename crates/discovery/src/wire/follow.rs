//! Pushes to one agent. What is to be pushed is made when there is room to push it: a slow agent costs the set of topics
//! that changed and nothing more, and gets all that happened to one in one piece.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use thane_api::wire::discovery::{FollowReply, FollowRequest, Subscription};
use tokio::sync::{Notify, mpsc};
use tonic::{Status, Streaming};

use super::{Metrics, PUSHED_BYTES_MAX, convert};
use crate::backend::{Backend, Consistency};
use crate::hub::{Follower, Registry};
use crate::model::Index;
use crate::topic::Topic;

/// Bytes of deltas after which a message is full. Compression looks back half as far, so a longer one would save nothing,
/// and both sides hold all of one.
const REPLY_BYTES: usize = 128 * 1024;
/// Deltas that are remembered as written.
const WRITTEN_MAX: usize = 4096;

/// Deltas as they were written last: agents that follow the same topic get the same bytes.
#[derive(Debug, Default)]
pub(super) struct Written(Mutex<HashMap<Topic, (Index, Index, Bytes)>>);

impl Written {
    /// What happened to a topic since an index, and the index it leads to.
    async fn delta(&self, registry: &Registry, topic: &Topic, since: Index) -> Option<(Index, Bytes)> {
        if let Some(reading) = registry.ready(topic, Consistency::Default)
            && let Some((from, to, bytes)) = self.0.lock().get(topic)
            && (*from, *to) == (since, reading.data.index)
        {
            return Some((*to, bytes.clone()));
        }
        let delta = registry.delta(topic, since).await;
        let bytes = Bytes::from(serde_json::to_vec(&delta).ok()?);
        if bytes.len() > PUSHED_BYTES_MAX {
            return Some((delta.index, bytes));
        }
        let mut written = self.0.lock();
        if written.len() >= WRITTEN_MAX {
            written.clear();
        }
        written.insert(topic.clone(), (since, delta.index, bytes.clone()));
        Some((delta.index, bytes))
    }
}

/// Pushes to one agent.
pub(super) struct Pusher {
    registry: Arc<Registry>,
    agent: String,
    poke: Arc<Notify>,
    written: Arc<Written>,
    is_packed: bool,
    metrics: Metrics,
    follower: Follower,
    /// What the agent has of each topic.
    known: HashMap<Topic, Index>,
    /// Topics that changed.
    changed: BTreeSet<Topic>,
    /// Topics that are to be pushed even if nothing changed.
    asked: BTreeSet<Topic>,
    /// A reply is owed in any case.
    is_owed: bool,
    /// Everything up to here has been pushed.
    complete: Index,
}

impl Pusher {
    pub(super) fn new(
        registry: &Arc<Registry>,
        agent: String,
        poke: Arc<Notify>,
        written: Arc<Written>,
        is_packed: bool,
        metrics: Metrics,
    ) -> Self {
        Self {
            follower: registry.follower(),
            registry: Arc::clone(registry),
            agent,
            poke,
            written,
            is_packed,
            metrics,
            known: HashMap::new(),
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
            tokio::select! {
                request = requests.message() => match request {
                    Ok(Some(request)) => self.take(request),
                    Ok(None) | Err(_) => return,
                },
                changed = self.follower.changed() => self.changed.extend(changed),
                () = self.poke.notified() => self.is_owed = true,
                room = replies.reserve(), if has_something => {
                    let Ok(room) = room else { return };
                    if let Some(reply) = self.reply().await {
                        room.send(Ok(reply));
                    }
                }
                () = replies.closed() => return,
            }
        }
    }

    fn take(&mut self, request: FollowRequest) {
        self.registry.agent_seen(&self.agent);
        self.metrics.follows.inc();
        for gone in request.unsubscribe {
            if let Ok(topic) = serde_json::from_slice::<Topic>(&gone.topic) {
                self.follower.unfollow(&topic);
                self.known.remove(&topic);
                self.changed.remove(&topic);
                self.asked.remove(&topic);
            }
        }
        for Subscription { topic, index } in request.subscribe {
            match serde_json::from_slice::<Topic>(&topic) {
                Ok(topic) if self.follower.follow(&topic) => {
                    self.known.insert(topic.clone(), convert::index(index));
                    self.asked.insert(topic);
                }
                Ok(_) => {
                    self.metrics.full_sets.inc();
                }
                Err(error) => tracing::debug!(agent = self.agent, %error, "an agent asks for what is no topic"),
            }
        }
        self.is_owed |= request.keep_alive;
    }

    /// The next topic to look at, and whether it is to be pushed even if nothing changed.
    fn next_topic(&mut self) -> Option<(Topic, bool)> {
        if let Some(topic) = self.asked.pop_first() {
            self.changed.remove(&topic);
            return Some((topic, true));
        }
        self.changed.pop_first().map(|topic| (topic, false))
    }

    /// Follows a topic no longer, and says which: a message so large would end the connection, again and again.
    fn refuse(&mut self, topic: &Topic, bytes: usize) -> Bytes {
        tracing::debug!(agent = self.agent, ?topic, bytes, "too large to be pushed");
        self.metrics.too_large.inc();
        self.follower.unfollow(topic);
        self.known.remove(topic);
        serde_json::to_vec(topic).map(Bytes::from).unwrap_or_default()
    }

    /// What there is to push, if anything.
    async fn reply(&mut self) -> Option<FollowReply> {
        let current = self.registry.index();
        self.changed.extend(self.follower.settled());
        let (mut deltas, mut too_large) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        while bytes < REPLY_BYTES
            && let Some((topic, is_asked)) = self.next_topic()
        {
            let Some(known) = self.known.get_mut(&topic) else { continue };
            let Some((index, delta)) = self.written.delta(&self.registry, &topic, *known).await else { continue };
            if index == *known && !is_asked {
                continue;
            }
            if delta.len() > PUSHED_BYTES_MAX {
                too_large.push(self.refuse(&topic, delta.len()));
                continue;
            }
            *known = index;
            bytes += delta.len();
            deltas.push(delta);
        }
        if self.asked.is_empty() && self.changed.is_empty() {
            self.complete = self.complete.max(current);
        }
        let is_owed = std::mem::take(&mut self.is_owed);
        if deltas.is_empty() && too_large.is_empty() && !is_owed {
            return None;
        }
        let current_index = convert::signed(self.complete);
        let reply = FollowReply { current_index, deltas, too_large, ..FollowReply::default() };
        Some(if self.is_packed { convert::packed(reply) } else { reply })
    }
}
