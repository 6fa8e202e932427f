//! Reading: what is ready, and what has to be made first.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Shared;
use super::slots::Slots;
use crate::backend::Wake;
use crate::model::Index;
use crate::registry::{Answers, Tables, Touch};
use crate::topic::{Delta, Topic, TopicData};

/// The tables and the topics made from them.
pub(super) struct Hot {
    /// Everything, with what is still being stored.
    pub(super) tables: Tables,
    pub(super) slots: Slots,
    /// What is still being stored: topics with it cannot be made from the tables.
    pub(super) storing: BTreeMap<Touch, Index>,
}

impl Hot {
    pub(super) fn new(tables: Tables, topics: usize) -> Self {
        Self { tables, slots: Slots::new(topics), storing: BTreeMap::new() }
    }

    fn make(&mut self, topic: &Topic) -> Option<Arc<TopicData>> {
        if let Some(data) = self.slots.data(topic) {
            return Some(data);
        }
        if self.storing.keys().any(|touch| touch.concerns(topic)) {
            return None;
        }
        let data = Arc::new(self.tables.topic(topic));
        self.slots.put(topic, Arc::clone(&data));
        Some(data)
    }
}

impl Shared {
    /// A topic; `None` while something in it is being stored that readers must not see yet.
    pub(super) fn data(&self, topic: &Topic) -> Option<Arc<TopicData>> {
        let ready = self.hot.read().slots.data(topic);
        ready.or_else(|| self.hot.write().make(topic))
    }

    pub(super) fn delta(&self, topic: &Topic, since: Index) -> Option<Delta> {
        loop {
            self.data(topic)?;
            let hot = self.hot.read();
            // Between the two it may have been swept away.
            if let Some(data) = hot.slots.data(topic) {
                return Some(hot.tables.delta(topic, &data, since));
            }
        }
    }

    pub(super) fn wake(self: &Arc<Self>, topic: &Topic) -> Wake {
        let changed = self.hot.write().slots.wait(topic).notified_owned();
        let waiting = Waiting { shared: Arc::clone(self), topic: topic.clone() };
        Box::pin(async move {
            let _waiting = waiting;
            changed.await;
        })
    }
}

/// Somebody waits for a topic for as long as this is there.
struct Waiting {
    shared: Arc<Shared>,
    topic: Topic,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.shared.hot.write().slots.unwait(&self.topic);
    }
}
