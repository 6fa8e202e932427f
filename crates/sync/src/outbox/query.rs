//! Questions about what is queued.

use thane_api::event::Type;

use super::Outbox;
use super::stages::Stage;
use crate::lane::Lane;

impl Outbox {
    /// Whether an event of that type waits in the lane or is in flight there.
    pub fn is_waiting_for(&self, lane: &Lane, kind: &Type) -> bool {
        let Some(work) = self.lanes.get(lane) else { return false };
        let is_flying = matches!(&work.stage, Stage::Flying(flight) if flight.event.kind == *kind);
        is_flying || work.unsent.iter().any(|entry| entry.out.kind == *kind)
    }
}
