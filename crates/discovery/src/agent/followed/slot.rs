//! One topic held here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwapOption;
use tokio::sync::Notify;

use super::held::Held;
use crate::model::Index;
use crate::topic::{Delta, Row, Topic, TopicData};

/// What a topic takes of which nothing is known.
const SLOT_BYTES: usize = 700;

/// One topic held here.
pub(in crate::agent) struct Slot {
    pub(super) topic: Topic,
    held: ArcSwapOption<Held>,
    last_read: AtomicU64,
    reads: AtomicU64,
    /// The connection in which the hub last said what this is.
    confirmed_in: AtomicU64,
    /// The connection in which it was last asked for.
    asked_in: AtomicU64,
    /// The connection in which the hub last said that it is too large to be pushed.
    refused_in: AtomicU64,
    /// The end of that connection, in milliseconds.
    fresh_until: AtomicU64,
    pinned: AtomicBool,
    /// It is let go: whoever still has it has the last of it.
    pub(super) gone: AtomicBool,
    /// The bytes it is counted with.
    pub(super) counted: AtomicUsize,
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
            held: ArcSwapOption::empty(),
            last_read: AtomicU64::new(now),
            reads: AtomicU64::new(0),
            confirmed_in: AtomicU64::new(0),
            asked_in: AtomicU64::new(0),
            refused_in: AtomicU64::new(0),
            fresh_until: AtomicU64::new(0),
            pinned: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            counted: AtomicUsize::new(0),
            foreign: AtomicBool::new(false),
            changed: Arc::new(Notify::new()),
            confirmed: Notify::new(),
        }
    }

    /// Whether anything is known of it.
    pub(super) fn is_held(&self) -> bool {
        self.held.load().is_some()
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        if self.gone.load(Ordering::Acquire) {
            return 0;
        }
        SLOT_BYTES + self.held.load().as_deref().map_or(0, Held::bytes)
    }

    /// The content, if it is open.
    pub(super) fn opened(&self) -> Option<Arc<TopicData>> {
        match self.held.load().as_deref()? {
            Held::Open(data) => Some(Arc::clone(data)),
            Held::Folded(..) => None,
        }
    }

    /// The content, which is open from now on.
    pub(super) fn open(&self, share: impl FnOnce(&mut [Row])) -> Option<Arc<TopicData>> {
        let held = self.held.load_full()?;
        let data = held.content(share)?;
        if matches!(*held, Held::Folded(..)) {
            // Unless a push has put something newer there.
            self.held.compare_and_swap(&Some(held), Some(Arc::new(Held::Open(Arc::clone(&data)))));
        }
        Some(data)
    }

    /// Folds the content, unless a push puts something newer there meanwhile.
    pub(super) fn fold(&self) {
        if let Some(held) = self.held.load_full()
            && let Some(folded) = held.folded()
        {
            self.held.compare_and_swap(&Some(held), Some(Arc::new(folded)));
        }
    }

    pub(super) fn store(&self, data: Arc<TopicData>) {
        self.held.store(Some(Arc::new(Held::Open(data))));
    }

    pub(super) fn estrange(&self) {
        self.foreign.store(true, Ordering::Release);
    }

    pub(super) fn index(&self) -> Index {
        if self.foreign.load(Ordering::Acquire) {
            return 0;
        }
        self.held.load().as_ref().map_or(0, |held| held.index())
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

    /// It is not pushed: what is held of it is let go, and who waits for it is told.
    pub(super) fn refuse(&self, epoch: u64) {
        self.refused_in.store(epoch, Ordering::Release);
        self.confirmed_in.store(0, Ordering::Release);
        self.held.store(None);
        self.confirmed.notify_waiters();
        self.changed.notify_waiters();
    }

    pub(super) fn is_refused(&self, epoch: u64) -> bool {
        epoch % 2 == 1 && self.refused_in.load(Ordering::Acquire) == epoch
    }

    pub(super) fn confirm(&self, epoch: u64) {
        self.refused_in.store(0, Ordering::Release);
        self.confirmed_in.store(epoch, Ordering::Release);
        self.confirmed.notify_waiters();
    }

    pub(super) fn lost(&self, epoch: u64, now: u64) {
        if self.confirmed_in.load(Ordering::Acquire) == epoch {
            self.fresh_until.store(now, Ordering::Release);
        }
    }

    /// Takes over a change; only one does at a time.
    pub(super) fn apply(&self, delta: &Delta, share: impl FnOnce(&mut [Row])) -> Applied {
        let is_foreign = self.foreign.load(Ordering::Acquire);
        let held = self.held.load_full().filter(|_| !is_foreign);
        let is_old = |index: Index| delta.since.is_some() && delta.index < index;
        let is_same = |index: Index| {
            delta.index == index && delta.removed.is_empty() && (delta.since.is_none() || delta.changed.is_empty())
        };
        // An index stands for one content only.
        if held.as_ref().is_some_and(|held| is_old(held.index()) || is_same(held.index())) {
            return Applied::Same;
        }
        let nothing = TopicData::default();
        let known = held.filter(|_| delta.since.is_some()).and_then(|held| held.content(share));
        let Some(data) = known.as_deref().unwrap_or(&nothing).apply(delta) else { return Applied::Gap };
        let data = Arc::new(data);
        self.store(Arc::clone(&data));
        self.foreign.store(false, Ordering::Release);
        Applied::New(data)
    }
}
