//! How many files a process may have open: as many as the machine allows, since each connection and watch is one.

use std::sync::OnceLock;

use rustix::process::{Resource, getrlimit, setrlimit};

/// The soft limit before it was lifted.
static BEFORE: OnceLock<Option<u64>> = OnceLock::new();

/// Lifts the soft limit to the hard one and tells the limit now in force; none is no limit.
///
/// The soft limit of 1024 that most machines begin with is for programs that use `select`.
pub fn lift() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let mut lifted = limit;
    lifted.current = limit.maximum;
    match setrlimit(Resource::Nofile, lifted) {
        Ok(()) => {
            BEFORE.get_or_init(|| limit.current);
            limit.maximum
        }
        Err(error) => {
            tracing::warn!(%error, limit = ?limit.current, "the limit of open files stays as it is");
            limit.current
        }
    }
}

/// The soft limit this process was started with, for programs it starts; none if it was not lifted, or there was none.
pub fn inherited() -> Option<u64> {
    BEFORE.get().copied().flatten()
}
