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
#[derive(Debug)]
pub(super) struct Unsent(VecDeque<Entry>);

impl Unsent {
    pub(super) fn of(entry: Entry) -> Self {
        Self(VecDeque::from([entry]))
    }

    pub(super) fn first(&self) -> Option<&Entry> {
        self.0.front()
    }

    pub(super) fn first_position(&self) -> Option<u64> {
        self.first().map(|entry| entry.position)
    }

    pub(super) fn take_first(&mut self) -> Option<Entry> {
        self.0.pop_front()
    }

    pub(super) fn append(&mut self, entry: Entry) {
        self.0.push_back(entry);
    }

    /// Drops all but deletions of what was there under another id before; their positions.
    pub(super) fn drop_for_deletion(&mut self, resource_id: &str) -> Vec<u64> {
        let (kept, dropped) = std::mem::take(&mut self.0)
            .into_iter()
            .partition::<VecDeque<_>, _>(|old| old.out.kind == Type::Delete && old.out.resource_id != resource_id);
        self.0 = kept;
        dropped.into_iter().map(|entry| entry.position).collect()
    }

    /// Lets `new` take the place of the event that it makes pointless; gives it back if there is none.
    pub(super) fn merge(&mut self, mut new: Outgoing) -> Result<(), Outgoing> {
        let Some(state) = State::of(&new.kind) else { return Err(new) };
        let Some(old) = self.0.iter_mut().find(|old| State::of(&old.out.kind) == Some(state)) else {
            return Err(new);
        };
        if old.out.kind == Type::Create {
            new.kind = Type::Create;
        }
        old.out = new;
        Ok(())
    }
}

/// Events of which only the newest matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Desired,
    Observed,
}

impl State {
    fn of(kind: &Type) -> Option<Self> {
        match kind {
            Type::Create | Type::SpecUpdate => Some(Self::Desired),
            Type::StatusUpdate => Some(Self::Observed),
            _ => None,
        }
    }
}
