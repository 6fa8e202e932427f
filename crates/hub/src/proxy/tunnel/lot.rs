//! Where one agent's calls wait for requests, and requests for calls.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::task::{Context, Poll};

use thane_api::wire::tunnel::Frame;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

/// Of an agent's calls and of the places to wait for them, what one caller may have: others always find some.
const CALLS_OF_ONE: usize = 144;
const WAITING_OF_ONE: (usize, usize) = (1, 2);

/// A call that waits for a request.
pub(super) struct Parked {
    pub(super) id: u64,
    pub(super) frames: Streaming<Frame>,
    pub(super) out: mpsc::Sender<Frame>,
    /// Cancelled when its connection ends.
    pub(super) ended: CancellationToken,
}

/// What is kept and given.
pub(super) trait Call {
    fn id(&self) -> u64;
    /// Whether a request could still use it.
    fn is_there(&self) -> bool;
}

impl Call for Parked {
    fn id(&self) -> u64 {
        self.id
    }

    fn is_there(&self) -> bool {
        !self.out.is_closed() && !self.ended.is_cancelled()
    }
}

/// Requests of one caller.
struct Queue<C> {
    caller: String,
    waiting: VecDeque<oneshot::Sender<C>>,
}

/// One agent's. Callers take turns, however many requests each of them has.
pub(super) struct Lot<C = Parked> {
    parked: VecDeque<C>,
    /// In turn; none is empty.
    waiting: VecDeque<Queue<C>>,
    /// Whose request has which call.
    taken: HashMap<u64, String>,
}

impl<C> Default for Lot<C> {
    fn default() -> Self {
        Self { parked: VecDeque::new(), waiting: VecDeque::new(), taken: HashMap::new() }
    }
}

impl<C: Call> Lot<C> {
    /// Gives the call to whose turn it is, or keeps it; false if there is no place.
    pub(super) fn park(&mut self, call: C, parked_max: usize) -> bool {
        let Some(call) = self.give(call) else { return true };
        if self.parked.len() >= parked_max {
            return false;
        }
        self.parked.push_back(call);
        true
    }

    /// The call that has waited longest and is still there, unless the caller has enough of them.
    pub(super) fn take(&mut self, caller: &str) -> Option<C> {
        if !self.may_take(caller) {
            return None;
        }
        let call = std::iter::from_fn(|| self.parked.pop_front()).find(Call::is_there)?;
        self.taken.insert(call.id(), caller.to_owned());
        Some(call)
    }

    /// Waits for a call; false if too many do, or too many of this caller.
    pub(super) fn wait(&mut self, caller: &str, give: oneshot::Sender<C>, waiting_max: usize) -> bool {
        let (part, of) = WAITING_OF_ONE;
        let has_place = |lot: &Self| {
            let own = lot.waiting.iter().find(|queue| queue.caller == caller).map_or(0, |queue| queue.waiting.len());
            let all: usize = lot.waiting.iter().map(|queue| queue.waiting.len()).sum();
            all < waiting_max && own < (waiting_max * part).div_ceil(of)
        };
        if !has_place(self) {
            for queue in &mut self.waiting {
                queue.waiting.retain(|waiting| !waiting.is_closed());
            }
            self.waiting.retain(|queue| !queue.waiting.is_empty());
            if !has_place(self) {
                return false;
            }
        }
        match self.waiting.iter_mut().find(|queue| queue.caller == caller) {
            Some(queue) => queue.waiting.push_back(give),
            None => self.waiting.push_back(Queue { caller: caller.to_owned(), waiting: VecDeque::from([give]) }),
        }
        true
    }

    /// Lets go of a call; whether nothing is left.
    pub(super) fn forget(&mut self, id: u64) -> bool {
        self.parked.retain(|call| call.id() != id);
        if self.taken.remove(&id).is_some() {
            // Its caller may have another one again, and there may be some.
            while let Some(call) = std::iter::from_fn(|| self.parked.pop_front()).find(Call::is_there) {
                if let Some(back) = self.give(call) {
                    self.parked.push_front(back);
                    break;
                }
            }
        }
        let is_awaited = self.waiting.iter().any(|queue| queue.waiting.iter().any(|waiting| !waiting.is_closed()));
        self.parked.is_empty() && self.taken.is_empty() && !is_awaited
    }

    fn may_take(&self, caller: &str) -> bool {
        self.taken.values().filter(|other| *other == caller).count() < CALLS_OF_ONE
    }

    /// Gives a call to whose turn it is; back if nobody waits for it who may have it.
    fn give(&mut self, mut call: C) -> Option<C> {
        for _ in 0..self.waiting.len() {
            let Some(mut queue) = self.waiting.pop_front() else { break };
            if !self.may_take(&queue.caller) {
                self.waiting.push_back(queue);
                continue;
            }
            let id = call.id();
            while let Some(waiting) = queue.waiting.pop_front() {
                match waiting.send(call) {
                    Ok(()) => {
                        self.taken.insert(id, queue.caller.clone());
                        if !queue.waiting.is_empty() {
                            self.waiting.push_back(queue);
                        }
                        return None;
                    }
                    // Whoever waited has left.
                    Err(back) => call = back,
                }
            }
        }
        Some(call)
    }
}

/// Frames to an agent; when it is dropped the call is over.
pub struct Outgoing {
    frames: mpsc::Receiver<Frame>,
    over: Option<Box<dyn FnOnce() + Send>>,
}

impl Outgoing {
    pub(super) fn new(frames: mpsc::Receiver<Frame>, over: Box<dyn FnOnce() + Send>) -> Self {
        Self { frames, over: Some(over) }
    }
}

impl futures::Stream for Outgoing {
    type Item = Result<Frame, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.frames.poll_recv(context).map(|frame| frame.map(Ok))
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        // Closed before anyone is told, so that nobody takes it any more.
        self.frames.close();
        if let Some(over) = self.over.take() {
            over();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call, and whether its connection is still open.
    struct Fake(u64, bool);

    impl Call for Fake {
        fn id(&self) -> u64 {
            self.0
        }

        fn is_there(&self) -> bool {
            self.1
        }
    }

    fn waits(lot: &mut Lot<Fake>, caller: &str, max: usize) -> Option<oneshot::Receiver<Fake>> {
        let (give, coming) = oneshot::channel();
        lot.wait(caller, give, max).then_some(coming)
    }

    #[test]
    fn callers_take_turns() {
        let mut lot = Lot::default();
        let mut many: Vec<_> = (0..10).map(|_| waits(&mut lot, "many", 100).unwrap()).collect();
        let mut one = waits(&mut lot, "one", 100).unwrap();
        // Whoever has left is passed over.
        drop(many.remove(1));
        for id in 0..3 {
            assert!(lot.park(Fake(id, true), 0));
        }
        assert_eq!(many[0].try_recv().unwrap().0, 0);
        assert_eq!(one.try_recv().unwrap().0, 1);
        assert_eq!(many[1].try_recv().unwrap().0, 2);
        assert!(many[2].try_recv().is_err());
    }

    #[test]
    fn nobody_has_all_calls() {
        let mut lot = Lot::default();
        for id in 0..192 {
            assert!(lot.park(Fake(id, id != 7), 192));
        }
        let taken: Vec<u64> = std::iter::from_fn(|| lot.take("many")).map(|call| call.0).collect();
        assert_eq!((taken.len(), taken.contains(&7)), (CALLS_OF_ONE, false));
        let mut waiting = waits(&mut lot, "many", 100).unwrap();
        assert!(lot.take("one").is_some() && waiting.try_recv().is_err());
        // A new call is kept for others, and one that ends makes room.
        assert!(lot.park(Fake(200, true), 192) && waiting.try_recv().is_err());
        assert!(!lot.forget(taken[0]));
        assert!(waiting.try_recv().is_ok());
    }

    #[test]
    fn nobody_has_all_places_to_wait() {
        let mut lot = Lot::default();
        let many: Vec<_> = std::iter::from_fn(|| waits(&mut lot, "many", 8)).collect();
        let few: Vec<_> = std::iter::from_fn(|| waits(&mut lot, "few", 8)).collect();
        assert_eq!((many.len(), few.len()), (4, 4));
        assert!(waits(&mut lot, "one", 8).is_none());
        drop(many);
        assert!(waits(&mut lot, "one", 8).is_some());
        assert!(waits(&mut Lot::default(), "one", 1).is_some(), "one place is somebody's");
    }

    #[test]
    fn it_is_empty_when_nothing_is_left() {
        let mut lot = Lot::default();
        assert!(lot.park(Fake(1, true), 1) && !lot.park(Fake(2, true), 1));
        assert!(lot.take("one").is_some());
        assert!(!lot.forget(2), "one is at work");
        assert!(lot.forget(1));
        let waiting = waits(&mut lot, "one", 1);
        assert!(!lot.forget(3));
        drop(waiting);
        assert!(lot.forget(3));
    }
}
