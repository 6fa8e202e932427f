//! Turns: writers of one object that get into each other's way go one after another, instead of trying in vain.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Mutex as Queue, OwnedMutexGuard};
use tokio::time::Instant;

use super::Objects;
use crate::failure::{Failure, Result};
use crate::resource::ResourceType;

/// How long a write is tried while others come first; then its client gets the timeout Kubernetes answers.
const PATIENCE: Duration = Duration::from_secs(30);

/// The objects that several want to write at this moment; never more than there are requests.
#[derive(Default)]
pub(super) struct Turns {
    queues: Mutex<HashMap<Bytes, Arc<Queue<()>>>>,
}

/// The tries of one write that names no revision.
pub(crate) struct Attempts {
    turns: Arc<Turns>,
    key: Bytes,
    end: Instant,
    turn: Option<Turn>,
}

impl Attempts {
    /// Tries to write one object.
    pub(crate) fn new(objects: &Objects, kind: &ResourceType, namespace: &str, name: &str) -> Self {
        let (turns, key) = (Arc::clone(&objects.turns), kind.key(namespace, name));
        Self { turns, key, end: Instant::now() + PATIENCE, turn: None }
    }

    /// Another write came first: returns when it is this one's turn to read the object again and try. It keeps the turn;
    /// only whoever writes for the first time can still come between.
    pub(crate) async fn again(&mut self) -> Result<()> {
        if self.turn.is_none() {
            let mut turn = Turn::new(&self.turns, &self.key);
            turn.guard = tokio::time::timeout_at(self.end, Arc::clone(&turn.queue).lock_owned()).await.ok();
            self.turn = Some(turn).filter(|turn| turn.guard.is_some());
        }
        if self.turn.is_some() && Instant::now() < self.end {
            return Ok(());
        }
        let why = "Timeout: request did not complete within requested timeout - context deadline exceeded";
        Err(Failure::new(504, "Timeout", why))
    }
}

/// A place in the queue of an object, or the turn itself.
struct Turn {
    turns: Arc<Turns>,
    key: Bytes,
    queue: Arc<Queue<()>>,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Turn {
    fn new(turns: &Arc<Turns>, key: &Bytes) -> Self {
        let queue = Arc::clone(turns.queues.lock().entry(key.clone()).or_default());
        Self { turns: Arc::clone(turns), key: key.clone(), queue, guard: None }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        drop(self.guard.take());
        let mut queues = self.turns.queues.lock();
        // known here and in the map alone: nobody waits
        if Arc::strong_count(&self.queue) <= 2 {
            queues.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(turns: &Arc<Turns>) -> Attempts {
        let (turns, key) = (Arc::clone(turns), Bytes::from_static(b"a"));
        Attempts { turns, key, end: Instant::now() + PATIENCE, turn: None }
    }

    #[tokio::test(start_paused = true)]
    async fn one_at_a_time_and_nothing_is_left_behind() {
        let turns = Arc::new(Turns::default());
        let (mut first, mut second, mut third) = (attempts(&turns), attempts(&turns), attempts(&turns));
        first.again().await.unwrap();
        first.again().await.unwrap();
        {
            let mut waiting = Box::pin(second.again());
            assert!(futures::poll!(waiting.as_mut()).is_pending());
            let mut leaving = Box::pin(third.again());
            assert!(futures::poll!(leaving.as_mut()).is_pending());
            drop(leaving);
            drop(first);
            waiting.await.unwrap();
        }
        assert_eq!(turns.queues.lock().len(), 1);
        let late = attempts(&turns).again().await.unwrap_err();
        assert_eq!((late.code, late.reason), (504, "Timeout"));
        drop(second);
        assert!(turns.queues.lock().is_empty());
    }
}
