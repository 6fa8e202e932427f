//! Who is next: idle pods and those who wait for one, pool by pool. Nothing here touches anything.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::PoolAt;

/// A pod that waits for a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Idle {
    pub(crate) uid: String,
    pub(crate) name: String,
    /// The version it was seen in: whoever claims it must find it unchanged.
    pub(crate) version: String,
}

/// A place in a line; the lower is served first.
pub(crate) type Ticket = u64;

/// A pod and who gets it.
pub(crate) type Served = Option<(Ticket, Idle)>;

/// There are too many in the line already.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Crowded;

/// All lines. A line never has both pods and waiters.
#[derive(Debug)]
pub(crate) struct Lines {
    pools: BTreeMap<PoolAt, Line>,
    pods: BTreeMap<String, Known>,
    next: Ticket,
    waiters_max: usize,
}

#[derive(Debug, Default)]
struct Line {
    idle: VecDeque<Idle>,
    tickets: BTreeSet<Ticket>,
}

#[derive(Debug)]
struct Known {
    pool: PoolAt,
    state: State,
}

#[derive(Debug)]
enum State {
    /// In its line.
    Waits,
    /// Somebody tries to claim it.
    Taken(Later),
    /// Claimed, which the watch has yet to tell.
    Claimed,
}

/// What was seen of a pod while somebody tried to claim it.
#[derive(Debug)]
enum Later {
    Nothing,
    StillIdle(Idle),
    Gone,
}

impl Lines {
    pub(crate) fn new(waiters_max: usize) -> Self {
        Self { pools: BTreeMap::new(), pods: BTreeMap::new(), next: 0, waiters_max }
    }

    /// How many are idle in a pool.
    pub(crate) fn idle(&self, pool: &PoolAt) -> usize {
        self.pools.get(pool).map_or(0, |line| line.idle.len())
    }

    /// A pod was seen idle and ready.
    pub(crate) fn seen(&mut self, pool: &PoolAt, idle: Idle) -> Served {
        match self.pods.get_mut(&idle.uid).map(|known| &mut known.state) {
            None => {
                self.pods.insert(idle.uid.clone(), Known { pool: pool.clone(), state: State::Waits });
                self.line(pool).idle.push_back(idle);
                self.serve(pool)
            }
            Some(State::Waits) => {
                let line = self.line(pool);
                if let Some(place) = line.idle.iter_mut().find(|other| other.uid == idle.uid) {
                    *place = idle;
                }
                None
            }
            Some(State::Taken(later)) => {
                *later = Later::StillIdle(idle);
                None
            }
            Some(State::Claimed) => None,
        }
    }

    /// A pod was seen otherwise, or no longer.
    pub(crate) fn gone(&mut self, uid: &str) {
        let Some(known) = self.pods.get_mut(uid) else { return };
        match &mut known.state {
            State::Taken(later) => *later = Later::Gone,
            State::Waits => {
                let pool = known.pool.clone();
                self.pods.remove(uid);
                self.line(&pool).idle.retain(|idle| idle.uid != uid);
                self.tidy(&pool);
            }
            State::Claimed => drop(self.pods.remove(uid)),
        }
    }

    /// Every pod but these is gone.
    pub(crate) fn only(&mut self, listed: &BTreeSet<String>) {
        let others: Vec<String> = self.pods.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
        for uid in others {
            self.gone(&uid);
        }
    }

    /// The next idle pod, for somebody who will say [`Self::claimed`], [`Self::lost`] or [`Self::put_back`].
    pub(crate) fn take(&mut self, pool: &PoolAt) -> Option<Idle> {
        let idle = self.pools.get_mut(pool)?.idle.pop_front()?;
        self.mark(&idle.uid, State::Taken(Later::Nothing));
        self.tidy(pool);
        Some(idle)
    }

    /// A place in the line, at its end or where one was before. Only when there is nothing to take.
    pub(crate) fn join(&mut self, pool: &PoolAt, before: Option<Ticket>) -> Result<Ticket, Crowded> {
        let ticket = before.unwrap_or(self.next);
        let waiters_max = self.waiters_max;
        let line = self.line(pool);
        if before.is_none() && line.tickets.len() >= waiters_max {
            return Err(Crowded);
        }
        line.tickets.insert(ticket);
        self.next = self.next.max(ticket + 1);
        Ok(ticket)
    }

    /// Somebody no longer waits.
    pub(crate) fn leave(&mut self, pool: &PoolAt, ticket: Ticket) {
        self.line(pool).tickets.remove(&ticket);
        self.tidy(pool);
    }

    /// A pod that was taken is a sandbox's.
    pub(crate) fn claimed(&mut self, uid: &str) {
        match self.pods.get(uid).map(|known| &known.state) {
            Some(State::Taken(Later::Gone)) => drop(self.pods.remove(uid)),
            Some(_) => self.mark(uid, State::Claimed),
            None => {}
        }
    }

    /// A pod that was taken was not as it had been seen: it is idle again only if it was seen so since.
    pub(crate) fn lost(&mut self, uid: &str) -> Served {
        let known = self.pods.remove(uid)?;
        match known.state {
            State::Taken(Later::StillIdle(idle)) => self.seen(&known.pool, idle),
            _ => None,
        }
    }

    /// A pod that was taken was not tried, or nobody knows how that went: it is tried again in the version it had.
    pub(crate) fn put_back(&mut self, idle: Idle) -> Served {
        let known = self.pods.remove(&idle.uid)?;
        let idle = match known.state {
            State::Taken(Later::Nothing) => idle,
            State::Taken(Later::StillIdle(later)) => later,
            State::Taken(Later::Gone) | State::Waits | State::Claimed => return None,
        };
        self.pods.insert(idle.uid.clone(), Known { pool: known.pool.clone(), state: State::Waits });
        self.line(&known.pool).idle.push_front(idle);
        self.serve(&known.pool)
    }

    /// How many wait, everywhere.
    pub(crate) fn waiting(&self) -> usize {
        self.pools.values().map(|line| line.tickets.len()).sum()
    }

    fn serve(&mut self, pool: &PoolAt) -> Served {
        let line = self.pools.get_mut(pool)?;
        let (ticket, idle) = (line.tickets.pop_first()?, line.idle.pop_front());
        let Some(idle) = idle else {
            line.tickets.insert(ticket);
            return None;
        };
        self.mark(&idle.uid, State::Taken(Later::Nothing));
        self.tidy(pool);
        Some((ticket, idle))
    }

    fn line(&mut self, pool: &PoolAt) -> &mut Line {
        self.pools.entry(pool.clone()).or_default()
    }

    fn mark(&mut self, uid: &str, state: State) {
        if let Some(known) = self.pods.get_mut(uid) {
            known.state = state;
        }
    }

    /// Lines that are empty on both sides are forgotten.
    fn tidy(&mut self, pool: &PoolAt) {
        if self.pools.get(pool).is_some_and(|line| line.idle.is_empty() && line.tickets.is_empty()) {
            self.pools.remove(pool);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pool(number: u8) -> PoolAt {
        PoolAt { namespace: "default".into(), name: format!("pool-{number}") }
    }

    fn idle(number: u8, version: u32) -> Idle {
        Idle { uid: format!("uid-{number}"), name: format!("pod-{number}"), version: version.to_string() }
    }

    #[test]
    fn those_who_wait_are_served_in_turn_and_a_loser_keeps_its_place() {
        let mut lines = Lines::new(2);
        let here = pool(0);
        assert_eq!(lines.take(&here), None);
        let first = lines.join(&here, None).unwrap();
        let second = lines.join(&here, None).unwrap();
        assert_eq!(lines.join(&here, None), Err(Crowded));
        assert_eq!(lines.seen(&here, idle(1, 1)), Some((first, idle(1, 1))));
        assert_eq!(lines.lost("uid-1"), None);
        assert_eq!(lines.join(&here, Some(first)), Ok(first));
        assert_eq!(lines.seen(&here, idle(2, 1)), Some((first, idle(2, 1))));
        assert_eq!(lines.put_back(idle(2, 1)), Some((second, idle(2, 1))), "whoever left is not waited for");
    }

    #[test]
    fn what_the_watch_tells_late_does_not_bring_a_claimed_pod_back() {
        let mut lines = Lines::new(2);
        let here = pool(0);
        assert_eq!(lines.seen(&here, idle(1, 1)), None);
        assert_eq!(lines.take(&here), Some(idle(1, 1)));
        lines.claimed("uid-1");
        assert_eq!(lines.seen(&here, idle(1, 1)), None);
        assert_eq!((lines.idle(&here), lines.take(&here)), (0, None));
        lines.gone("uid-1");
        assert!(lines.pods.is_empty() && lines.pools.is_empty());
    }

    #[derive(Debug, Clone)]
    enum Op {
        Seen(u8, u32),
        Gone(u8),
        Take(u8),
        Join(u8),
        Leave,
        Claim,
        Lose,
        PutBack,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (0..8_u8, 0..4_u32).prop_map(|(pod, version)| Op::Seen(pod, version)),
            (0..8_u8).prop_map(Op::Gone),
            (0..2_u8).prop_map(Op::Take),
            (0..2_u8).prop_map(Op::Join),
            Just(Op::Leave),
            Just(Op::Claim),
            Just(Op::Lose),
            Just(Op::PutBack),
        ]
    }

    /// A claimer has a pod until it says what became of it; nobody else may be given the same pod meanwhile or after.
    #[derive(Default)]
    struct Model {
        held: Vec<Idle>,
        claimed: BTreeSet<String>,
        waiting: Vec<(PoolAt, Ticket)>,
        /// Seen, and neither claimed, lost nor gone since: somebody has it, or can have it.
        there: BTreeSet<String>,
    }

    impl Model {
        fn given(&mut self, idle: Idle) {
            assert!(!self.held.iter().any(|other| other.uid == idle.uid), "{idle:?} was given to two");
            assert!(!self.claimed.contains(&idle.uid), "{idle:?} was claimed already");
            self.held.push(idle);
        }

        fn served(&mut self, served: Served) {
            let Some((ticket, idle)) = served else { return };
            let at =
                self.waiting.iter().position(|(_, other)| *other == ticket).expect("only those who wait are served");
            let (here, _) = self.waiting.remove(at);
            assert!(!self.waiting.iter().any(|(other, earlier)| *other == here && *earlier < ticket), "out of turn");
            self.given(idle);
        }
    }

    proptest! {
        #[test]
        fn a_pod_is_never_given_to_two(ops in prop::collection::vec(op(), 0..200)) {
            let mut lines = Lines::new(4);
            let mut model = Model::default();
            for op in ops {
                match op {
                    Op::Seen(pod, version) => {
                        let served = lines.seen(&pool(pod % 2), idle(pod, version));
                        model.served(served);
                        let uid = idle(pod, version).uid;
                        if !model.claimed.contains(&uid) { model.there.insert(uid); }
                    }
                    // A pod that is gone never comes back under the same id; claimed ones are told to be gone once.
                    Op::Gone(pod) if !model.claimed.contains(&idle(pod, 0).uid) => {
                        lines.gone(&idle(pod, 0).uid);
                        model.there.remove(&idle(pod, 0).uid);
                    }
                    Op::Gone(_) => {}
                    Op::Take(number) => if let Some(idle) = lines.take(&pool(number)) { model.given(idle) },
                    Op::Join(number) => if lines.idle(&pool(number)) == 0
                        && let Ok(ticket) = lines.join(&pool(number), None) { model.waiting.push((pool(number), ticket)) },
                    Op::Leave => if let Some((here, ticket)) = model.waiting.pop() { lines.leave(&here, ticket) },
                    Op::Claim => if let Some(idle) = model.held.pop() {
                        lines.claimed(&idle.uid);
                        model.there.remove(&idle.uid);
                        // Unless it was gone meanwhile, when the id is free for this test's next pod.
                        if lines.pods.contains_key(&idle.uid) { model.claimed.insert(idle.uid); }
                    },
                    Op::Lose => if let Some(idle) = model.held.pop() {
                        let served = lines.lost(&idle.uid);
                        model.there.remove(&idle.uid);
                        model.served(served);
                    },
                    Op::PutBack => if let Some(idle) = model.held.pop() {
                        let served = lines.put_back(idle);
                        model.served(served);
                    },
                }
                prop_assert_eq!(lines.waiting(), model.waiting.len());
                for uid in &model.there {
                    let waits = lines.pools.values().any(|line| line.idle.iter().any(|idle| idle.uid == *uid));
                    prop_assert!(waits || model.held.iter().any(|idle| idle.uid == *uid), "{} is forgotten", uid);
                }
                for line in lines.pools.values() {
                    prop_assert!(line.idle.is_empty() || line.tickets.is_empty(), "pods and waiters in one line");
                }
            }
        }
    }
}
