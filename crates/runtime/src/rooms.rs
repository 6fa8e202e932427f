//! The seam between sandboxes and whoever runs their containers: where a container's executor is, and its files as layers.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::pods::{AccessError, ContainerAt};

/// The containers that run here.
pub trait Rooms: Send + Sync {
    /// A container that runs; [`AccessError::NotFound`] when it does not, or no longer.
    fn room(&self, at: ContainerAt) -> BoxFuture<'_, Result<Room, AccessError>>;
}

/// A container that runs.
#[derive(Clone)]
pub struct Room {
    /// The run directory of its executor, where the socket is.
    pub run: PathBuf,
    /// Where what is recorded about it stays for as long as its pod does, also while nothing runs.
    pub records: PathBuf,
    /// Its files, where they can be kept after each step.
    pub layers: Option<Arc<dyn Layers>>,
}

/// The files of a container as layers: what was written, on top of what there was.
///
/// A state has a name that no other on this machine has, and is kept for as long as the pod it was made in, or one that
/// was brought to it.
pub trait Layers: Send + Sync {
    /// Keeps what was written since the last state as a new one, and says its name; if nothing was written, that of the last.
    /// Whoever calls has ended everything that was started in the container; the executor stays.
    fn seal(&self) -> BoxFuture<'_, Result<String, AccessError>>;

    /// Brings the files back to a state, of this container or of another on this machine that was made from the same image;
    /// the empty name is the image as it was. [`AccessError::NotFound`] when there is no such state.
    /// Whoever calls has ended everything that was started in the container.
    fn restore(&self, state: String) -> BoxFuture<'_, Result<(), AccessError>>;
}
