//! Events of the current stream that have been here before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thane_api::event::{Event, Type};

/// What makes an event the same one: resource id, event id and type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity(Arc<(String, String, Type)>);

impl Identity {
    pub(super) fn of(event: &Event) -> Self {
        Self(Arc::new((event.resource_id.clone(), event.event_id.clone(), event.kind.clone())))
    }
}

/// How far an event has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// It waits or is at work.
    Open,
    /// It was acknowledged, last at this time.
    Acknowledged(Duration),
}

/// A bounded memory; the oldest goes first.
#[derive(Debug)]
pub(super) struct Seen {
    max: usize,
    known: BTreeMap<Identity, (u64, Progress)>,
    order: BTreeMap<u64, Identity>,
    arrivals: u64,
}

impl Seen {
    pub(super) fn new(max: usize) -> Self {
        Self { max, known: BTreeMap::new(), order: BTreeMap::new(), arrivals: 0 }
    }

    pub(super) fn progress(&self, identity: &Identity) -> Option<Progress> {
        self.known.get(identity).map(|(_, progress)| *progress)
    }

    /// Remembers an event that is new.
    pub(super) fn open(&mut self, identity: Identity) {
        self.forget(&identity);
        while self.known.len() >= self.max {
            let Some((_, oldest)) = self.order.pop_first() else { return };
            self.known.remove(&oldest);
        }
        self.order.insert(self.arrivals, identity.clone());
        self.known.insert(identity, (self.arrivals, Progress::Open));
        self.arrivals += 1;
    }

    /// Notes how far an event has come, if it is still remembered.
    pub(super) fn set(&mut self, identity: &Identity, progress: Progress) {
        if let Some((_, known)) = self.known.get_mut(identity) {
            *known = progress;
        }
    }

    pub(super) fn forget(&mut self, identity: &Identity) {
        if let Some((arrival, _)) = self.known.remove(identity) {
            self.order.remove(&arrival);
        }
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.order.clear();
    }
}

#[cfg(test)]
impl Seen {
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.known.len(), self.order.len());
        self.known.len()
    }
}
