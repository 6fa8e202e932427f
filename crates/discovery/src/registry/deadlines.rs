//! What happens when nothing does: sessions end, leases lapse, agents are forgotten, delays pass.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// What becomes due.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Due {
    /// A session was not renewed.
    Session(String),
    /// An agent was not heard of.
    Lease(String),
    /// An agent was not heard of for very long.
    Reap(String),
    /// A key can be locked again.
    Delay(String),
    /// A token expires.
    Token(String),
}

/// What becomes due when, on a clock that never goes back.
#[derive(Debug, Clone, Default)]
pub struct Deadlines {
    by_time: BTreeSet<(Duration, Due)>,
    by_due: HashMap<Due, Duration>,
}

impl Deadlines {
    /// Sets, or moves, a deadline.
    pub fn arm(&mut self, due: Due, at: Duration) {
        self.disarm(&due);
        self.by_due.insert(due.clone(), at);
        self.by_time.insert((at, due));
    }

    /// Forgets a deadline.
    pub fn disarm(&mut self, due: &Due) {
        if let Some(at) = self.by_due.remove(due) {
            self.by_time.remove(&(at, due.clone()));
        }
    }

    /// The next deadline.
    pub fn next(&self) -> Option<Duration> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes the earliest of what is due.
    pub fn pop(&mut self, now: Duration) -> Option<Due> {
        let (at, _) = self.by_time.first()?;
        if *at > now {
            return None;
        }
        let (_, due) = self.by_time.pop_first()?;
        self.by_due.remove(&due);
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_come_in_order_and_can_be_moved() {
        let at = Duration::from_secs;
        let due = |name: &str| Due::Session(name.to_owned());
        let mut deadlines = Deadlines::default();
        deadlines.arm(due("a"), at(1));
        deadlines.arm(due("b"), at(2));
        deadlines.arm(due("c"), at(3));
        deadlines.arm(due("a"), at(4));
        deadlines.disarm(&due("b"));
        assert_eq!(deadlines.next(), Some(at(3)));
        assert_eq!(deadlines.pop(at(2)), None);
        assert_eq!(deadlines.pop(at(9)), Some(due("c")));
        assert_eq!(deadlines.pop(at(9)), Some(due("a")));
        assert_eq!((deadlines.next(), deadlines.by_due.len()), (None, 0));
    }
}
