//! One topic held here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use tokio::sync::Notify;

use crate::model::Index;
use crate::topic::{Delta, Topic, TopicData};

/// One topic held here.
pub(in crate::agent) struct Slot {
    pub(super) topic: Topic,
    data: ArcSwapOption<TopicData>,
    last_read: AtomicU64,
    reads: AtomicU64,
    /// The connection in which the hub last said what this is.
    confirmed_in: AtomicU64,
    /// The connection in which it was last asked for.
    asked_in: AtomicU64,
    /// The end of that connection, in milliseconds.
    fresh_until: AtomicU64,
    pinned: AtomicBool,
    /// What is held is of another life of the hub's data.
    foreign: AtomicBool,
    /// The content is another.
    pub(super) changed: Arc<Notify>,
    /// The hub has said what this is.
    pub(super) confirmed: Notify,
}

/// What became of a delta.
pub(super) enum Applied {
    /// The content is as it was.
    Same,
    /// The content is new.
    New(Arc<TopicData>),
    /// Something in between was missed.
    Gap,
}

impl Slot {
    pub(super) fn new(topic: Topic, now: u64) -> Self {
        Self {
            topic,
            data: ArcSwapOption::empty(),
            last_read: AtomicU64::new(now),
            reads: AtomicU64::new(0),
            confirmed_in: AtomicU64::new(0),
            asked_in: AtomicU64::new(0),
            fresh_until: AtomicU64::new(0),
            pinned: AtomicBool::new(false),
            foreign: AtomicBool::new(false),
            changed: Arc::new(Notify::new()),
            confirmed: Notify::new(),
        }
    }

    pub(super) fn data(&self) -> Option<Arc<TopicData>> {
        self.data.load_full()
    }

    pub(super) fn store(&self, data: Arc<TopicData>) {
        self.data.store(Some(data));
    }

    pub(super) fn estrange(&self) {
        self.foreign.store(true, Ordering::Release);
    }

    pub(super) fn index(&self) -> Index {
        if self.foreign.load(Ordering::Acquire) {
            return 0;
        }
        self.data.load().as_ref().map_or(0, |data| data.index)
    }

    pub(super) fn last_read(&self) -> u64 {
        self.last_read.load(Ordering::Relaxed)
    }

    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    pub(super) fn read_at(&self, now: u64) {
        self.last_read.store(now, Ordering::Relaxed);
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn pin(&self) {
        self.pinned.store(true, Ordering::Relaxed);
    }

    pub(super) fn unpin(&self) {
        self.pinned.store(false, Ordering::Relaxed);
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.pinned.load(Ordering::Relaxed)
    }

    /// Whether the open connection has said what this is.
    pub(super) fn is_fresh(&self, epoch: u64) -> bool {
        epoch % 2 == 1 && self.confirmed_in.load(Ordering::Acquire) == epoch
    }

    pub(super) fn fresh_until(&self) -> u64 {
        self.fresh_until.load(Ordering::Acquire)
    }

    /// Whether this is the first time it is asked for in this connection.
    pub(super) fn ask(&self, epoch: u64) -> bool {
        self.asked_in.swap(epoch, Ordering::AcqRel) != epoch && self.confirmed_in.load(Ordering::Acquire) != epoch
    }

    pub(super) fn confirm(&self, epoch: u64) {
        self.confirmed_in.store(epoch, Ordering::Release);
        self.confirmed.notify_waiters();
    }

    pub(super) fn lost(&self, epoch: u64, now: u64) {
        if self.confirmed_in.load(Ordering::Acquire) == epoch {
            self.fresh_until.store(now, Ordering::Release);
        }
    }

    pub(super) fn apply(&self, delta: &Delta) -> Applied {
        let is_foreign = self.foreign.load(Ordering::Acquire);
        let held = self.data().filter(|_| !is_foreign);
        let known = held.as_deref();
        let is_old = |data: &TopicData| delta.since.is_some() && delta.index < data.index;
        let is_same = |data: &TopicData| {
            delta.index == data.index && delta.removed.is_empty() && (delta.since.is_none() || delta.changed.is_empty())
        };
        // An index stands for one content only.
        if known.is_some_and(|data| is_old(data) || is_same(data)) {
            return Applied::Same;
        }
        let nothing = TopicData::default();
        let Some(data) = known.unwrap_or(&nothing).apply(delta) else { return Applied::Gap };
        let data = Arc::new(data);
        self.store(Arc::clone(&data));
        self.foreign.store(false, Ordering::Release);
        Applied::New(data)
    }
}
