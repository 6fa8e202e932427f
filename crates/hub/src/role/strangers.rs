//! Agents that prove who they are, and that nobody has made known here.

use std::collections::BTreeSet;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tonic::Status;

/// Names that are remembered so as not to be logged again; beyond it they are forgotten and logged anew.
const LOGGED_MAX: usize = 4_096;

/// Counts them, and says each once.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    counted: Counter,
    logged: BTreeSet<String>,
}

impl Strangers {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Streams of agents without a cluster secret that were turned away";
        registry.register("hub_unknown_agents", help, self.counted.clone());
    }

    /// Whether this is news.
    pub(super) fn turn_away(&mut self, agent: &str) -> bool {
        self.counted.inc();
        if self.logged.len() >= LOGGED_MAX && !self.logged.contains(agent) {
            self.logged.clear();
        }
        let is_new = self.logged.insert(agent.to_owned());
        if is_new {
            tracing::warn!(agent, "an agent without a cluster secret was turned away; `thane agents create` makes one");
        } else {
            tracing::debug!(agent, "an agent without a cluster secret was turned away again");
        }
        is_new
    }

    /// It is known now: what happens to it from now on is news.
    pub(super) fn known(&mut self, agent: &str) {
        self.logged.remove(agent);
    }
}

/// What it is told.
pub(super) fn answer(agent: &str) -> Status {
    Status::failed_precondition(format!(
        "the hub has no cluster secret for agent {agent}: make it with `thane agents create {agent}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_said_once_and_all_are_counted() {
        let mut strangers = Strangers::default();
        let said = ["a", "a", "b", "a"].map(|agent| strangers.turn_away(agent));
        assert_eq!((said, strangers.counted.get()), ([true, false, true, false], 4));
        strangers.known("a");
        assert!(strangers.turn_away("a"));
        for number in 0..3 * LOGGED_MAX {
            strangers.turn_away(&number.to_string());
            assert!(strangers.logged.len() <= LOGGED_MAX);
        }
    }
}
