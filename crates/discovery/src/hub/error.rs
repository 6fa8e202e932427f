//! Why the registry could not be read or replaced.

use crate::command::Refusal;
use crate::registry::Damaged;

/// Why the registry could not be read or replaced.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error("the registry's store failed: {0}")]
    Store(#[from] thane_kv::Error),
    /// What is stored cannot be read.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// Somebody else writes into the registry's store.
    #[error("the registry's store was changed by somebody else")]
    Conflict,
    /// Not a snapshot, or not whole.
    #[error("not a usable snapshot: {0}")]
    Snapshot(String),
    /// The registry has stopped.
    #[error("the registry is closed")]
    Closed,
}

impl Error {
    /// Whether the same call may succeed later without a change by the caller.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_retryable())
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::Closed => Self::NoHub,
            other => Self::Failed(other.to_string()),
        }
    }
}
