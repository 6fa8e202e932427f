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
use crate::hub::{Follower, Registry, TOPICS_MAX};
use crate::model::Index;
use crate::topic::Topic;

/// Bytes of deltas after which a message is full. Compression looks back half as far, so a longer one would save nothing,
/// and both sides hold all of one.
const REPLY_BYTES: usize = 128 * 1024;
/// Deltas that are remembered as written.
const WRITTEN_MAX: usize = 4096;
/// Their bytes.
const WRITTEN_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Deltas as they were written last: agents that follow the same topic get the same bytes.
#[derive(Debug, Default)]
pub(super) struct Written(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    deltas: HashMap<Topic, (Index, Index, Bytes)>,
    bytes: usize,
}

impl Kept {
    /// Remembers one; all others are forgotten when there is no room for it.
    fn put(&mut self, topic: &Topic, delta: (Index, Index, Bytes)) {
        let more = delta.2.len();
        if more > WRITTEN_BYTES_MAX / 16 {
            return;
        }
        if self.deltas.len() >= WRITTEN_MAX || self.bytes + more > WRITTEN_BYTES_MAX {
            *self = Self::default();
        }
        self.bytes += more;
        if let Some((.., before)) = self.deltas.insert(topic.clone(), delta) {
            self.bytes -= before.len();
        }
    }
}

impl Written {
    /// What happened to a topic since an index, and the index it leads to.
    async fn delta(&self, registry: &Registry, topic: &Topic, since: Index) -> Option<(Index, Bytes)> {
        if let Some(reading) = registry.ready(topic, Consistency::Default)
            && let Some((from, to, bytes)) = self.0.lock().deltas.get(topic)
            && (*from, *to) == (since, reading.data.index)
        {
            return Some((*to, bytes.clone()));
        }
        let delta = registry.delta(topic, since).await;
        let bytes = Bytes::from(serde_json::to_vec(&delta).ok()?);
        self.0.lock().put(topic, (since, delta.index, bytes.clone()));
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
    /// Topics that are not pushed to it, and it does not know.
    unfollowed: Vec<Bytes>,
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
            unfollowed: Vec::new(),
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
            let has_topics = !self.changed.is_empty() || !self.asked.is_empty();
            let has_something = self.is_owed || has_topics || !self.unfollowed.is_empty();
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
        for Subscription { topic: bytes, index } in request.subscribe {
            match serde_json::from_slice::<Topic>(&bytes) {
                Ok(topic) if self.follower.follow(&topic) => {
                    self.known.insert(topic.clone(), convert::index(index));
                    self.asked.insert(topic);
                }
                Ok(_) => {
                    self.metrics.full_sets.inc();
                    if self.unfollowed.len() < TOPICS_MAX {
                        self.unfollowed.push(bytes);
                    }
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
        let (mut deltas, mut too_large) = (Vec::new(), std::mem::take(&mut self.unfollowed));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::bed::Hub;
    use crate::agent::tests::put;
    use crate::topic::Row;

    #[test]
    fn what_is_remembered_as_written_is_bounded_in_bytes() {
        let (mut kept, mut largest) = (Kept::default(), 0);
        for number in 0..10_000_u64 {
            let length = usize::try_from(number % 4_000).unwrap() * 1024;
            let topic = Topic::Key((number % 5_000).to_string());
            kept.put(&topic, (number, number, Bytes::from(vec![0; length])));
            let bytes: usize = kept.deltas.values().map(|(.., bytes)| bytes.len()).sum();
            assert!(bytes == kept.bytes && bytes <= WRITTEN_BYTES_MAX && kept.deltas.len() <= WRITTEN_MAX);
            largest = bytes.max(largest);
        }
        assert!(largest > WRITTEN_BYTES_MAX / 2);
    }

    fn pusher(hub: &Hub) -> Pusher {
        let parts = (Arc::default(), Arc::default());
        Pusher::new(&hub.registry, "agent-1".to_owned(), parts.0, parts.1, false, Metrics::default())
    }

    fn subscribe(topics: impl IntoIterator<Item = (Topic, Index)>) -> FollowRequest {
        let subscription = |(topic, index): (Topic, Index)| Subscription {
            topic: serde_json::to_vec(&topic).unwrap().into(),
            index: convert::signed(index),
        };
        FollowRequest { subscribe: topics.into_iter().map(subscription).collect(), ..FollowRequest::default() }
    }

    /// There every sync returned everything there was.
    #[tokio::test]
    async fn defect_2_what_is_pushed_is_what_changed() {
        let hub = Hub::start().await;
        for n in 0..50 {
            hub.registry.write_from(None, put(&format!("k/{n:02}"), "x")).await.unwrap();
        }
        let topic = Topic::Keys("k/".to_owned());
        let before = hub.registry.topic(&topic).await.index;
        let mut pusher = pusher(&hub);
        pusher.take(subscribe([(topic.clone(), 0)]));
        let first = convert::delta(&pusher.reply().await.unwrap().deltas[0]).unwrap();
        assert_eq!((first.since, first.changed.len(), first.index), (None, 50, before));
        assert!(pusher.reply().await.is_none(), "nothing changed");
        hub.registry.write_from(None, put("k/07", "y")).await.unwrap();
        let told = pusher.reply().await.unwrap();
        let delta = convert::delta(&told.deltas[0]).unwrap();
        assert_eq!((told.deltas.len(), delta.since, delta.removed.len()), (1, Some(before), 0));
        assert!(matches!(&delta.changed[..], [Row::Key(entry)] if entry.value.key == "k/07"), "{delta:?}");
        // Somebody who knew it before is told the same.
        let mut other = self::pusher(&hub);
        other.take(subscribe([(topic, before)]));
        assert_eq!(other.reply().await.unwrap().deltas, told.deltas);
    }

    #[tokio::test]
    async fn who_follows_too_much_is_told_what_is_not_pushed() {
        let hub = Hub::start().await;
        let mut pusher = pusher(&hub);
        let key = |n: usize| Topic::Key(n.to_string());
        pusher.take(subscribe((0..TOPICS_MAX + 2).map(|n| (key(n), 0))));
        let reply = pusher.reply().await.unwrap();
        let told: Vec<Topic> = reply.too_large.iter().map(|topic| serde_json::from_slice(topic).unwrap()).collect();
        assert_eq!(told, [key(TOPICS_MAX), key(TOPICS_MAX + 1)]);
        let gone = subscribe([(key(0), 0)]).subscribe;
        pusher.take(FollowRequest { unsubscribe: gone, ..subscribe([(key(TOPICS_MAX), 0)]) });
        while let Some(reply) = pusher.reply().await {
            assert!(reply.too_large.is_empty());
        }
        assert!(pusher.known.contains_key(&key(TOPICS_MAX)));
    }
}
