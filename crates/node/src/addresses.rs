//! Addresses of pods: each has one of 127.64.0.0/10 to itself on this machine.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use parking_lot::Mutex;

const FIRST: u32 = u32::from_be_bytes([127, 64, 0, 1]);
const LAST: u32 = u32::from_be_bytes([127, 127, 255, 254]);

/// The addresses that are taken. All nodes of a process share them.
#[derive(Debug)]
pub struct Addresses {
    taken: Mutex<(u32, BTreeSet<u32>)>,
}

impl Default for Addresses {
    /// Begins anywhere: other processes on this machine may have pods, too.
    fn default() -> Self {
        let (random, _) = uuid::Uuid::new_v4().as_u64_pair();
        let offset = u32::try_from(random % u64::from(LAST - FIRST)).unwrap_or_default();
        Self::beginning_at(FIRST + offset)
    }
}

impl Addresses {
    fn beginning_at(next: u32) -> Self {
        Self { taken: Mutex::new((next, BTreeSet::new())) }
    }

    /// One that nobody has and that was not given back just now.
    pub(crate) fn take(&self) -> Option<Ipv4Addr> {
        let mut state = self.taken.lock();
        let (next, taken) = &mut *state;
        let from = (*next).clamp(FIRST, LAST);
        let free = (from..=LAST).chain(FIRST..from).find(|address| !taken.contains(address))?;
        taken.insert(free);
        *next = if free == LAST { FIRST } else { free + 1 };
        Some(Ipv4Addr::from(free))
    }

    /// A pod that is taken over has this one.
    pub(crate) fn reserve(&self, address: Ipv4Addr) {
        self.taken.lock().1.insert(u32::from(address));
    }

    /// Nobody has it any more.
    pub(crate) fn give_back(&self, address: Ipv4Addr) {
        self.taken.lock().1.remove(&u32::from(address));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_pods_have_the_same() {
        let addresses = Addresses::beginning_at(FIRST);
        addresses.reserve(Ipv4Addr::new(127, 64, 0, 2));
        let first = addresses.take().unwrap();
        assert_eq!(first, Ipv4Addr::new(127, 64, 0, 1));
        assert_eq!(addresses.take(), Some(Ipv4Addr::new(127, 64, 0, 3)));
        addresses.give_back(first);
        assert_eq!(addresses.take(), Some(Ipv4Addr::new(127, 64, 0, 4)), "an old one rests");
    }
}
