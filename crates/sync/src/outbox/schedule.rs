//! Which lane is next, and when: everything in order, so that nothing is ever searched.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::lane::Lane;

/// Lanes in the order in which they are served.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// Lanes whose first unsent event may go, by its position.
    ready: BTreeMap<u64, Lane>,
    /// Lanes with an event in flight, by when it is sent again and its position.
    retries: BTreeMap<(Duration, u64), Lane>,
    /// Held lanes by when they go anyway, with the lane they wait for.
    releases: BTreeMap<(Duration, Lane), Lane>,
    /// Held lanes by the lane they wait for, with when they go anyway.
    waiting: BTreeMap<Lane, BTreeMap<Lane, Duration>>,
}

impl Schedule {
    pub(super) fn ready(&mut self, position: u64, lane: Lane) {
        self.ready.insert(position, lane);
    }

    pub(super) fn unready(&mut self, position: Option<u64>) {
        if let Some(position) = position {
            self.ready.remove(&position);
        }
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(super) fn pop_ready(&mut self) -> Option<Lane> {
        self.ready.pop_first().map(|(_, lane)| lane)
    }

    pub(super) fn retry(&mut self, at: Duration, position: u64, lane: Lane) {
        self.retries.insert((at, position), lane);
    }

    pub(super) fn unretry(&mut self, at: Duration, position: u64) {
        self.retries.remove(&(at, position));
    }

    pub(super) fn forget_retries(&mut self) {
        self.retries.clear();
    }

    pub(super) fn next_retry(&self) -> Option<Duration> {
        self.retries.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn pop_retry(&mut self, now: Duration) -> Option<Lane> {
        let first = self.retries.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }

    pub(super) fn hold(&mut self, lane: Lane, by: Lane, until: Duration) {
        self.releases.insert((until, lane.clone()), by.clone());
        self.waiting.entry(by).or_default().insert(lane, until);
    }

    pub(super) fn unhold(&mut self, lane: &Lane, by: &Lane, until: Duration) {
        self.releases.remove(&(until, lane.clone()));
        self.unwait(lane, by);
    }

    pub(super) fn next_release(&self) -> Option<Duration> {
        self.releases.first_key_value().map(|((at, _), _)| *at)
    }

    /// Lets go a lane that has been held long enough.
    pub(super) fn release_expired(&mut self, now: Duration) -> Option<Lane> {
        let first = self.releases.first_entry().filter(|first| first.key().0 <= now)?;
        let ((_, lane), by) = first.remove_entry();
        self.unwait(&lane, &by);
        Some(lane)
    }

    /// Lets go what waits for this lane.
    pub(super) fn release_waiting_for(&mut self, by: &Lane) -> Vec<Lane> {
        let waiting = self.waiting.remove(by).unwrap_or_default();
        waiting
            .into_iter()
            .map(|(lane, until)| {
                self.releases.remove(&(until, lane.clone()));
                lane
            })
            .collect()
    }

    /// Lets go everything that is held.
    pub(super) fn release_held(&mut self) -> Vec<Lane> {
        self.waiting.clear();
        std::mem::take(&mut self.releases).into_keys().map(|(_, lane)| lane).collect()
    }

    fn unwait(&mut self, lane: &Lane, by: &Lane) {
        let Some(waiting) = self.waiting.get_mut(by) else { return };
        waiting.remove(lane);
        if waiting.is_empty() {
            self.waiting.remove(by);
        }
    }
}

#[cfg(test)]
impl Schedule {
    pub(super) fn is_idle_but_for_retries(&self) -> bool {
        self.ready.is_empty() && self.releases.is_empty() && self.waiting.is_empty()
    }
}
