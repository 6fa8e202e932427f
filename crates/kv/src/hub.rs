//! Hands committed events to watchers.
//!
//! Watchers are grouped by prefix. An event finds its groups by looking up its key's beginnings, one for each length
//! that some prefix has, so watchers of other prefixes cost nothing. A group's batch is built once and shared.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::metrics::Metrics;
use crate::options::WatchLimits;
use crate::record::event_bytes;
use crate::store::{Error, Event, Revision};

/// The events of one or more whole revisions that one prefix matches.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) revision: Revision,
    pub(crate) events: Vec<Arc<Event>>,
    bytes: usize,
}

/// What waits for one watcher.
#[derive(Debug, Default)]
struct Queue {
    batches: VecDeque<Arc<Batch>>,
    events: usize,
    bytes: usize,
    live: bool,
    ended: Option<Error>,
}

/// A watcher as the hub sees it.
#[derive(Debug)]
pub(crate) struct Subscriber {
    id: u64,
    prefix: Bytes,
    queue: Mutex<Queue>,
    pub(crate) wake: Notify,
}

/// Watchers that have something to take and do not know yet.
#[must_use = "they wait until they are woken"]
#[derive(Default)]
pub(crate) struct Touched(Vec<Arc<Subscriber>>);

impl Touched {
    /// Tells them.
    pub(crate) fn wake(self) {
        self.0.iter().for_each(|subscriber| subscriber.wake.notify_one());
    }
}

/// What a watcher finds in its queue.
pub(crate) enum Taken {
    Batch(Arc<Batch>),
    /// The queue overflowed or the watcher never was live: history has to be read.
    Lagging,
    /// Nothing waits; everything up to this revision was handed over.
    Idle(Revision),
    Ended(Error),
}

#[derive(Default)]
struct Group {
    subscribers: BTreeMap<u64, Arc<Subscriber>>,
    pending: Vec<Arc<Event>>,
}

#[derive(Default)]
struct Groups {
    by_prefix: HashMap<Bytes, Group>,
    /// How many prefixes have each length.
    lengths: BTreeMap<usize, usize>,
    next_id: u64,
    ended: Option<Error>,
}

/// All watchers of a store.
pub(crate) struct Hub {
    groups: Mutex<Groups>,
    published: AtomicU64,
    limits: WatchLimits,
    metrics: Metrics,
}

impl Hub {
    pub(crate) fn new(revision: Revision, limits: WatchLimits, metrics: Metrics) -> Self {
        Self { groups: Mutex::default(), published: AtomicU64::new(revision), limits, metrics }
    }

    /// The newest revision whose events were handed out.
    pub(crate) fn published(&self) -> Revision {
        self.published.load(Ordering::Acquire)
    }

    pub(crate) fn limits(&self) -> &WatchLimits {
        &self.limits
    }

    /// Adds a watcher, live if it has seen everything published, lagging otherwise.
    pub(crate) fn subscribe(&self, prefix: Bytes, after: Revision) -> Arc<Subscriber> {
        let mut groups = self.groups.lock();
        let groups = &mut *groups;
        let id = groups.next_id;
        groups.next_id += 1;
        let live = after >= self.published();
        let queue = Queue { live, ended: groups.ended.clone(), ..Queue::default() };
        let subscriber =
            Arc::new(Subscriber { id, prefix: prefix.clone(), queue: Mutex::new(queue), wake: Notify::new() });
        let length = prefix.len();
        let group = groups.by_prefix.entry(prefix).or_insert_with(|| {
            *groups.lengths.entry(length).or_default() += 1;
            Group::default()
        });
        group.subscribers.insert(id, Arc::clone(&subscriber));
        self.metrics.watchers.inc();
        if !live {
            self.metrics.lagging.inc();
        }
        subscriber
    }

    pub(crate) fn unsubscribe(&self, subscriber: &Subscriber) {
        let mut groups = self.groups.lock();
        let Some(group) = groups.by_prefix.get_mut(&subscriber.prefix) else { return };
        if group.subscribers.remove(&subscriber.id).is_none() {
            return;
        }
        self.metrics.watchers.dec();
        if !subscriber.queue.lock().live {
            self.metrics.lagging.dec();
        }
        if group.subscribers.is_empty() {
            groups.by_prefix.remove(&subscriber.prefix);
            let length = subscriber.prefix.len();
            if let Some(count) = groups.lengths.get_mut(&length) {
                *count -= 1;
                if *count == 0 {
                    groups.lengths.remove(&length);
                }
            }
        }
    }

    /// Hands out the events of all revisions after the last publication up to `revision`. Who got some is woken by the
    /// caller, who may have more urgent things to do: whoever wrote should not wait until all who watch are told.
    pub(crate) fn publish(&self, revision: Revision, events: &[Arc<Event>]) -> Touched {
        let mut woken = Vec::new();
        let mut groups = self.groups.lock();
        let Groups { by_prefix, lengths, .. } = &mut *groups;
        let mut touched: Vec<Bytes> = Vec::new();
        for event in events {
            for length in lengths.keys().take_while(|length| **length <= event.key.len()) {
                let Some(group) = by_prefix.get_mut(&event.key[..*length]) else { continue };
                if group.pending.is_empty() {
                    touched.push(event.key.slice(..*length));
                }
                group.pending.push(Arc::clone(event));
            }
        }
        for prefix in touched {
            let Some(group) = by_prefix.get_mut(&prefix) else { continue };
            let events = std::mem::take(&mut group.pending);
            let bytes = events.iter().map(|event| event_bytes(event)).sum();
            let batch = Arc::new(Batch { revision, events, bytes });
            for subscriber in group.subscribers.values() {
                if self.push(subscriber, &batch) {
                    woken.push(Arc::clone(subscriber));
                }
            }
        }
        // Only after the queues are filled: progress must not run ahead of events.
        self.published.store(revision, Ordering::Release);
        Touched(woken)
    }

    /// Queues a batch; whether the watcher has to look.
    fn push(&self, subscriber: &Subscriber, batch: &Arc<Batch>) -> bool {
        let mut queue = subscriber.queue.lock();
        if !queue.live {
            return false;
        }
        let events = queue.events + batch.events.len();
        let bytes = queue.bytes + batch.bytes;
        let fits = events <= self.limits.queue_events && bytes <= self.limits.queue_bytes;
        if fits || queue.batches.is_empty() {
            queue.batches.push_back(Arc::clone(batch));
            (queue.events, queue.bytes) = (events, bytes);
        } else {
            *queue = Queue { ended: queue.ended.take(), ..Queue::default() };
            self.metrics.lagging.inc();
            self.metrics.overflows.inc();
        }
        true
    }

    /// Takes what waits for a watcher.
    pub(crate) fn take(&self, subscriber: &Subscriber) -> Taken {
        // Before the queue is looked at: an event of a later revision may be on its way into it.
        let published = self.published();
        let mut queue = subscriber.queue.lock();
        if let Some(batch) = queue.batches.pop_front() {
            queue.events -= batch.events.len();
            queue.bytes -= batch.bytes;
            return Taken::Batch(batch);
        }
        match &queue.ended {
            Some(error) => Taken::Ended(error.clone()),
            None if queue.live => Taken::Idle(published),
            None => Taken::Lagging,
        }
    }

    /// Makes a lagging watcher live: every publication after the returned revision is queued for it.
    pub(crate) fn go_live(&self, subscriber: &Subscriber) -> Revision {
        let _no_publication_meanwhile = self.groups.lock();
        let mut queue = subscriber.queue.lock();
        if !queue.live {
            queue.live = true;
            self.metrics.lagging.dec();
        }
        self.published()
    }

    /// Ends all watches, now and to come, once they have taken what is queued.
    pub(crate) fn end(&self, error: &Error) {
        let mut groups = self.groups.lock();
        groups.ended.get_or_insert_with(|| error.clone());
        for subscriber in groups.by_prefix.values().flat_map(|group| group.subscribers.values()) {
            subscriber.queue.lock().ended.get_or_insert_with(|| error.clone());
            subscriber.wake.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(key: &'static str, revision: Revision) -> Arc<Event> {
        Arc::new(Event { key: Bytes::from_static(key.as_bytes()), revision, entry: None, previous: None })
    }

    fn hub() -> Hub {
        Hub::new(0, WatchLimits { queue_events: 3, ..WatchLimits::default() }, Metrics::default())
    }

    fn taken(hub: &Hub, subscriber: &Subscriber) -> String {
        match hub.take(subscriber) {
            Taken::Batch(batch) => {
                let keys: Vec<_> = batch.events.iter().map(|event| String::from_utf8_lossy(&event.key)).collect();
                format!("{} {}", batch.revision, keys.join(" "))
            }
            Taken::Lagging => "lagging".into(),
            Taken::Idle(revision) => format!("idle {revision}"),
            Taken::Ended(_) => "ended".into(),
        }
    }

    #[test]
    fn events_find_the_prefixes_of_their_key() {
        let hub = hub();
        let prefixes = ["", "a", "a/b", "a/c", "b", "a/b/c/d"];
        let subscribers = prefixes.map(|prefix| hub.subscribe(Bytes::from_static(prefix.as_bytes()), 0));
        hub.publish(2, &[event("a/b/c", 1), event("a", 2)]).wake();
        let expected = ["2 a/b/c a", "2 a/b/c a", "2 a/b/c", "idle 2", "idle 2", "idle 2"];
        for (subscriber, expected) in subscribers.iter().zip(expected) {
            assert_eq!(taken(&hub, subscriber), expected);
        }
        for subscriber in &subscribers {
            hub.unsubscribe(subscriber);
        }
        let groups = hub.groups.lock();
        assert!(groups.by_prefix.is_empty() && groups.lengths.is_empty());
    }

    #[test]
    fn watchers_of_a_prefix_share_one_batch() {
        let hub = hub();
        let [first, second] = [(); 2].map(|()| hub.subscribe(Bytes::from_static(b"a"), 0));
        hub.publish(1, &[event("a", 1)]).wake();
        let (Taken::Batch(first), Taken::Batch(second)) = (hub.take(&first), hub.take(&second)) else {
            panic!("both have a batch")
        };
        assert!(Arc::ptr_eq(&first, &second));
    }

    #[test]
    fn a_full_queue_is_given_up_until_the_watcher_goes_live_again() {
        let hub = hub();
        let subscriber = hub.subscribe(Bytes::new(), 0);
        hub.publish(3, &[event("a", 1), event("a", 2), event("a", 3)]).wake();
        hub.publish(4, &[event("a", 4)]).wake();
        hub.publish(5, &[event("a", 5)]).wake();
        assert_eq!(taken(&hub, &subscriber), "lagging");
        assert_eq!(hub.go_live(&subscriber), 5);
        hub.publish(6, &[event("a", 6)]).wake();
        assert_eq!(taken(&hub, &subscriber), "6 a");
        hub.end(&Error::Closed);
        assert_eq!(taken(&hub, &subscriber), "ended");
        assert_eq!(taken(&hub, &hub.subscribe(Bytes::new(), 6)), "ended");
    }
}
