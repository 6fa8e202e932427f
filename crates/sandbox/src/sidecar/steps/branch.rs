//! Which steps led to the present files.

use std::collections::{BTreeMap, BTreeSet};

/// The step before the first: the sandbox as it was made.
pub(in crate::sidecar) const NONE: i64 = -1;

/// Steps by the one whose files each began with, and the one whose files are there now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sidecar) struct Branches {
    parents: BTreeMap<i64, i64>,
    head: i64,
    next: i64,
}

impl Default for Branches {
    fn default() -> Self {
        Self { parents: BTreeMap::new(), head: NONE, next: 0 }
    }
}

impl Branches {
    /// The step whose files are there now.
    pub(in crate::sidecar) fn head(&self) -> i64 {
        self.head
    }

    /// The next step's index: one that no other ever had.
    pub(in crate::sidecar) fn next(&self) -> i64 {
        self.next
    }

    /// An index was given away, whatever becomes of it.
    pub(in crate::sidecar) fn begun(&mut self, index: i64) {
        self.next = self.next.max(index.saturating_add(1));
    }

    /// A step has ended, and its files are the present ones.
    pub(in crate::sidecar) fn ended(&mut self, index: i64, parent: i64) {
        self.begun(index);
        // Only an earlier step can be a parent; anything else would be a circle.
        self.parents.insert(index, if parent < index { parent.max(NONE) } else { NONE });
        self.head = index;
    }

    /// The files are those after another step.
    pub(in crate::sidecar) fn moved(&mut self, head: i64) {
        self.head = if self.parents.contains_key(&head) { head } else { NONE };
    }

    /// Steps so far are forgotten; their indexes stay taken.
    pub(in crate::sidecar) fn forget(&mut self) {
        self.parents.clear();
        self.head = NONE;
    }

    /// A step and all that led to it.
    pub(in crate::sidecar) fn led_to(&self, step: i64) -> BTreeSet<i64> {
        let mut steps = BTreeSet::new();
        let mut at = step;
        while let Some(parent) = self.parents.get(&at) {
            steps.insert(at);
            at = *parent;
        }
        steps
    }

    /// The steps that led to the present files.
    pub(in crate::sidecar) fn live(&self) -> BTreeSet<i64> {
        self.led_to(self.head)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn going_back_starts_a_branch_and_no_index_comes_twice() {
        let mut all = Branches::default();
        for index in 0..3 {
            assert_eq!(all.next(), index);
            all.ended(index, all.head());
        }
        all.moved(0);
        all.begun(all.next());
        assert_eq!(all.next(), 4, "one that was given away and lost is not given again");
        all.ended(4, all.head());
        assert_eq!(all.live(), BTreeSet::from([0, 4]));
        assert_eq!(all.led_to(2), BTreeSet::from([0, 1, 2]));
        all.moved(NONE);
        assert_eq!((all.live(), all.next()), (BTreeSet::new(), 5));
        all.moved(77);
        assert_eq!(all.head(), NONE, "nobody was ever there");
        all.forget();
        all.ended(9, 1);
        assert_eq!((all.live(), all.next()), (BTreeSet::from([9]), 10));
    }

    proptest! {
        #[test]
        fn whatever_is_told_ends(told in proptest::collection::vec((0..20_i64, -3..25_i64, any::<bool>()), 0..60)) {
            let mut all = Branches::default();
            for (index, other, ended) in told {
                let before = all.next();
                if ended { all.ended(index, other) } else { all.moved(other) }
                prop_assert!(all.next() >= before);
                prop_assert!(all.live().iter().all(|step| *step < all.next()));
            }
        }
    }
}
