//! Failures of the medium under a store, as opposed to requests it refuses.

use crate::store::Error;

/// Why the medium could not be read or written. After one while writing, the writer stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The bytes make no sense.
    Damaged(String),
    /// The medium refused.
    Medium(String),
}

impl Fault {
    /// The error callers see; `path` names the file.
    pub(crate) fn into_error(self, path: &str) -> Error {
        match self {
            Self::Damaged(reason) => Error::Damaged { path: path.to_owned(), reason },
            Self::Medium(reason) => Error::Storage(reason),
        }
    }
}
