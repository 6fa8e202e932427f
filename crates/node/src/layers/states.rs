//! Which states there are and which are needed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Files;

/// A state: its layer and those below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// Its layers, topmost first; the first has its name, unless all of them have become one.
    pub(super) chain: Vec<String>,
    /// The state it was made from.
    pub(super) parent: Option<String>,
    /// The pod it was made in.
    pub(super) owner: String,
    /// The image below.
    pub(super) image: String,
    /// What it occupies, once that was looked at.
    #[serde(skip)]
    pub(super) bytes: Option<u64>,
}

/// All states of a node.
#[derive(Debug, Default)]
pub(super) struct States {
    /// By name.
    pub(super) known: BTreeMap<String, State>,
    /// What containers stand on, or are about to: by pod and name.
    pub(super) stands: BTreeMap<(String, String), BTreeSet<String>>,
    /// Containers whose files are being changed.
    pub(super) busy: BTreeSet<(String, String)>,
}

impl States {
    /// Takes notice of what a container stands on.
    pub(super) fn stand(&mut self, uid: &str, container: &str, files: &Files) {
        let intent = files.intent.iter().flat_map(|intent| intent.chain.iter());
        let on = files.base.iter().chain(intent).cloned().collect();
        self.stands.insert((uid.to_owned(), container.to_owned()), on);
    }

    /// Layers that are needed: those of states whose pods are there or that somebody stands on, and of all they came from.
    pub(super) fn needed(&self, is_there: impl Fn(&str) -> bool) -> BTreeSet<String> {
        let owned = self.known.iter().filter(|(_, state)| is_there(&state.owner)).map(|(name, _)| name.clone());
        let mut left: Vec<String> = owned.chain(self.stands.values().flatten().cloned()).collect();
        let mut needed = BTreeSet::new();
        let mut seen = BTreeSet::new();
        while let Some(name) = left.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            needed.insert(name.clone());
            if let Some(state) = self.known.get(&name) {
                needed.extend(state.chain.iter().cloned());
                left.extend(state.parent.clone());
            }
        }
        needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(chain: &[&str], parent: Option<&str>, owner: &str) -> State {
        State {
            chain: chain.iter().map(|name| (*name).to_owned()).collect(),
            parent: parent.map(str::to_owned),
            owner: owner.to_owned(),
            image: "i".to_owned(),
            bytes: None,
        }
    }

    #[test]
    fn what_somebody_stands_on_stays_with_all_it_came_from() {
        let mut states = States::default();
        for (name, of) in [
            ("a", state(&["a"], None, "p")),
            ("b", state(&["b", "a"], Some("a"), "p")),
            ("c", state(&["c", "b", "a"], Some("b"), "p")),
            ("d", state(&["d", "b", "a"], Some("b"), "q")),
        ] {
            states.known.insert(name.to_owned(), of);
        }
        let needed = |states: &States, there: &[&str]| -> Vec<String> {
            states.needed(|uid| there.contains(&uid)).into_iter().collect()
        };
        assert_eq!(needed(&states, &["p", "q"]), ["a", "b", "c", "d"]);
        assert_eq!(needed(&states, &["q"]), ["a", "b", "d"], "what it was forked from stays");
        assert_eq!(needed(&states, &[]), Vec::<String>::new());
        states.stands.insert(("r".to_owned(), "main".to_owned()), BTreeSet::from(["b".to_owned()]));
        assert_eq!(needed(&states, &[]), ["a", "b"]);
    }
}
