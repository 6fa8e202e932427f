//! Who gets which pod: queues of idle ones in memory, fed by a watch, and a compare-and-swap on the API that decides.

use std::time::Duration;

/// A pool of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolAt {
    /// The namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What to do when no pod is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnEmpty {
    /// Wait for one, in turn.
    Wait(Duration),
    /// Make one at once, beyond the pool's number, and wait for it.
    Cold(Duration),
    /// Say so.
    Fail,
}

/// A pod that is now a sandbox's, and nobody else's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The pod.
    pub pod: String,
    /// Its unique id.
    pub pod_uid: String,
    /// Where its sidecar listens.
    pub pod_ip: String,
    /// Where steps start.
    pub work_dir: String,
}

/// Why there is no pod.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// There is no such pool.
    #[error("there is no pool {0:?}")]
    NoPool(String),
    /// None was idle, or became so in time; with what the pool says about itself.
    #[error("no sandbox of pool {pool:?} is idle{}", .why.as_deref().map(|why| format!(": {why}")).unwrap_or_default())]
    Empty {
        /// The pool.
        pool: String,
        /// Why it fills no further, if it says so.
        why: Option<String>,
    },
    /// The pool has as many as it may.
    #[error("pool {0:?} has as many sandboxes as it may")]
    Full(String),
    /// The sandbox is no longer there, or has a pod already.
    #[error("sandbox {0:?} was changed meanwhile")]
    Gone(String),
    /// The API.
    #[error(transparent)]
    Api(#[from] kube::Error),
}
