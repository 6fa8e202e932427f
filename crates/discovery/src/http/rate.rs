//! How many requests one client may make: a bucket of tokens each, refilled steadily, in a bounded table.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;

/// Parts of the table, so that clients seldom wait for each other.
const SHARDS: usize = 16;
/// Clients remembered in each.
const SHARD_CLIENTS_MAX: usize = 1024;

/// How many requests one client may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// So many each second in the long run.
    pub per_second: u32,
    /// So many at once.
    pub burst: u32,
}

impl Rate {
    /// A rate with room for two seconds' worth at once; none for zero.
    pub fn per_second(per_second: u32) -> Option<Self> {
        (per_second > 0).then(|| Self { per_second, burst: per_second.saturating_mul(2) })
    }
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Client {
    /// An address.
    Address(IpAddr),
    /// A token, mixed up: it is never kept.
    Token(u64),
    /// All for whom there is no room.
    Rest,
}

/// Clients that made requests lately, and when their bucket would be full again.
pub(super) struct Rates {
    interval: Duration,
    tolerance: Duration,
    shards: Vec<Mutex<HashMap<Client, Duration>>>,
    mixer: RandomState,
}

/// A client has asked too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany {
    /// After so long the next request is let in.
    pub(super) wait: Duration,
    /// Whether the table is full, and the client shares a bucket with others.
    pub(super) crowded: bool,
}

impl Rates {
    pub(super) fn new(rate: Rate) -> Self {
        let interval = Duration::from_secs(1) / rate.per_second.max(1);
        Self {
            interval,
            tolerance: interval * rate.burst.max(1).saturating_sub(1),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            mixer: RandomState::new(),
        }
    }

    /// Who shows a token.
    pub(super) fn bearer(&self, token: &[u8]) -> Client {
        Client::Token(self.mixer.hash_one(token))
    }

    /// Lets a request in, or says when to come again.
    pub(super) fn admit(&self, client: Client, now: Duration) -> Result<(), TooMany> {
        let mut shard = self.shard(client).lock();
        let mut client = client;
        if !shard.contains_key(&client) && shard.len() >= SHARD_CLIENTS_MAX {
            // Whose bucket is full again is as good as unknown.
            shard.retain(|_, full_at| *full_at > now);
            if shard.len() >= SHARD_CLIENTS_MAX {
                client = Client::Rest;
            }
        }
        let full_at = shard.entry(client).or_insert(now);
        let begin = (*full_at).max(now);
        let wait = begin.saturating_sub(now).saturating_sub(self.tolerance);
        if !wait.is_zero() {
            return Err(TooMany { wait, crowded: client == Client::Rest });
        }
        *full_at = begin + self.interval;
        Ok(())
    }

    fn shard(&self, client: Client) -> &Mutex<HashMap<Client, Duration>> {
        let number = usize::try_from(self.mixer.hash_one(client) % SHARDS as u64).unwrap_or(0);
        &self.shards[number]
    }

    #[cfg(test)]
    fn clients(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> Client {
        Client::Address(IpAddr::from(number.to_be_bytes()))
    }

    #[test]
    fn a_bucket_empties_and_fills_again() {
        let rates = Rates::new(Rate { per_second: 10, burst: 3 });
        let at = Duration::from_millis;
        for (millis, is_let_in) in [(0, true), (0, true), (0, true), (0, false), (99, false), (100, true), (100, false)]
        {
            assert_eq!(rates.admit(address(1), at(millis)).is_ok(), is_let_in, "{millis}");
        }
        assert_eq!(rates.admit(address(1), at(150)), Err(TooMany { wait: at(50), crowded: false }));
        assert_eq!(rates.admit(address(2), at(150)), Ok(()), "others are not held up");
        assert_eq!((0..9).filter(|_| rates.admit(address(1), at(10_000)).is_ok()).count(), 3, "no more than fits in");
    }

    #[test]
    fn the_table_of_clients_is_bounded() {
        let rates = Rates::new(Rate { per_second: 1, burst: 1 });
        let bound = SHARDS * (SHARD_CLIENTS_MAX + 1);
        for number in 0..100_000 {
            let _ = rates.admit(address(number), Duration::ZERO);
        }
        assert!(rates.clients() <= bound, "{}", rates.clients());
        let late = rates.admit(address(200_000), Duration::from_millis(500));
        assert!(late.is_err_and(|late| late.crowded), "who finds no room shares what is left");
        assert_eq!(rates.admit(address(200_000), Duration::from_secs(200_000)), Ok(()), "the idle make room");
        assert!(rates.clients() < bound);
    }

    #[test]
    fn no_rate_is_no_limit() {
        assert_eq!(Rate::per_second(0), None);
        assert_eq!(Rate::per_second(5), Some(Rate { per_second: 5, burst: 10 }));
        let largest = Rates::new(Rate { per_second: u32::MAX, burst: u32::MAX });
        assert_eq!(largest.admit(address(1), Duration::ZERO), Ok(()));
    }
}
