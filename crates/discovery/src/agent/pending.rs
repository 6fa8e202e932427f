//! What the hub does not know yet, and when to say so. Pure: time is given, content is asked for when it is sent.
//!
//! What is sent is an item as it is at that moment, so sending it again does no harm; the sequence number keeps a batch
//! that was held up on the way from undoing a later one.

use std::collections::BTreeMap;
use std::time::Duration;

/// One thing the agent has registered, or had.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ItemKey {
    /// An instance by its id.
    Service(String),
    /// A check by its id.
    Check(String),
}

/// When things are said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cadence {
    /// Changes so close together share a batch; the first after a while leaves at once.
    pub window: Duration,
    /// Items of a batch at most.
    pub batch: usize,
    /// After a failure, and for an item the hub refused.
    pub retry: Duration,
    /// Everything is said again so often.
    pub full: Duration,
    /// How checks stand is said again so often.
    pub health: Duration,
}

impl Default for Cadence {
    fn default() -> Self {
        Self {
            window: Duration::from_millis(5),
            batch: 100,
            retry: Duration::from_secs(10),
            full: Duration::from_mins(5),
            health: Duration::from_secs(30),
        }
    }
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing until something changes.
    Idle,
    /// Nothing before that time.
    At(Duration),
    /// Send these items as they are now. Counts as under way.
    Send(Vec<ItemKey>),
    /// Send everything; say what that was with [`Pending::begin_full`]. Counts as under way.
    Full,
    /// Touch every check, then ask again.
    Health,
}

/// What the hub does not know yet.
#[derive(Debug)]
pub struct Pending {
    cadence: Cadence,
    dirty: BTreeMap<ItemKey, Dirty>,
    version: u64,
    /// When what waits leaves; `None`: nothing waits for others.
    window_closes: Option<Duration>,
    last_sent: Option<Duration>,
    not_before: Duration,
    full_due: Duration,
    health_due: Duration,
    flight: Option<Flight>,
    is_connected: bool,
}

#[derive(Debug, Clone, Copy)]
struct Dirty {
    version: u64,
    not_before: Duration,
}

#[derive(Debug)]
struct Flight {
    is_full: bool,
    keys: Vec<ItemKey>,
    /// What changed after this is not in it.
    version: u64,
}

impl Pending {
    /// Nothing to say and nobody to say it to.
    pub fn new(cadence: Cadence) -> Self {
        Self {
            cadence,
            dirty: BTreeMap::new(),
            version: 0,
            window_closes: None,
            last_sent: None,
            not_before: Duration::ZERO,
            full_due: Duration::ZERO,
            health_due: Duration::ZERO,
            flight: None,
            is_connected: false,
        }
    }

    /// Something changed.
    pub fn touch(&mut self, now: Duration, keys: impl IntoIterator<Item = ItemKey>) {
        for key in keys {
            self.version += 1;
            self.dirty.insert(key, Dirty { version: self.version, not_before: now });
        }
        let quiet = self.last_sent.map_or(now, |sent| sent + self.cadence.window);
        // Once it is said when it closes that stays, or changes that never stop would never leave.
        self.window_closes.get_or_insert(now.max(quiet));
    }

    /// A hub is there: it is told everything first.
    pub fn connected(&mut self, now: Duration) {
        self.is_connected = true;
        self.flight = None;
        self.not_before = now;
        self.full_due = now;
        self.health_due = now + self.cadence.health;
    }

    /// No hub is there; what was under way may or may not have arrived.
    pub fn disconnected(&mut self) {
        self.is_connected = false;
        self.flight = None;
    }

    /// Other times from now on.
    pub fn set_cadence(&mut self, now: Duration, cadence: Cadence) {
        self.cadence = cadence;
        self.full_due = self.full_due.min(now + cadence.full);
        self.health_due = self.health_due.min(now + cadence.health);
    }

    /// Whether the hub may not have the item as it is.
    pub fn is_dirty(&self, key: &ItemKey) -> bool {
        self.dirty.contains_key(key)
    }

    /// How many items the hub may not have as they are.
    pub fn len(&self) -> usize {
        self.dirty.len()
    }

    /// Whether the hub has everything.
    pub fn is_empty(&self) -> bool {
        self.dirty.is_empty()
    }

    /// What to do now.
    pub fn next(&mut self, now: Duration) -> Step {
        if !self.is_connected || self.flight.is_some() {
            return Step::Idle;
        }
        if now < self.not_before {
            return Step::At(self.not_before);
        }
        if self.full_due <= now {
            // What changes from here on may or may not be in it: it is sent again.
            self.window_closes = None;
            self.flight = Some(Flight { is_full: true, keys: Vec::new(), version: self.version });
            return Step::Full;
        }
        if self.health_due <= now {
            self.health_due = now + self.cadence.health;
            return Step::Health;
        }
        let ready = self.dirty.iter().filter(|(_, dirty)| dirty.not_before <= now);
        let keys: Vec<ItemKey> = ready.take(self.cadence.batch).map(|(key, _)| key.clone()).collect();
        let closes = self.window_closes.unwrap_or_default();
        if !keys.is_empty() && (closes <= now || keys.len() >= self.cadence.batch) {
            (self.window_closes, self.last_sent) = (None, Some(now));
            self.flight = Some(Flight { is_full: false, keys: keys.clone(), version: self.version });
            return Step::Send(keys);
        }
        let retry = self.dirty.values().map(|dirty| dirty.not_before.max(closes)).min();
        Step::At(retry.unwrap_or(self.full_due).min(self.full_due).min(self.health_due))
    }

    /// Everything is under way, and this is what there is.
    pub fn begin_full(&mut self, keys: Vec<ItemKey>) {
        if let Some(flight) = &mut self.flight {
            flight.keys = keys;
        }
    }

    /// The hub answered: for each item sent, in order, whether it was taken. Fewer answers than items: the others were not.
    pub fn answered(&mut self, now: Duration, taken: &[bool]) {
        let Some(flight) = self.flight.take() else { return };
        if flight.is_full {
            self.full_due = now + self.cadence.full;
            self.dirty.retain(|_, dirty| dirty.version > flight.version);
        }
        for (place, key) in flight.keys.into_iter().enumerate() {
            let is_newer = self.dirty.get(&key).is_some_and(|dirty| dirty.version > flight.version);
            if is_newer {
                continue;
            }
            if taken.get(place).copied().unwrap_or(false) {
                self.dirty.remove(&key);
            } else {
                self.dirty.insert(key, Dirty { version: flight.version, not_before: now + self.cadence.retry });
            }
        }
    }

    /// The hub refused all that was sent, and would again. Everything is said item by item then; others come before what
    /// was refused.
    pub fn refused(&mut self, now: Duration) {
        let retry = self.cadence.retry;
        match &self.flight {
            Some(Flight { is_full: true, .. }) => {
                let Some(flight) = self.flight.take() else { return };
                for key in flight.keys {
                    self.dirty.entry(key).or_insert(Dirty { version: flight.version, not_before: now });
                }
                self.full_due = now + retry;
            }
            _ => self.answered(now, &[]),
        }
        self.not_before = now + retry / 10;
    }

    /// Nobody knows what became of what was sent.
    pub fn failed(&mut self, now: Duration) {
        self.flight = None;
        self.not_before = now + self.cadence.retry;
    }
}

/// Numbers for batches that are never given twice, also across a restart: they are set aside durably, many at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequence {
    next: u64,
    reserved: u64,
}

impl Sequence {
    /// How many are set aside at a time.
    pub const STRIDE: u64 = 1024;

    /// Numbers after what was set aside before.
    pub fn after(reserved: u64) -> Self {
        Self { next: reserved + 1, reserved }
    }

    /// What has to be kept durably before [`Sequence::take`] gives a number.
    pub fn wanted(&self) -> Option<u64> {
        (self.next > self.reserved).then(|| self.reserved + Self::STRIDE)
    }

    /// So much is kept durably.
    pub fn reserve(&mut self, reserved: u64) {
        self.reserved = self.reserved.max(reserved);
    }

    /// The number that comes next.
    pub fn peek(&self) -> u64 {
        self.next
    }

    /// The next number; `None`: more have to be set aside first.
    pub fn take(&mut self) -> Option<u64> {
        (self.next <= self.reserved).then(|| {
            self.next += 1;
            self.next - 1
        })
    }
}

#[cfg(test)]
mod tests;
