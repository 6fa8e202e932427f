//! Topics held here: kept fresh by the hub's pushes, read without waiting, let go when nobody reads them.

mod commons;
mod folding;
mod held;
mod limits;
mod room;
mod slot;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use thane_runtime::SharedClock;
use tokio::sync::{Notify, watch};

use crate::backend::{Consistency, Freshness, Reading, Wake};
use crate::model::Index;
use crate::topic::{Delta, Topic, TopicData};

use folding::Folding;
pub use limits::Limits;
pub(super) use limits::Sort;
pub(super) use slot::Slot;

/// Without room for one more topic, or with one too large to be pushed, a blocked reader looks again after this.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What the hub is to be told about a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// Push it, from this index.
    Subscribe(Index),
    /// No longer.
    Unsubscribe,
}

/// Topics held here.
pub(super) struct Followed {
    slots: RwLock<HashMap<Topic, Arc<Slot>>>,
    limits: RwLock<Limits>,
    clock: SharedClock,
    /// Which connection this is; odd while it is open.
    epoch: AtomicU64,
    /// When the hub was last heard of, in milliseconds.
    heard_at: AtomicU64,
    /// About how many bytes all topics take.
    pub(super) bytes: AtomicUsize,
    wants: Mutex<BTreeMap<Topic, Want>>,
    /// Something is wanted of the hub.
    pub(super) wanted: Notify,
    /// The connection came or went.
    turned: Notify,
    /// Everything up to this index has been pushed.
    applied: watch::Sender<Index>,
    /// Which life of the hub's data indexes here are of.
    lineage: Mutex<String>,
    folding: Folding,
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
}

impl Followed {
    pub(super) fn new(limits: Limits, clock: SharedClock) -> Self {
        let now = u64::try_from(clock.monotonic().as_millis()).unwrap_or(u64::MAX);
        Self {
            slots: RwLock::new(HashMap::new()),
            limits: RwLock::new(limits),
            clock,
            epoch: AtomicU64::new(0),
            heard_at: AtomicU64::new(now),
            bytes: AtomicUsize::new(0),
            wants: Mutex::new(BTreeMap::new()),
            wanted: Notify::new(),
            turned: Notify::new(),
            applied: watch::Sender::new(0),
            lineage: Mutex::default(),
            folding: Folding::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.monotonic().as_millis()).unwrap_or(u64::MAX)
    }

    /// Other limits from now on.
    pub(super) fn set_limits(&self, limits: Limits) {
        *self.limits.write() = limits;
    }

    /// Whether the hub pushes.
    pub(super) fn is_connected(&self) -> bool {
        self.epoch.load(Ordering::Acquire) % 2 == 1
    }

    /// The hub's data is of this life. Indexes of another mean nothing: everything held is asked for anew.
    pub(super) fn of_lineage(&self, lineage: &str) {
        let before = std::mem::replace(&mut *self.lineage.lock(), lineage.to_owned());
        if before != lineage {
            self.slots.read().values().for_each(|slot| slot.estrange());
            self.applied.send_replace(0);
        }
    }

    /// The hub pushes from now on: it is asked for everything held, what is read most first.
    pub(super) fn connected(&self) {
        self.heard();
        self.epoch.fetch_add(1, Ordering::AcqRel);
        self.wants.lock().clear();
        let slots: Vec<Arc<Slot>> = self.slots.read().values().cloned().collect();
        for slot in slots {
            self.want(&slot);
        }
        self.turned.notify_waiters();
    }

    /// The hub said something.
    pub(super) fn heard(&self) {
        self.heard_at.store(self.now(), Ordering::Release);
    }

    /// How long ago the hub was last heard of; nothing while it pushes.
    pub(super) fn silence(&self) -> Duration {
        if self.is_connected() {
            return Duration::ZERO;
        }
        Duration::from_millis(self.now().saturating_sub(self.heard_at.load(Ordering::Acquire)))
    }

    /// Nothing is pushed any more: what is held gets old. It has been since the hub was last heard of; that it is gone is
    /// noticed later.
    pub(super) fn disconnected(&self) {
        if !self.is_connected() {
            return;
        }
        let epoch = self.epoch.fetch_add(1, Ordering::AcqRel);
        let heard = self.heard_at.load(Ordering::Acquire);
        for slot in self.slots.read().values() {
            slot.lost(epoch, heard);
        }
        self.wants.lock().clear();
        self.turned.notify_waiters();
    }

    fn want(&self, slot: &Slot) {
        self.wants.lock().insert(slot.topic.clone(), Want::Subscribe(slot.index()));
        self.wanted.notify_one();
    }

    /// What the hub is to be told, at most so much at once; what is read most comes first.
    pub(super) fn take_wants(&self, most: usize) -> Vec<(Topic, Want)> {
        let slots = self.slots.read();
        let mut wants = self.wants.lock();
        let mut taken: Vec<(Topic, Want)> = wants.iter().map(|(topic, want)| (topic.clone(), *want)).collect();
        taken.sort_by_key(|(topic, _)| std::cmp::Reverse(slots.get(topic).map_or(u64::MAX, |slot| slot.reads())));
        taken.truncate(most);
        for (topic, _) in &taken {
            wants.remove(topic);
        }
        if !wants.is_empty() {
            self.wanted.notify_one();
        }
        taken
    }

    fn find(&self, topic: &Topic) -> Option<Arc<Slot>> {
        self.slots.read().get(topic).cloned()
    }

    /// Holds a topic for ever.
    pub(super) fn pin(&self, topic: &Topic) {
        if let Some(slot) = self.slot(topic) {
            slot.pin();
            if self.is_connected() {
                self.ask(&slot);
            }
        }
    }

    /// Topics held for ever from now on; others are again let go when nobody reads them.
    pub(super) fn pin_only(&self, topics: &[Topic]) {
        self.slots.read().values().filter(|slot| !topics.contains(&slot.topic)).for_each(|slot| slot.unpin());
        for topic in topics {
            self.pin(topic);
        }
    }

    /// What is known from before, as old as can be.
    pub(super) fn preset(&self, topic: &Topic, data: TopicData) {
        if let Some(slot) = self.slot(topic) {
            slot.store(Arc::new(data));
        }
    }

    fn ask(&self, slot: &Slot) {
        if slot.ask(self.epoch.load(Ordering::Acquire)) {
            self.want(slot);
        }
    }

    /// The topics read most.
    pub(super) fn popular(&self, most: usize) -> Vec<Topic> {
        let slots = self.slots.read();
        let mut read: Vec<(u64, &Topic)> = slots.iter().map(|(topic, slot)| (slot.reads(), topic)).collect();
        read.retain(|(reads, _)| *reads > 0);
        read.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        let mut topics: Vec<Topic> = read.into_iter().take(most).map(|(_, topic)| topic.clone()).collect();
        topics.sort();
        topics
    }

    /// How many topics of a sort are held.
    pub(super) fn count(&self, sort: Sort) -> usize {
        self.slots.read().keys().filter(|topic| Sort::of(topic) == sort).count()
    }

    /// Takes over what the hub pushed. Gives back the content if it is new.
    pub(super) fn apply(&self, delta: &Delta) -> Option<Arc<TopicData>> {
        let slot = self.find(&delta.topic)?;
        let epoch = self.epoch.load(Ordering::Acquire);
        match slot.apply(delta, |rows| self.share(rows)) {
            slot::Applied::Same => {
                slot.confirm(epoch);
                None
            }
            slot::Applied::New(data) => {
                slot.confirm(epoch);
                slot.changed.notify_waiters();
                self.opened(&slot, &data);
                self.fit(&slot);
                Some(data)
            }
            slot::Applied::Gap => {
                tracing::debug!(topic = ?delta.topic, "something was missed; asking for all of it");
                self.wants.lock().insert(delta.topic.clone(), Want::Subscribe(0));
                self.wanted.notify_one();
                None
            }
        }
    }

    /// The hub does not push a topic: it is too large.
    pub(super) fn refused(&self, topic: &Topic) {
        if let Some(slot) = self.find(topic) {
            slot.refuse(self.epoch.load(Ordering::Acquire));
            self.weigh(&slot);
        }
    }

    /// Asks for a topic again if it is behind an index: a push may have been missed.
    pub(super) fn verify(&self, topic: &Topic, index: Index) {
        if let Some(slot) = self.find(topic)
            && slot.index() < index
        {
            self.want(&slot);
        }
    }

    /// Asks for everything that is held again, from the index it is at: what a lost push left behind is caught up with.
    pub(super) fn verify_all(&self) {
        let epoch = self.epoch.load(Ordering::Acquire);
        let is_settled = |slot: &&Arc<Slot>| slot.is_fresh(epoch) || slot.is_refused(epoch);
        let slots: Vec<Arc<Slot>> = self.slots.read().values().filter(is_settled).cloned().collect();
        for slot in slots {
            self.want(&slot);
        }
    }

    /// Asks for some of the keys that are held again, those that follow `last`, from the index they are at. Gives back the
    /// last of them.
    pub(super) fn verify_keys(&self, last: Option<&Topic>, most: usize) -> Option<Topic> {
        let epoch = self.epoch.load(Ordering::Acquire);
        let is_key = |slot: &&Arc<Slot>| matches!(slot.topic, Topic::Key(_) | Topic::Keys(_)) && slot.is_fresh(epoch);
        let mut slots: Vec<Arc<Slot>> = self.slots.read().values().filter(is_key).cloned().collect();
        slots.sort_unstable_by(|a, b| a.topic.cmp(&b.topic));
        let next = slots.partition_point(|slot| last.is_some_and(|last| slot.topic <= *last));
        let mut newest = None;
        for slot in slots.iter().skip(next).take(most) {
            self.want(slot);
            newest = Some(slot.topic.clone());
        }
        newest
    }

    /// Everything up to an index has been pushed.
    pub(super) fn applied(&self, index: Index) {
        self.applied.send_if_modified(|known| {
            let is_newer = index > *known;
            *known = index.max(*known);
            is_newer
        });
    }

    /// Whether a key is in something held, or asked for.
    pub(super) fn holds_key(&self, key: &str) -> bool {
        self.slots.read().keys().any(|topic| match topic {
            Topic::Key(held) => held == key,
            Topic::Keys(prefix) => key.starts_with(prefix.as_str()),
            _ => false,
        })
    }

    /// Everything up to here has been pushed.
    pub(super) fn index(&self) -> Index {
        *self.applied.borrow()
    }

    /// Waits until everything up to an index has been pushed, or nothing is pushed any more.
    pub(super) async fn reached(&self, index: Index, most: Duration) {
        let mut applied = self.applied.subscribe();
        let turned = self.turned.notified();
        if !self.is_connected() {
            return;
        }
        tokio::select! {
            _ = applied.wait_for(|known| *known >= index) => {}
            () = turned => {}
            () = tokio::time::sleep(most) => {}
        }
    }

    /// What is held of a topic, if that will do.
    pub(super) fn ready(&self, topic: &Topic, consistency: Consistency) -> Option<Reading> {
        if consistency == Consistency::Consistent {
            return None;
        }
        let slot = self.find(topic)?;
        let epoch = self.epoch.load(Ordering::Acquire);
        let is_fresh = slot.is_fresh(epoch);
        // A connection that is new brings this topic up to date in a moment.
        if !is_fresh && epoch % 2 == 1 && consistency == Consistency::Default {
            return None;
        }
        let reading = self.reading(&slot, is_fresh)?;
        // Tokens are looked at with every request; that is nobody's read.
        if *topic != Topic::Tokens {
            self.hits.fetch_add(1, Ordering::Relaxed);
        }
        Some(reading)
    }

    fn reading(&self, slot: &Slot, is_fresh: bool) -> Option<Reading> {
        let data = self.content(slot)?;
        let now = self.now();
        slot.read_at(now);
        let age = if is_fresh { 0 } else { now.saturating_sub(slot.fresh_until()) };
        let freshness = Freshness {
            connected: self.is_connected(),
            last_contact: self.silence(),
            hit: Some(Duration::from_millis(age)),
        };
        Some(Reading { data, freshness })
    }

    /// A read for which the hub has to be asked.
    pub(super) fn missed(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// What is held of a topic; what is not is asked for once, however many wait. `None`: nobody can say.
    pub(super) async fn read(&self, slot: &Slot, most: Duration) -> Option<Reading> {
        let was_held = slot.is_held();
        let deadline = tokio::time::sleep(most);
        tokio::pin!(deadline);
        loop {
            let turned = self.turned.notified();
            let confirmed = slot.confirmed.notified();
            let epoch = self.epoch.load(Ordering::Acquire);
            if slot.is_refused(epoch) {
                // It counts as read, or it would be asked for and refused again and again.
                slot.read_at(self.now());
                return None;
            }
            if slot.is_fresh(epoch) || epoch.is_multiple_of(2) {
                break;
            }
            self.ask(slot);
            tokio::select! {
                () = turned => {}
                () = confirmed => {}
                () = &mut deadline => break,
            }
        }
        let is_fresh = slot.is_fresh(self.epoch.load(Ordering::Acquire));
        let mut reading = self.reading(slot, is_fresh)?;
        if was_held {
            self.hits.fetch_add(1, Ordering::Relaxed);
        } else {
            self.missed();
            reading.freshness.hit = None;
        }
        Some(reading)
    }

    /// Resolves when the topic changes.
    pub(super) fn wake(&self, topic: &Topic) -> Wake {
        let Some(slot) = self.slot(topic) else { return Box::pin(tokio::time::sleep(LOOK_AGAIN)) };
        let changed = Arc::clone(&slot.changed).notified_owned();
        let is_refused = slot.is_refused(self.epoch.load(Ordering::Acquire));
        Box::pin(async move {
            // Held as long as somebody waits: it is not let go.
            let _slot = slot;
            if is_refused {
                // Nobody tells of what is not pushed.
                drop(tokio::time::timeout(LOOK_AGAIN, changed).await);
            } else {
                changed.await;
            }
        })
    }
}
