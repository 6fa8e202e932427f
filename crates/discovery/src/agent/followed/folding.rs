//! Which topics are open: those read lately, up to a bound. The others are held folded, and opened when they are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::commons::Commons;
use super::{Followed, Slot, held};
use crate::topic::{Row, TopicData};

/// What is folded at once when too much is open: little, since a reader waits for it.
const FOLD_SHARE: usize = 16;

/// What folding and opening keep.
#[derive(Default)]
pub(super) struct Folding {
    commons: Mutex<Commons>,
    /// About how many bytes the open topics take, or more.
    open_bytes: AtomicUsize,
    /// Held by who folds.
    turn: Mutex<()>,
}

impl Followed {
    /// Lets rows that nobody else has share what they have in common with those held.
    pub(in crate::agent) fn share(&self, rows: &mut [Row]) {
        self.folding.commons.lock().share(rows);
    }

    /// The content of a topic, which is open from now on.
    pub(super) fn content(&self, slot: &Slot) -> Option<Arc<TopicData>> {
        if let Some(data) = slot.opened() {
            return Some(data);
        }
        let data = slot.open(|rows| self.share(rows))?;
        self.opened(slot, &data);
        Some(data)
    }

    /// One more is open: if that is too much, those read least recently are folded.
    pub(super) fn opened(&self, slot: &Slot, data: &TopicData) {
        self.weigh(slot);
        let more = held::weight(&slot.topic, data);
        if more == 0 {
            return;
        }
        let most = self.limits.read().open_bytes;
        if self.folding.open_bytes.fetch_add(more, Ordering::Relaxed) + more > most {
            self.fold(slot, most);
        }
    }

    fn fold(&self, newest: &Slot, most: usize) {
        let Some(_folding) = self.folding.turn.try_lock() else { return };
        let weigh = |slot: &Arc<Slot>| {
            let bytes = held::weight(&slot.topic, &*slot.opened()?);
            (bytes > 0 && !slot.is_pinned()).then(|| (slot.last_read(), bytes, Arc::clone(slot)))
        };
        let mut open: Vec<(u64, usize, Arc<Slot>)> = self.slots.read().values().filter_map(weigh).collect();
        let mut all: usize = open.iter().map(|(_, bytes, _)| bytes).sum();
        open.sort_unstable_by_key(|(read, ..)| *read);
        for (_, bytes, slot) in open {
            if all <= most - most / FOLD_SHARE {
                break;
            }
            if !std::ptr::eq(Arc::as_ptr(&slot), newest) {
                slot.fold();
                self.weigh(&slot);
                all -= bytes;
            }
        }
        self.folding.open_bytes.store(all, Ordering::Relaxed);
    }

    /// How many topics are held folded.
    pub(in crate::agent) fn folded(&self) -> usize {
        self.slots.read().values().filter(|slot| slot.is_held() && slot.opened().is_none()).count()
    }
}
