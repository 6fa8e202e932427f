//! Following many topics at once.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Shared;
use crate::topic::Topic;

/// Topics one follower may follow.
pub const TOPICS_MAX: usize = 10_000;

/// Somebody who is told which of many topics changed.
pub struct Follower {
    shared: Arc<Shared>,
    inbox: Arc<Inbox>,
    topics: HashSet<Topic>,
}

/// Topics that changed and have not been looked at; never more than are followed.
#[derive(Default)]
pub(super) struct Inbox {
    changed: Mutex<BTreeSet<Topic>>,
    some: Notify,
}

impl Inbox {
    pub(super) fn put(&self, topic: &Topic) {
        self.changed.lock().insert(topic.clone());
        self.some.notify_one();
    }
}

impl Follower {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, inbox: Arc::new(Inbox::default()), topics: HashSet::new() }
    }

    /// Follows a topic from now on; `false`: there are too many.
    pub fn follow(&mut self, topic: &Topic) -> bool {
        if self.topics.contains(topic) {
            return true;
        }
        if self.topics.len() >= TOPICS_MAX {
            return false;
        }
        self.topics.insert(topic.clone());
        self.shared.hot.write().slots.follow(topic, &self.inbox);
        true
    }

    /// Follows a topic no longer.
    pub fn unfollow(&mut self, topic: &Topic) {
        if self.topics.remove(topic) {
            self.shared.hot.write().slots.unfollow(topic, &self.inbox);
            self.inbox.changed.lock().remove(topic);
        }
    }

    /// How many topics are followed.
    pub fn len(&self) -> usize {
        self.topics.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// What has changed up to now, without waiting: everything up to an index that was read before this is called.
    pub fn settled(&self) -> BTreeSet<Topic> {
        // An index is seen a moment before its topics are told of; both happen under this lock.
        let _settled = self.shared.hot.read();
        std::mem::take(&mut *self.inbox.changed.lock())
    }

    /// Waits until some changed, and says which. Cancel safe.
    pub async fn changed(&self) -> BTreeSet<Topic> {
        loop {
            let changed = std::mem::take(&mut *self.inbox.changed.lock());
            if !changed.is_empty() {
                return changed;
            }
            self.inbox.some.notified().await;
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut hot = self.shared.hot.write();
        for topic in &self.topics {
            hot.slots.unfollow(topic, &self.inbox);
        }
    }
}
