//! Which event of the peer an object's last change here goes back to, so that what follows from it has the same trace.

use std::collections::{BTreeMap, VecDeque};

use crate::lane::Lane;

/// Objects whose cause is remembered; beyond that the oldest is forgotten and a new trace begins.
const KNOWN_MAX: usize = 1_000;

/// Trace ids of events, by the lane of their object.
#[derive(Debug, Default)]
pub(super) struct Causes {
    known: BTreeMap<Lane, String>,
    order: VecDeque<Lane>,
}

impl Causes {
    /// The object is now as an event with this trace context made it.
    pub(super) fn remember(&mut self, lane: Lane, trace_parent: &str) {
        let Some(id) = trace_id(trace_parent) else { return };
        if self.known.insert(lane.clone(), id.to_owned()).is_some() {
            return;
        }
        self.order.push_back(lane);
        if self.order.len() > KNOWN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// The id of the trace that object belongs to.
    pub(super) fn of(&self, lane: &Lane) -> Option<&str> {
        self.known.get(lane).map(String::as_str)
    }
}

/// The id of the trace in a W3C trace context.
fn trace_id(trace_parent: &str) -> Option<&str> {
    let mut parts = trace_parent.split('-');
    let id = parts.nth(1)?;
    (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_are_remembered_and_only_what_is_a_trace() {
        let mut causes = Causes::default();
        let lane = |number: usize| Lane::new(format!("lane-{number}"));
        let trace = |number: usize| format!("00-{number:032x}-{number:016x}-01");
        for number in 0..=KNOWN_MAX {
            causes.remember(lane(number), &trace(number));
        }
        assert_eq!((causes.known.len(), causes.order.len()), (KNOWN_MAX, KNOWN_MAX));
        assert_eq!(causes.of(&lane(0)), None);
        causes.remember(lane(1), &trace(7));
        assert_eq!(causes.of(&lane(1)), Some(&*format!("{:032x}", 7)));
        for bad in ["", "00", "00-12-34-01", "00-zz000000000000000000000000000000-34-01"] {
            causes.remember(lane(1), bad);
        }
        assert_eq!(causes.of(&lane(1)), Some(&*format!("{:032x}", 7)));
    }
}
