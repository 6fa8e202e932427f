//! The unsent events of one lane: which of them a newer one makes pointless.

use std::collections::VecDeque;
use std::time::Duration;

use thane_api::event::Type;

use super::Outgoing;

/// An event that waits its turn.
#[derive(Debug)]
pub(super) struct Entry {
    /// Its turn; what replaces it keeps it.
    pub(super) position: u64,
    /// When it, or what it replaced, was pushed.
    pub(super) pushed: Duration,
    pub(super) out: Outgoing,
}

/// Deletions first, then at most one desired state, at most one observed state and any number of others, as pushed.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    entries: VecDeque<Entry>,
    /// Position of the desired state.
    desired: Option<u64>,
    /// Position of the observed state.
    observed: Option<u64>,
}

impl Unsent {
    pub(super) fn of(entry: Entry) -> Self {
        let mut unsent = Self { entries: VecDeque::with_capacity(1), ..Self::default() };
        unsent.append(entry);
        unsent
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(super) fn first(&self) -> Option<&Entry> {
        self.entries.front()
    }

    pub(super) fn first_position(&self) -> Option<u64> {
        self.first().map(|entry| entry.position)
    }

    pub(super) fn take_first(&mut self) -> Option<Entry> {
        let first = self.entries.pop_front()?;
        if let Some(state) = self.state_mut(&first.out.kind) {
            *state = None;
        }
        Some(first)
    }

    /// The state that makes one of that type pointless, which was sent already.
    pub(super) fn newer(&self, kind: &Type) -> Option<&Entry> {
        let position = match kind {
            Type::Create | Type::SpecUpdate => self.desired,
            Type::StatusUpdate => self.observed,
            _ => None,
        };
        self.entries.get(self.index(position?)?)
    }

    fn index(&self, position: u64) -> Option<usize> {
        self.entries.binary_search_by_key(&position, |entry| entry.position).ok()
    }

    /// Takes it out.
    pub(super) fn take_newer(&mut self, kind: &Type) -> Option<Entry> {
        let position = self.state_mut(kind)?.take()?;
        let index = self.index(position)?;
        let mut newer = self.entries.remove(index)?;
        if *kind == Type::Create {
            newer.out.kind = Type::Create;
        }
        Some(newer)
    }

    pub(super) fn append(&mut self, entry: Entry) {
        assert!(self.entries.back().is_none_or(|last| last.position < entry.position), "positions only grow");
        if let Some(state) = self.state_mut(&entry.out.kind) {
            assert!(state.is_none(), "a state is merged into the one that waits");
            *state = Some(entry.position);
        }
        self.entries.push_back(entry);
    }

    /// Drops all but deletions of what was there under another id before; their positions.
    pub(super) fn drop_for_deletion(&mut self, resource_id: &str) -> Vec<u64> {
        let (kept, dropped) = std::mem::take(&mut self.entries)
            .into_iter()
            .partition::<VecDeque<_>, _>(|old| old.out.kind == Type::Delete && old.out.resource_id != resource_id);
        *self = Self { entries: kept, ..Self::default() };
        dropped.into_iter().map(|entry| entry.position).collect()
    }

    /// Lets `new` take the place of the state that it makes pointless; gives it back if there is none.
    pub(super) fn merge(&mut self, mut new: Outgoing) -> Option<Outgoing> {
        let Some(position) = self.state_mut(&new.kind).and_then(|state| *state) else { return Some(new) };
        let Some(index) = self.index(position) else {
            unreachable!("the position of a state is that of an entry");
        };
        let old = &mut self.entries[index].out;
        if old.kind == Type::Create {
            new.kind = Type::Create;
        }
        *old = new;
        None
    }

    /// Where the state is that events of this type describe, for those of which only the newest matters.
    fn state_mut(&mut self, kind: &Type) -> Option<&mut Option<u64>> {
        match kind {
            Type::Create | Type::SpecUpdate => Some(&mut self.desired),
            Type::StatusUpdate => Some(&mut self.observed),
            _ => None,
        }
    }
}
