//! Topics kept ready, and who waits for them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use super::follow::Inbox;
use crate::model::Index;
use crate::registry::{Answers, Tables, Touch};
use crate::topic::{Topic, TopicData};

/// Topics somebody reads, waits for or follows.
pub(super) struct Slots {
    by_topic: HashMap<Topic, Slot>,
    /// How long the prefixes are that have a slot, and how many of each length: which prefixes of a key to look up.
    lengths: BTreeMap<usize, usize>,
    max: usize,
}

#[derive(Default)]
struct Slot {
    /// What the topic says: always what is stored.
    data: Option<Arc<TopicData>>,
    /// Whether it was read since it was last made.
    used: AtomicBool,
    waiting: usize,
    changed: Arc<Notify>,
    followers: Vec<Arc<Inbox>>,
}

impl Slot {
    fn is_wanted(&self) -> bool {
        self.waiting > 0 || !self.followers.is_empty()
    }
}

impl Slots {
    pub(super) fn new(max: usize) -> Self {
        Self { by_topic: HashMap::new(), lengths: BTreeMap::new(), max }
    }

    pub(super) fn len(&self) -> usize {
        self.by_topic.len()
    }

    pub(super) fn data(&self, topic: &Topic) -> Option<Arc<TopicData>> {
        let slot = self.by_topic.get(topic)?;
        let data = slot.data.clone()?;
        slot.used.store(true, Ordering::Relaxed);
        Some(data)
    }

    pub(super) fn put(&mut self, topic: &Topic, data: Arc<TopicData>) {
        let slot = self.slot(topic);
        slot.data = Some(data);
        slot.used = AtomicBool::new(true);
        if self.by_topic.len() > self.max {
            self.sweep();
        }
    }

    /// One more waits for a topic; it is told by what comes back.
    pub(super) fn wait(&mut self, topic: &Topic) -> Arc<Notify> {
        let slot = self.slot(topic);
        slot.waiting += 1;
        Arc::clone(&slot.changed)
    }

    pub(super) fn unwait(&mut self, topic: &Topic) {
        if let Some(slot) = self.by_topic.get_mut(topic) {
            slot.waiting = slot.waiting.saturating_sub(1);
            self.drop_idle(topic);
        }
    }

    pub(super) fn follow(&mut self, topic: &Topic, inbox: &Arc<Inbox>) {
        self.slot(topic).followers.push(Arc::clone(inbox));
    }

    pub(super) fn unfollow(&mut self, topic: &Topic, inbox: &Arc<Inbox>) {
        if let Some(slot) = self.by_topic.get_mut(topic) {
            slot.followers.retain(|other| !Arc::ptr_eq(other, inbox));
            self.drop_idle(topic);
        }
    }

    /// Makes what was touched anew where somebody wants it, and tells who waits.
    pub(super) fn publish(&mut self, tables: &Tables, touches: &BTreeMap<Touch, Index>) {
        for (topic, touches) in self.touched(touches) {
            let Some(slot) = self.by_topic.get_mut(&topic) else { continue };
            let used = std::mem::replace(slot.used.get_mut(), false);
            slot.data = match slot.data.take() {
                Some(before) if used || slot.is_wanted() => Some(tables.refresh(&topic, before, &touches)),
                _ => None,
            };
            slot.tell(&topic);
            self.drop_idle(&topic);
        }
    }

    /// Forgets what all topics say, and tells everybody.
    pub(super) fn reset(&mut self) {
        for (topic, slot) in &mut self.by_topic {
            slot.data = None;
            slot.tell(topic);
        }
        let idle: Vec<Topic> =
            self.by_topic.iter().filter(|(_, slot)| !slot.is_wanted()).map(|(topic, _)| topic.clone()).collect();
        for topic in idle {
            self.drop_idle(&topic);
        }
    }

    /// The topics with a slot that were touched, each by what.
    fn touched(&self, touches: &BTreeMap<Touch, Index>) -> HashMap<Topic, BTreeMap<Touch, Index>> {
        let mut topics: HashMap<Topic, BTreeMap<Touch, Index>> = HashMap::new();
        for (touch, index) in touches {
            let prefixes = touch.key().map(|key| self.prefixes(key)).into_iter().flatten();
            for topic in touch.topics().into_iter().chain(prefixes) {
                if self.by_topic.contains_key(&topic) {
                    topics.entry(topic).or_default().insert(touch.clone(), *index);
                }
            }
        }
        topics
    }

    /// Topics of prefixes of a key, of those lengths there are slots for.
    fn prefixes<'a>(&'a self, key: &'a str) -> impl Iterator<Item = Topic> + 'a {
        let lengths = self.lengths.range(..=key.len()).map(|(length, _)| *length);
        lengths.filter_map(|length| key.get(..length)).map(|prefix| Topic::Keys(prefix.to_owned()))
    }

    fn slot(&mut self, topic: &Topic) -> &mut Slot {
        if !self.by_topic.contains_key(topic)
            && let Topic::Keys(prefix) = topic
        {
            *self.lengths.entry(prefix.len()).or_default() += 1;
        }
        self.by_topic.entry(topic.clone()).or_default()
    }

    fn drop_idle(&mut self, topic: &Topic) {
        if self.by_topic.get(topic).is_some_and(|slot| slot.data.is_none() && !slot.is_wanted()) {
            self.remove(topic);
        }
    }

    fn remove(&mut self, topic: &Topic) {
        if self.by_topic.remove(topic).is_some()
            && let Topic::Keys(prefix) = topic
            && let Some(count) = self.lengths.get_mut(&prefix.len())
        {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&prefix.len());
            }
        }
    }

    /// Drops what nobody waits for and nobody read since the last sweep; all that nobody waits for if that is not enough.
    fn sweep(&mut self) {
        for keep_used in [true, false] {
            let idle = self
                .by_topic
                .iter()
                .filter(|(_, slot)| !(slot.is_wanted() || keep_used && slot.used.swap(false, Ordering::Relaxed)));
            let idle: Vec<Topic> = idle.map(|(topic, _)| topic.clone()).collect();
            for topic in idle {
                self.remove(&topic);
            }
            if self.by_topic.len() <= self.max / 4 * 3 {
                return;
            }
        }
    }
}

impl Slot {
    fn tell(&self, topic: &Topic) {
        self.changed.notify_waiters();
        for inbox in &self.followers {
            inbox.put(topic);
        }
    }
}
