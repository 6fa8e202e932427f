//! Which leases exist, when they end and which keys hang on them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;

use crate::store::{LeaseId, LeaseStatus};

#[derive(Debug)]
struct Lease {
    ttl: Duration,
    deadline: Duration,
    keys: BTreeSet<Bytes>,
}

/// The leases of a store. Deadlines live in memory only: after a restart every lease has its full time again.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    leases: BTreeMap<LeaseId, Lease>,
    deadlines: BTreeSet<(Duration, LeaseId)>,
}

impl Leases {
    pub(crate) fn len(&self) -> usize {
        self.leases.len()
    }

    pub(crate) fn contains(&self, id: LeaseId) -> bool {
        self.leases.contains_key(&id)
    }

    pub(crate) fn insert(&mut self, id: LeaseId, ttl: Duration, now: Duration) {
        let deadline = now.saturating_add(ttl);
        self.deadlines.insert((deadline, id));
        self.leases.insert(id, Lease { ttl, deadline, keys: BTreeSet::new() });
    }

    /// Gives a lease its full time again.
    pub(crate) fn renew(&mut self, id: LeaseId, now: Duration) -> Option<LeaseStatus> {
        let lease = self.leases.get_mut(&id)?;
        self.deadlines.remove(&(lease.deadline, id));
        lease.deadline = now.saturating_add(lease.ttl);
        self.deadlines.insert((lease.deadline, id));
        Some(LeaseStatus { id, ttl: lease.ttl, remaining: lease.ttl })
    }

    /// Forgets a lease and tells which keys hung on it.
    pub(crate) fn remove(&mut self, id: LeaseId) -> Option<BTreeSet<Bytes>> {
        let lease = self.leases.remove(&id)?;
        self.deadlines.remove(&(lease.deadline, id));
        Some(lease.keys)
    }

    pub(crate) fn key_count(&self, id: LeaseId) -> usize {
        self.leases.get(&id).map_or(0, |lease| lease.keys.len())
    }

    pub(crate) fn attach(&mut self, id: LeaseId, key: Bytes) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.keys.insert(key);
        }
    }

    pub(crate) fn detach(&mut self, id: LeaseId, key: &[u8]) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.keys.remove(key);
        }
    }

    /// A lease whose time is over.
    pub(crate) fn expired(&self, now: Duration) -> Option<LeaseId> {
        self.deadlines.first().filter(|(deadline, _)| *deadline <= now).map(|(_, id)| *id)
    }

    /// When the next lease ends.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_earliest_deadline_leads_and_renewal_moves_it() {
        let mut leases = Leases::default();
        leases.insert(1, secs(10), secs(0));
        leases.insert(2, secs(5), secs(0));
        assert_eq!(leases.next_deadline(), Some(secs(5)));
        assert_eq!(leases.expired(secs(4)), None);
        assert_eq!(leases.expired(secs(5)), Some(2));
        leases.renew(2, secs(8)).unwrap();
        assert_eq!(leases.next_deadline(), Some(secs(10)));
        assert_eq!(leases.expired(secs(13)), Some(1));
        leases.remove(1);
        assert_eq!(leases.expired(secs(13)), Some(2));
        assert_eq!(leases.renew(1, secs(13)), None);
    }

    #[test]
    fn keys_follow_their_lease() {
        let mut leases = Leases::default();
        leases.insert(1, secs(1), secs(0));
        leases.attach(1, Bytes::from_static(b"a"));
        leases.attach(1, Bytes::from_static(b"b"));
        leases.detach(1, b"a");
        leases.attach(9, Bytes::from_static(b"c"));
        assert_eq!(leases.key_count(1), 1);
        assert_eq!(leases.remove(1), Some(BTreeSet::from([Bytes::from_static(b"b")])));
    }
}
