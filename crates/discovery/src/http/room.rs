//! How much of a listener one client, and what it sends, may take.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Connections by the address they come from.
#[derive(Debug, Default)]
pub(super) struct Clients(Mutex<HashMap<IpAddr, usize>>);

/// One connection, counted as long as it is there.
#[derive(Debug)]
pub(super) struct Seat {
    clients: Arc<Clients>,
    client: IpAddr,
}

impl Clients {
    /// One more of a client; `None`: it has so many already.
    pub(super) fn seat(self: &Arc<Self>, client: IpAddr, most: usize) -> Option<Seat> {
        let mut all = self.0.lock();
        let count = all.entry(client).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Seat { clients: Arc::clone(self), client })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut all = self.clients.0.lock();
        if let Some(count) = all.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.client);
            }
        }
    }
}

/// Room for bodies that are being read.
#[derive(Debug)]
pub(super) struct Room {
    taken: AtomicUsize,
    most: usize,
}

impl Room {
    pub(super) fn new(most: usize) -> Self {
        Self { taken: AtomicUsize::new(0), most }
    }

    pub(super) fn share(&self) -> Share<'_> {
        Share { room: self, bytes: 0 }
    }
}

/// What one body takes; it is given back in the end.
#[derive(Debug)]
pub(super) struct Share<'a> {
    room: &'a Room,
    bytes: usize,
}

impl Share<'_> {
    /// Takes more; `false`: there is no more. One alone has as much as it needs.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let before = self.room.taken.fetch_add(bytes, Ordering::AcqRel);
        let is_alone = before == self.bytes;
        self.bytes += bytes;
        is_alone || before + bytes <= self.room.most
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_given_back() {
        let room = Room::new(10);
        let mut first = room.share();
        assert!(first.take(4) && first.take(6));
        assert!(!room.share().take(1));
        drop(first);
        assert!(room.share().take(11), "there is nobody else");
        let clients = Arc::new(Clients::default());
        let [one, other] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
        let seats: Vec<_> = (0..3).map(|_| clients.seat(one, 2)).collect();
        assert_eq!(seats.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
        assert!(clients.seat(other, 2).is_some());
        drop(seats);
        assert!(clients.0.lock().is_empty() && clients.seat(one, 1).is_some());
    }
}
