//! Room for topics: what nobody reads is let go, and when there is none left what was not read for longest.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Followed, Slot, Sort, Want};
use crate::topic::Topic;

/// What is let go at once when there is no room.
const EVICT_SHARE: usize = 100;

impl Followed {
    /// The slot of a topic; `None`: there is no room, everything held is being waited for.
    pub(in crate::agent) fn slot(&self, topic: &Topic) -> Option<Arc<Slot>> {
        if let Some(slot) = self.find(topic) {
            return Some(slot);
        }
        let mut slots = self.slots.write();
        let entries = self.limits.read().entries;
        if slots.len() >= entries {
            let gone = oldest(&slots, entries.div_ceil(EVICT_SHARE));
            self.let_go(&mut slots, gone);
            if slots.len() >= entries {
                return None;
            }
        }
        let slot = slots.entry(topic.clone()).or_insert_with(|| Arc::new(Slot::new(topic.clone(), self.now())));
        Some(Arc::clone(slot))
    }

    fn let_go(&self, slots: &mut HashMap<Topic, Arc<Slot>>, gone: Vec<Topic>) {
        let mut wants = self.wants.lock();
        for topic in gone {
            if slots.remove(&topic).is_some() && self.is_connected() {
                wants.insert(topic, Want::Unsubscribe);
            }
        }
        self.wanted.notify_one();
    }

    /// Lets go of what nobody reads.
    pub(in crate::agent) fn sweep(&self) {
        let now = self.now();
        let limits = self.limits.read().clone();
        let ttl = |topic: &Topic| match Sort::of(topic) {
            Sort::Service => limits.service_ttl,
            Sort::Kv => limits.kv_ttl,
            Sort::Health => limits.health_ttl,
        };
        let mut slots = self.slots.write();
        let idle = slots.iter().filter(|(topic, slot)| {
            let limit = u64::try_from(ttl(topic).as_millis()).unwrap_or(u64::MAX);
            is_free(slot) && now.saturating_sub(slot.last_read()) >= limit
        });
        let gone: Vec<Topic> = idle.map(|(topic, _)| topic.clone()).collect();
        if !gone.is_empty() {
            self.let_go(&mut slots, gone);
        }
    }
}

/// Whether a topic may be let go.
fn is_free(slot: &Arc<Slot>) -> bool {
    !slot.is_pinned() && Arc::strong_count(slot) == 1
}

/// The topics that were not read for longest.
fn oldest(slots: &HashMap<Topic, Arc<Slot>>, most: usize) -> Vec<Topic> {
    let mut free: Vec<(u64, &Topic)> =
        slots.iter().filter(|(_, slot)| is_free(slot)).map(|(topic, slot)| (slot.last_read(), topic)).collect();
    let most = most.min(free.len());
    if most > 0 && most < free.len() {
        free.select_nth_unstable(most - 1);
    }
    free.into_iter().take(most).map(|(_, topic)| topic.clone()).collect()
}
