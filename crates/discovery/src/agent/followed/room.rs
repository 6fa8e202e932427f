//! Room for topics: what nobody reads is let go, and when there is none left what was not read for longest.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Followed, Slot, Sort, Want};
use crate::topic::Topic;

/// What is let go at once when there is no room.
const EVICT_SHARE: usize = 100;
/// And when there are too many bytes.
const EVICT_BYTES_SHARE: usize = 16;

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
        self.weigh(slot);
        Some(Arc::clone(slot))
    }

    /// Counts anew what a topic takes.
    pub(super) fn weigh(&self, slot: &Slot) {
        let count = |bytes| {
            let before = slot.counted.swap(bytes, Ordering::AcqRel);
            self.bytes.fetch_add(bytes.wrapping_sub(before), Ordering::AcqRel);
        };
        count(slot.bytes());
        // It may have been let go meanwhile.
        if slot.gone.load(Ordering::Acquire) {
            count(0);
        }
    }

    /// Makes room for what a topic now takes; if there is none, the hub is asked for it each time.
    pub(super) fn fit(&self, slot: &Slot) {
        let most = self.limits.read().bytes;
        if self.shrink() <= most || slot.is_pinned() {
            return;
        }
        tracing::debug!(topic = ?slot.topic, "there is no room to hold it");
        slot.refuse(self.epoch.load(Ordering::Acquire));
        self.weigh(slot);
        self.wants.lock().insert(slot.topic.clone(), Want::Unsubscribe);
        self.wanted.notify_one();
    }

    /// Lets go of what was read least recently if all takes too much. About how many bytes are left.
    fn shrink(&self) -> usize {
        let (most, mut left) = (self.limits.read().bytes, self.bytes.load(Ordering::Acquire));
        if left <= most {
            return left;
        }
        let mut slots = self.slots.write();
        let mut free: Vec<(u64, usize, Topic)> = slots
            .iter()
            .filter(|(_, slot)| is_free(slot))
            .map(|(topic, slot)| (slot.last_read(), slot.counted.load(Ordering::Relaxed), topic.clone()))
            .collect();
        free.sort_unstable();
        let mut gone = Vec::new();
        for (_, bytes, topic) in free {
            if left <= most - most / EVICT_BYTES_SHARE {
                break;
            }
            left = left.saturating_sub(bytes);
            gone.push(topic);
        }
        self.let_go(&mut slots, gone);
        self.bytes.load(Ordering::Acquire)
    }

    fn let_go(&self, slots: &mut HashMap<Topic, Arc<Slot>>, gone: Vec<Topic>) {
        let mut wants = self.wants.lock();
        for topic in gone {
            let Some(slot) = slots.remove(&topic) else { continue };
            slot.gone.store(true, Ordering::Release);
            self.weigh(&slot);
            if self.is_connected() {
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
        drop(slots);
        // The limit may be lower than it was.
        self.shrink();
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
